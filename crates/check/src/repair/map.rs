//! What an inode maps: read for what is sound in it, and written anew.

use super::editor::Editor;
pub(crate) use super::runs::{Map, NodePool};
use super::{block_map, extents};
use crate::prelude::*;
use uext4_ondisk::Inode;

/// Reads what is sound.
///
/// # Errors
/// The device's.
pub(crate) fn read(ed: &Editor<'_, '_>, inode: &Inode) -> Result<Map> {
    let mut map = Map::default();
    if inode.flags.contains(InodeFlags::EXTENTS) {
        extents::read(ed, &inode.i_block, &mut map)?;
        map.sort(&ed.cx.geo);
    } else {
        block_map::read(ed, &inode.i_block, &mut map)?;
    }
    Ok(map)
}

/// Writes the runs of `map` into `inode`, with nodes from `pool`. False if there are not enough free blocks; then
/// `inode` is unchanged.
pub(crate) fn write(
    ed: &mut Editor<'_, '_>,
    ino: Ino,
    inode: &mut Inode,
    map: &Map,
    pool: &mut NodePool,
) -> bool {
    let seed = ed.cx.seed.map(|s| inode.seed(s, ino));
    let root = match inode.flags.contains(InodeFlags::EXTENTS) {
        true => extents::write(ed, seed, map, pool),
        false => block_map::write(ed, map, pool),
    };
    if let Some(root) = root {
        inode.i_block = root;
    }
    root.is_some()
}
