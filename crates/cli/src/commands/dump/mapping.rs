//! What names a file's blocks: extent trees and block maps.
//!
//! # Invariants
//! A block is followed once, so that a tree that names one many times takes no longer than the image is
//! large.

use super::view::{View, checksum_word};
use anyhow::{Result, bail};
use serde::Serialize;
use std::collections::HashSet;
use std::fmt::Write;
use uext4::unstable::ondisk::{
    EXTENT_DEPTH_MAX, Extent, ExtentNode, FileType, Ino, Inode, InodeFlags, InodeSeed, MAP_DIRECT,
    MapShape, Pblk, extent_block_checksum_verify,
};

/// A node of an extent tree, or a block of a block map.
#[derive(Serialize)]
pub struct NodeDump {
    /// Nothing for the inode's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
    /// The block of the file that the entry above it begins with.
    #[serde(skip)]
    pub lblk: u64,
    pub depth: u16,
    pub entries: u64,
    room: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum_ok: Option<bool>,
    /// Why what is below isn't shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunDump>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<NodeDump>,
}

/// Blocks of the file that lie together.
#[derive(Clone, Copy, Serialize)]
pub struct RunDump {
    /// First block in the file.
    pub lblk: u64,
    /// Number of blocks.
    pub len: u64,
    /// First block on disk.
    pub pblk: u64,
    /// They read as zeros.
    pub unwritten: bool,
}

impl From<Extent> for RunDump {
    fn from(extent: Extent) -> RunDump {
        RunDump {
            lblk: u64::from(extent.lblk.0),
            len: u64::from(extent.len),
            pblk: extent.pblk.0,
            unwritten: extent.unwritten,
        }
    }
}

impl NodeDump {
    fn empty(block: Option<Pblk>, depth: u16) -> NodeDump {
        NodeDump {
            block: block.map(|b| b.0),
            lblk: 0,
            depth,
            entries: 0,
            room: 0,
            checksum_ok: None,
            fault: None,
            runs: Vec::new(),
            below: Vec::new(),
        }
    }

    fn faulty(block: Pblk, depth: u16, why: &anyhow::Error) -> NodeDump {
        NodeDump {
            fault: Some(format!("{why:#}")),
            ..NodeDump::empty(Some(block), depth)
        }
    }

    /// The runs of the node and all below it.
    pub fn all_runs(&self) -> Vec<RunDump> {
        let below = self.below.iter().flat_map(NodeDump::all_runs);
        self.runs.iter().copied().chain(below).collect()
    }

    /// As text, further in for each step down.
    pub fn write(&self, indent: usize, out: &mut String) {
        let place = match self.block {
            Some(block) => format!("block {block}"),
            None => "in the inode".to_owned(),
        };
        let (depth, entries, room) = (self.depth, self.entries, self.room);
        let checksum = checksum_word(self.checksum_ok);
        let pad = " ".repeat(indent);
        let _ = writeln!(
            out,
            "{pad}{place}: depth {depth}, {entries} of {room} entries{checksum}"
        );
        if let Some(fault) = &self.fault {
            let _ = writeln!(out, "{pad}  FAULT: {fault}");
        }
        for run in &self.runs {
            let (first, last) = (run.lblk, run.lblk + run.len - 1);
            let unwritten = if run.unwritten { " unwritten" } else { "" };
            let (pblk, end) = (run.pblk, run.pblk + run.len - 1);
            let _ = writeln!(out, "{pad}  {first}-{last}: {pblk}-{end}{unwritten}");
        }
        for node in &self.below {
            node.write(indent + 2, out);
        }
    }
}

/// What names an inode's blocks; nothing where it has none to name.
pub fn dump(view: &View, ino: Ino, inode: &Inode) -> Option<NodeDump> {
    let has_blocks = matches!(
        inode.file_type(),
        FileType::Regular | FileType::Directory | FileType::Symlink
    );
    let is_inline = inode.flags.contains(InodeFlags::INLINE_DATA);
    if !has_blocks || is_inline || inode.is_fast_symlink() {
        return None;
    }
    let has_csum = view.sb.has_metadata_csum();
    let mut walk = Walk {
        view,
        seed: has_csum.then(|| inode.seed(view.seed(), ino)),
        seen: HashSet::new(),
    };
    Some(match inode.flags.contains(InodeFlags::EXTENTS) {
        true => walk.extent_node(None, &inode.i_block, EXTENT_DEPTH_MAX + 1),
        false => walk.block_map(&inode.i_block),
    })
}

/// On the way through what names an inode's blocks.
struct Walk<'a> {
    view: &'a View,
    /// With checksums.
    seed: Option<InodeSeed>,
    /// Blocks that were followed.
    seen: HashSet<u64>,
}

