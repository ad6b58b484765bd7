//! Block maps: what is sound in a damaged one, and new ones.

use super::editor::Editor;
use super::runs::{Map, NodePool};
use crate::prelude::*;
use uext4_ondisk::Extent;

/// Pointers of an inode that lead to data.
const DIRECT: u32 = 12;
/// Pointers of an inode.
const POINTERS: u32 = 15;

/// Reads the map of an inode.
///
/// # Errors
/// The device's.
pub(crate) fn read(ed: &Editor<'_, '_>, root: &[u8; 60], map: &mut Map) -> Result<()> {
    let mut lblk = 0;
    for i in 0..POINTERS {
        let p = le32(root, i as usize * 4).unwrap_or(0);
        let level = (i + 1).saturating_sub(DIRECT);
        pointer(ed, p, level, lblk, map)?;
        lblk = lblk.saturating_add(span(ed, level));
    }
    Ok(())
}

/// File blocks below a pointer of a level.
fn span(ed: &Editor<'_, '_>, level: u32) -> u64 {
    u64::from(ed.cx.geo.block_size / 4).saturating_pow(level)
}

fn pointer(ed: &Editor<'_, '_>, p: u32, level: u32, lblk: u64, map: &mut Map) -> Result<()> {
    let at = Pblk(p.into());
    let Ok(first) = u32::try_from(lblk) else {
        return Ok(());
    };
    if p == 0 || !ed.cx.bounds().contains(at, 1) {
        return Ok(());
    }
    let Some(below) = level.checked_sub(1) else {
        let e = Extent {
            lblk: Lblk(first),
            len: 1,
            unwritten: false,
            pblk: at,
        };
        map.push(e, &ed.cx.geo);
        return Ok(());
    };
    if !map.enter(ed, at) {
        return Ok(());
    }
    let block = ed.block(at)?;
    for (i, entry) in (0u64..).zip(block.as_chunks::<4>().0) {
        let lblk = lblk.saturating_add(i.saturating_mul(span(ed, below)));
        pointer(ed, u32::from_le_bytes(*entry), below, lblk, map)?;
    }
    map.leave(ed, at);
    Ok(())
}

/// Makes a map and returns the pointers of the inode; `None` if there are not enough blocks for the others.
pub(crate) fn write(ed: &mut Editor<'_, '_>, map: &Map, pool: &mut NodePool) -> Option<[u8; 60]> {
    let blocks: Vec<(Lblk, Pblk)> = map.blocks().collect();
    let mut root = [0; 60];
    let (mut lblk, mut nodes) = (0, Vec::new());
    for i in 0..POINTERS {
        let level = (i + 1).saturating_sub(DIRECT);
        let p = subtree(ed, &blocks, level, lblk, pool, &mut nodes)?;
        put32(&mut root, i as usize * 4, p);
        lblk = lblk.saturating_add(span(ed, level));
    }
    // The blocks are those of the old map, which stays if there are not enough.
    for (at, block) in nodes {
        ed.put_block(at, &block);
    }
    Some(root)
}

/// The pointer to what is mapped from `lblk` on; 0 if nothing is.
fn subtree(
    ed: &mut Editor<'_, '_>,
    blocks: &[(Lblk, Pblk)],
    level: u32,
    lblk: u64,
    pool: &mut NodePool,
    nodes: &mut Vec<(Pblk, Vec<u8>)>,
) -> Option<u32> {
    let end = lblk.saturating_add(span(ed, level));
    let from = blocks.partition_point(|b| u64::from(b.0.0) < lblk);
    let to = blocks.partition_point(|b| u64::from(b.0.0) < end);
    let mine = blocks.get(from..to).unwrap_or(&[]);
    let Some(first) = mine.first() else {
        return Some(0);
    };
    let Some(below) = level.checked_sub(1) else {
        return u32::try_from(first.1.0).ok();
    };
    let at = pool.take(ed)?;
    let mut block = vec![0; ed.cx.block_size()];
    let step = span(ed, below);
    for i in 0..ed.cx.block_size() / 4 {
        let lblk = lblk.saturating_add(step.saturating_mul(i as u64));
        let p = subtree(ed, mine, below, lblk, pool, nodes)?;
        put32(&mut block, i * 4, p);
    }
    nodes.push((at, block));
    u32::try_from(at.0).ok()
}
