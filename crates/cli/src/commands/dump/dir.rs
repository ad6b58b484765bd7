//! The blocks of a directory: entries, and the nodes of its hash tree.

use super::view::{View, checksum_word};
use super::{Dump, mapping};
use anyhow::{Result, bail};
use serde::Serialize;
use std::fmt::Write;
use uext4::unstable::ondisk::{
    DxKind, DxRootInfo, DxView, FileType, Incompat, Ino, Inode, InodeFlags, Lblk, RoCompat,
    dir_checksum_verify, dir_data_end, dir_entries, dx_checksum_verify, dx_kind_of,
};

#[derive(Serialize)]
pub struct DirDump {
    inode: u32,
    hashed: bool,
    blocks: Vec<DirBlock>,
}

#[derive(Serialize)]
struct DirBlock {
    /// In the directory.
    lblk: u64,
    /// On disk.
    pblk: u64,
    /// `root`, `node` or `entries`.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    checksum_ok: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    index: Vec<IndexEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    entries: Vec<Entry>,
}

#[derive(Serialize)]
struct IndexEntry {
    hash: u32,
    block: u32,
}

#[derive(Serialize)]
struct Entry {
    offset: usize,
    length: usize,
    inode: u32,
    #[serde(rename = "type")]
    kind: String,
    name: String,
}

/// Reads a directory.
///
/// # Errors
/// No directory, or one whose inode can't be read.
pub fn dump(view: &View, ino: Ino) -> Result<DirDump> {
    let found = view.inode(ino)?;
    let inode = &found.inode;
    if inode.file_type() != FileType::Directory {
        bail!("inode {}: is not a directory", ino.0);
    }
    if inode.flags.contains(InodeFlags::INLINE_DATA) {
        bail!("inode {}: its entries are inline", ino.0);
    }
    let runs = mapping::dump(view, ino, inode).map_or_else(Vec::new, |map| map.all_runs());
    let hashed = inode.flags.contains(InodeFlags::INDEX);
    let named = runs
        .iter()
        .flat_map(|run| (0..run.len).map(|i| (run.lblk + i, run.pblk + i)));
    // A mapping that is damaged may name more than there are.
    let most = view.sb.geometry.blocks_count as usize;
    let blocks = named
        .take(most)
        .map(|(lblk, pblk)| dir_block(view, ino, inode, lblk, pblk))
        .collect();
    Ok(DirDump {
        inode: ino.0,
        hashed,
        blocks,
    })
}

fn dir_block(view: &View, ino: Ino, inode: &Inode, lblk: u64, pblk: u64) -> DirBlock {
    let mut dump = DirBlock {
        lblk,
        pblk,
        kind: "entries",
        checksum_ok: None,
        hash: None,
        fault: None,
        index: Vec::new(),
        entries: Vec::new(),
    };
    let bytes = match view.block(uext4::unstable::ondisk::Pblk(pblk)) {
        Ok(bytes) => bytes,
        Err(why) => {
            dump.fault = Some(format!("{why:#}"));
            return dump;
        }
    };
    let has_csum = view.sb.ro_compat.contains(RoCompat::METADATA_CSUM);
    let seed = has_csum.then(|| inode.seed(view.seed(), ino));
    let is_hashed = inode.flags.contains(InodeFlags::INDEX);
    let kind = dx_kind_of(&bytes, Lblk(lblk as u32)).filter(|_| is_hashed);
    if let Some(kind) = kind {
        dump.checksum_ok = seed.map(|seed| dx_checksum_verify(&bytes, kind, seed).is_ok());
        let large = view.sb.incompat.contains(Incompat::LARGE_DIR);
        dump.kind = if kind == DxKind::Root { "root" } else { "node" };
        if kind == DxKind::Root {
            match DxRootInfo::read(&bytes, large) {
                Ok(info) => dump.hash = Some(format!("{:?}", info.hash_version).to_lowercase()),
                Err(why) => dump.fault = Some(why.to_string()),
            }
        }
        let entries = DxView::new(&bytes, kind).entries();
        let index = |e: uext4::unstable::ondisk::DxEntry| IndexEntry {
            hash: e.hash,
            block: e.block.0,
        };
        dump.index = entries.map(index).collect();
        return dump;
    }
    dump.checksum_ok = seed.map(|seed| dir_checksum_verify(&bytes, seed).is_ok());
    for entry in dir_entries(&bytes, dir_data_end(bytes.len(), has_csum)) {
        match entry {
            Ok(e) => dump.entries.push(Entry {
                offset: e.offset,
                length: e.rec_len,
                inode: e.ino.0,
                kind: format!("{:?}", e.file_type).to_lowercase(),
                name: e.name.escape_ascii().to_string(),
            }),
            Err(why) => {
                dump.fault = Some(why.to_string());
                break;
            }
        }
    }
    dump
}

impl Dump for DirDump {
    fn text(&self) -> String {
        let mut out = String::new();
        let hashed = if self.hashed { ", a hash tree" } else { "" };
        let _ = writeln!(out, "directory {}{hashed}", self.inode);
        for block in &self.blocks {
            let checksum = checksum_word(block.checksum_ok);
            let (lblk, pblk, kind) = (block.lblk, block.pblk, block.kind);
            let hash = block
                .hash
                .as_deref()
                .map_or_else(String::new, |h| format!(", {h}"));
            let _ = writeln!(out, "block {lblk} ({pblk} on disk): {kind}{hash}{checksum}");
            if let Some(fault) = &block.fault {
                let _ = writeln!(out, "  FAULT: {fault}");
            }
            for entry in &block.index {
                let _ = writeln!(out, "  hash {:08x}: block {}", entry.hash, entry.block);
            }
            for e in &block.entries {
                let (at, len) = (e.offset, e.length);
                match e.inode {
                    0 => drop(writeln!(out, "  {at:>5} +{len:<5} free")),
                    ino => {
                        let _ = writeln!(
                            out,
                            "  {at:>5} +{len:<5} {ino:>10} {:<9} {}",
                            e.kind, e.name
                        );
                    }
                }
            }
        }
        out
    }
}