impl Walk<'_> {
    /// The content of a block that names others, the first time.
    fn follow(&mut self, at: Pblk) -> Result<Vec<u8>> {
        if !self.seen.insert(at.0) {
            bail!("is named more than once");
        }
        self.view.block(at)
    }

    /// A node of an extent tree, of a depth less than `above`.
    fn extent_node(&mut self, block: Option<Pblk>, bytes: &[u8], above: u16) -> NodeDump {
        let node = ExtentNode::new(bytes);
        let mut dump = NodeDump {
            entries: u64::from(node.len()),
            room: u64::from(node.max()),
            checksum_ok: match (block, self.seed) {
                (Some(_), Some(seed)) => Some(extent_block_checksum_verify(bytes, seed).is_ok()),
                _ => None,
            },
            ..NodeDump::empty(block, node.depth())
        };
        if node.depth() >= above {
            dump.fault = Some("its depth is not less than that above it".to_owned());
        } else if node.depth() == 0 {
            let used = node.extents().filter(|e| e.len > 0);
            dump.runs = used.map(RunDump::from).collect();
        } else {
            for idx in node.indexes() {
                let mut child = match self.follow(idx.child) {
                    Ok(bytes) => self.extent_node(Some(idx.child), &bytes, node.depth()),
                    Err(why) => NodeDump::faulty(idx.child, node.depth() - 1, &why),
                };
                child.lblk = u64::from(idx.lblk.0);
                dump.below.push(child);
            }
        }
        dump
    }

    fn block_map(&mut self, i_block: &[u8]) -> NodeDump {
        let numbers = numbers(i_block);
        let shape = MapShape::new(self.view.sb.geometry.block_size);
        let (direct, indirect) = numbers.split_at(numbers.len().min(MAP_DIRECT));
        let mut dump = NodeDump {
            entries: numbers.iter().filter(|n| **n != 0).count() as u64,
            room: numbers.len() as u64,
            runs: runs(0, direct),
            ..NodeDump::empty(None, 0)
        };
        for (i, at) in indirect.iter().enumerate().filter(|(_, n)| **n != 0) {
            let (levels, lblk) = shape.root(MAP_DIRECT + i);
            dump.depth = levels as u16;
            dump.below
                .push(self.map_block(Pblk(*at), shape, levels - 1, lblk));
        }
        dump
    }

    /// A block of block numbers with `levels` levels of such below it.
    fn map_block(&mut self, at: Pblk, shape: MapShape, levels: usize, lblk: u64) -> NodeDump {
        let bytes = match self.follow(at) {
            Ok(bytes) => bytes,
            Err(why) => return NodeDump::faulty(at, levels as u16, &why),
        };
        let numbers = numbers(&bytes);
        let mut dump = NodeDump {
            entries: numbers.iter().filter(|n| **n != 0).count() as u64,
            room: shape.per_block() as u64,
            ..NodeDump::empty(Some(at), levels as u16)
        };
        if levels == 0 {
            dump.runs = runs(lblk, &numbers);
            return dump;
        }
        for (i, below) in numbers.iter().enumerate().filter(|(_, n)| **n != 0) {
            let lblk = lblk + i as u64 * shape.span(levels);
            let child = self.map_block(Pblk(*below), shape, levels - 1, lblk);
            dump.below.push(child);
        }
        dump
    }
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<4>();
    words
        .iter()
        .map(|w| u64::from(u32::from_le_bytes(*w)))
        .collect()
}

/// Block numbers in a row, those that follow each other together.
fn runs(first: u64, numbers: &[u64]) -> Vec<RunDump> {
    let mut runs: Vec<RunDump> = Vec::new();
    for (i, &pblk) in numbers.iter().enumerate().filter(|(_, n)| **n != 0) {
        let lblk = first + i as u64;
        match runs.last_mut() {
            Some(last) if last.lblk + last.len == lblk && last.pblk + last.len == pblk => {
                last.len += 1;
            }
            _ => runs.push(RunDump {
                lblk,
                len: 1,
                pblk,
                unwritten: false,
            }),
        }
    }
    runs
}

/// Where a block of a file lies.
///
/// # Errors
/// Nothing names it.
pub fn place(runs: &[RunDump], lblk: u64) -> Result<Pblk> {
    let found = runs
        .iter()
        .find(|r| (r.lblk..r.lblk + r.len).contains(&lblk));
    let run = found.ok_or_else(|| anyhow::anyhow!("block {lblk} of the file is a hole"))?;
    Ok(Pblk(run.pblk + (lblk - run.lblk)))
}
