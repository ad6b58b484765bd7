//! Quota files, with the usage that was counted. Limits are kept.

use super::editor::Editor;
use super::map::{self, NodePool};
use crate::layout::quota_inodes;
use crate::passes::Scanned;
use crate::prelude::*;
use crate::quota::{BLOCK, DEPTH, ENTRY, LEAF_HEADER, MAGIC, QuotaFile, VERSION};
use uext4_ondisk::Extent;

/// Bytes of fields of the first block.
const VERSION_AT: usize = 4;
const BLOCK_GRACE_AT: usize = 8;
const INODE_GRACE_AT: usize = 12;
const BLOCKS_AT: usize = 20;
const FREE_ENTRY_AT: usize = 28;
/// Seconds of grace of a new file.
const GRACE: u32 = 7 * 86_400;
/// Bytes of fields of an entry.
const INODES_AT: usize = 24;
const SPACE_AT: usize = 48;
/// Byte of a leaf's number of entries.
const LEAF_COUNT_AT: usize = 8;

type Block = Vec<u8>;

fn put64(b: &mut [u8], at: usize, v: u64) {
    put32(b, at, v as u32);
    put32(b, at.saturating_add(4), (v >> 32) as u32);
}

/// Writes the files that disagree with the usage again.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, scanned: &Scanned, faults: &[Fault]) -> Result<()> {
    let files = quota_inodes(&ed.cx.sb.raw);
    for (i, (_, ino)) in files.into_iter().enumerate() {
        let wrong = |f: &Fault| f.kind == FaultKind::QuotaUsage && f.ino == Some(ino);
        if ino == Ino::NONE || !faults.iter().any(wrong) {
            continue;
        }
        let (Some(used), Some(magic)) = (scanned.usage.of(i), MAGIC.get(i)) else {
            continue;
        };
        let Some(mut old) = QuotaFile::open(ed.cx, ino)? else {
            continue;
        };
        let (first, mut entries) = old.entries()?;
        for entry in entries.values_mut() {
            put64(entry, SPACE_AT, 0);
            put64(entry, INODES_AT, 0);
        }
        for (id, (space, inodes)) in used {
            let entry = entries.entry(*id).or_insert_with(|| vec![0; ENTRY]);
            put32(entry, 0, *id);
            put64(entry, SPACE_AT, *space);
            put64(entry, INODES_AT, *inodes);
        }
        let blocks = tree(&first, *magic, &entries);
        write(ed, ino, &blocks)?;
    }
    Ok(())
}

/// The blocks of a file with these entries.
fn tree(first: &[u8], magic: u32, entries: &BTreeMap<u32, Vec<u8>>) -> Vec<Block> {
    let mut blocks: Vec<Block> = vec![vec![0; BLOCK]; 2];
    let per_leaf = (BLOCK - LEAF_HEADER) / ENTRY;
    let mut leaf = 0usize;
    let mut in_leaf = per_leaf;
    for (id, entry) in entries {
        if in_leaf == per_leaf {
            leaf = blocks.len();
            in_leaf = 0;
            blocks.push(vec![0; BLOCK]);
        }
        if let Some(block) = blocks.get_mut(leaf) {
            let at = LEAF_HEADER + in_leaf * ENTRY;
            if let Some(to) = block.get_mut(at..at + ENTRY) {
                to.copy_from_slice(entry);
            }
            put16(block, LEAF_COUNT_AT, in_leaf as u16 + 1);
        }
        in_leaf += 1;
        let mut node = 1usize;
        for level in (0..DEPTH).rev() {
            let slot = (id >> (8 * level) & 0xff) as usize * 4;
            let below = blocks.get(node).and_then(|b| le32(b, slot)).unwrap_or(0);
            let below = match (level, below) {
                (0, _) => leaf as u32,
                (_, 0) => {
                    blocks.push(vec![0; BLOCK]);
                    blocks.len() as u32 - 1
                }
                (_, there) => there,
            };
            if let Some(block) = blocks.get_mut(node) {
                put32(block, slot, below);
            }
            node = below as usize;
        }
    }
    let count = blocks.len() as u32;
    let free = if in_leaf < per_leaf { leaf as u32 } else { 0 };
    if let Some(header) = blocks.first_mut() {
        let sound = le32(first, 0) == Some(magic) && le32(first, VERSION_AT) == Some(VERSION);
        put32(header, 0, magic);
        put32(header, VERSION_AT, VERSION);
        for at in [BLOCK_GRACE_AT, INODE_GRACE_AT] {
            let kept = le32(first, at).filter(|_| sound);
            put32(header, at, kept.unwrap_or(GRACE));
        }
        put32(header, BLOCKS_AT, count);
        put32(header, FREE_ENTRY_AT, free);
    }
    blocks
}

/// Writes the file, which grows if it has not enough blocks.
fn write(ed: &mut Editor<'_, '_>, ino: Ino, blocks: &[Block]) -> Result<()> {
    let Some(mut inode) = ed.decoded(ino)? else {
        return Ok(());
    };
    let size = ed.cx.block_size();
    let mut bytes = blocks.concat();
    bytes.resize(bytes.len().next_multiple_of(size), 0);
    let mut found = map::read(ed, &inode)?;
    let mut grown = false;
    for (lblk, block) in (0u32..).zip(bytes.chunks_exact(size)) {
        let at = match found.find(Lblk(lblk)) {
            Some(at) => at,
            None => {
                let Some(at) = ed.allocate().filter(|_| u64::from(lblk) >= found.end()) else {
                    return Ok(());
                };
                let run = Extent {
                    lblk: Lblk(lblk),
                    len: 1,
                    unwritten: false,
                    pblk: at,
                };
                found.push(run, &ed.cx.geo);
                grown = true;
                at
            }
        };
        ed.put_block(at, block);
    }
    inode.size = inode.size.max(bytes.len() as u64);
    if grown {
        let mut own = std::mem::take(&mut found.nodes);
        own.reverse();
        map::write(ed, ino, &mut inode, &found, &mut NodePool::new(own));
    }
    ed.put_decoded(ino, &inode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_owner_has_a_leaf() {
        let ids = [0u32, 1, 255, 256, 65536, u32::MAX];
        let many = ids.into_iter().chain(1000..1040);
        let entries: BTreeMap<u32, Vec<u8>> = many.map(|id| (id, vec![1; ENTRY])).collect();
        let blocks = tree(&[], MAGIC[0], &entries);
        for id in entries.keys() {
            let node = (0..DEPTH).rev().fold(1, |node, level| {
                let slot = (id >> (8 * level) & 0xff) as usize * 4;
                le32(&blocks[node], slot).unwrap() as usize
            });
            assert!(node > 1 && le16(&blocks[node], LEAF_COUNT_AT).unwrap() > 0);
        }
        assert_eq!(le32(&blocks[0], BLOCKS_AT), Some(blocks.len() as u32));
    }
}
