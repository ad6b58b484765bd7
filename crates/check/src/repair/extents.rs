//! Trees of extents: what is sound in a damaged one, and new ones.

use super::editor::Editor;
use super::runs::{Map, NodePool};
use crate::prelude::*;
use uext4_ondisk::{
    EXTENT_DEPTH_MAX, EXTENT_MAGIC, EXTENT_ROOT_ENTRIES, Extent, ExtentIdx, ExtentNode,
    ExtentNodeMut, extent_block_checksum_set, extent_block_entries,
};

/// Bytes of a header and of an entry.
const HEADER: usize = 12;
const ENTRY: usize = 12;

/// Reads the tree below a root.
///
/// # Errors
/// The device's.
pub(crate) fn read(ed: &Editor<'_, '_>, root: &[u8; 60], map: &mut Map) -> Result<()> {
    node(ed, root, None, 1 << 32, map)
}

/// Entries that a node has room for, and those that it counts; none if that can't be right.
fn entries(bytes: &[u8], is_root: bool) -> u16 {
    let node = ExtentNode::new(bytes);
    let room = bytes.len().saturating_sub(HEADER) / ENTRY;
    let magic = le16(bytes, 0) == Some(EXTENT_MAGIC);
    // A node in a block that does not say so was overwritten; a root may have lost its header only.
    if !magic && !is_root {
        return 0;
    }
    let fits = magic && usize::from(node.len()) <= room;
    if fits { node.len() } else { room as u16 }
}

fn node(
    ed: &Editor<'_, '_>,
    bytes: &[u8],
    depth: Option<u16>,
    end: u64,
    map: &mut Map,
) -> Result<()> {
    let view = ExtentNode::new(bytes);
    let depth = depth.unwrap_or_else(|| view.depth());
    let count = entries(bytes, bytes.len() == 60);
    // A root with an impossible depth is most likely one without nodes.
    let depth = if depth > EXTENT_DEPTH_MAX { 0 } else { depth };
    if depth == 0 {
        let entries = (0..usize::from(count)).filter_map(|i| entry_extent(bytes, i));
        map.push_node(&entries.collect::<Vec<_>>(), end, &ed.cx.geo);
        return Ok(());
    }
    for i in 0..usize::from(count) {
        let Some(idx) = entry_index(bytes, i) else {
            continue;
        };
        if ed.cx.bounds().contains(idx.child, 1) && map.enter(ed, idx.child) {
            let next = entry_index(bytes, i + 1).filter(|_| i + 1 < usize::from(count));
            let next = next.filter(|next| next.lblk > idx.lblk);
            let end = next.map_or(end, |next| u64::from(next.lblk.0));
            let child = ed.block(idx.child)?;
            node(ed, &child, Some(depth - 1), end, map)?;
            map.leave(ed, idx.child);
        }
    }
    Ok(())
}

/// Bytes of a copy of a node whose header has room for the entry.
fn one_entry(bytes: &[u8], i: usize) -> Option<[u8; HEADER + ENTRY]> {
    let at = HEADER.checked_add(i.checked_mul(ENTRY)?)?;
    let mut copy = [0; HEADER + ENTRY];
    let entry = bytes.get(at..at.checked_add(ENTRY)?)?;
    copy.get_mut(HEADER..)?.copy_from_slice(entry);
    copy.get_mut(..2)?
        .copy_from_slice(&EXTENT_MAGIC.to_le_bytes());
    *copy.get_mut(2)? = 1;
    *copy.get_mut(4)? = 1;
    Some(copy)
}

fn entry_extent(bytes: &[u8], i: usize) -> Option<Extent> {
    ExtentNode::new(&one_entry(bytes, i)?).extent(0)
}

fn entry_index(bytes: &[u8], i: usize) -> Option<ExtentIdx> {
    ExtentNode::new(&one_entry(bytes, i)?).idx(0)
}

/// A level of a new tree: the first file block of each node, and its block.
type Level = Vec<ExtentIdx>;

/// Makes a tree and returns its root; `None` if there are not enough blocks for its nodes.
pub(crate) fn write(
    ed: &mut Editor<'_, '_>,
    seed: Option<InodeSeed>,
    map: &Map,
    pool: &mut NodePool,
) -> Option<[u8; 60]> {
    let mut root = [0; 60];
    if map.runs.len() <= usize::from(EXTENT_ROOT_ENTRIES) {
        let mut node = ExtentNodeMut::init(&mut root, 0);
        for (i, e) in map.runs.iter().enumerate() {
            node.insert_extent_at(i, *e).ok()?;
        }
        return Some(root);
    }
    let room = usize::from(extent_block_entries(ed.cx.geo.block_size));
    let mut level: Level = Vec::new();
    let mut blocks = Vec::new();
    for runs in map.runs.chunks(room) {
        let mut block = vec![0; ed.cx.block_size()];
        let mut node = ExtentNodeMut::init(&mut block, 0);
        for (i, e) in runs.iter().enumerate() {
            node.insert_extent_at(i, *e).ok()?;
        }
        let child = pool.take(ed)?;
        blocks.push((child, block));
        let lblk = runs.first()?.lblk;
        level.push(ExtentIdx { lblk, child });
    }
    let mut depth = 1;
    while level.len() > usize::from(EXTENT_ROOT_ENTRIES) {
        let below = std::mem::take(&mut level);
        for nodes in below.chunks(room) {
            let mut block = vec![0; ed.cx.block_size()];
            fill_index(&mut block, depth, nodes)?;
            let child = pool.take(ed)?;
            blocks.push((child, block));
            let lblk = nodes.first()?.lblk;
            level.push(ExtentIdx { lblk, child });
        }
        depth += 1;
    }
    fill_index(&mut root, depth, &level)?;
    // The blocks are those of the old tree, which stays if there are not enough.
    for (at, mut block) in blocks {
        if let Some(seed) = seed {
            extent_block_checksum_set(&mut block, seed);
        }
        ed.put_block(at, &block);
    }
    Some(root)
}

fn fill_index(bytes: &mut [u8], depth: u16, nodes: &[ExtentIdx]) -> Option<()> {
    let mut node = ExtentNodeMut::init(bytes, depth);
    for (i, idx) in nodes.iter().enumerate() {
        node.insert_idx_at(i, *idx).ok()?;
    }
    Some(())
}
