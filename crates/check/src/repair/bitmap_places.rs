//! Bitmaps that a descriptor names wrongly, found by what they hold.

use super::editor::Editor;
use crate::bitmap::count_ones;
use crate::prelude::*;

/// Blocks that are searched from the start of a flex group on.
const SEARCH_BLOCKS: u64 = 4096;

/// Corrects places outside the file system, if a block looks like the bitmap that is missing.
///
/// # Errors
/// The device's.
pub(crate) fn find(ed: &Editor<'_, '_>, group: GroupNo, desc: &mut GroupDesc) -> Result<()> {
    let geo = &ed.cx.geo;
    if !geo.contains_blocks(desc.block_bitmap, 1) {
        let bits = geo.clusters_in_group(group);
        let used = bits.saturating_sub(desc.free_blocks);
        if let Some(at) = search(
            ed,
            group,
            |d, block| fits(ed, d, block, bits, used, true),
            desc,
        )? {
            desc.block_bitmap = at;
        }
    }
    if !geo.contains_blocks(desc.inode_bitmap, 1) {
        let bits = geo.inodes_per_group;
        let used = bits.saturating_sub(desc.free_inodes);
        if let Some(at) = search(
            ed,
            group,
            |d, block| fits(ed, d, block, bits, used, false),
            desc,
        )? {
            desc.inode_bitmap = at;
        }
    }
    Ok(())
}

/// The first block, outside of what other descriptors name, that `fits`.
fn search(
    ed: &Editor<'_, '_>,
    group: GroupNo,
    fits: impl Fn(&GroupDesc, &[u8]) -> bool,
    desc: &GroupDesc,
) -> Result<Option<Pblk>> {
    let geo = &ed.cx.geo;
    let flex = 1u32.checked_shl(geo.log_groups_per_flex).unwrap_or(1);
    let first = geo
        .group_first_block(GroupNo(group.0 / flex * flex))
        .0
        .saturating_add(1);
    let named = |at: u64| {
        ed.cx.descs.iter().any(|d| {
            let table = d.inode_table.0;
            let end = table.saturating_add(geo.itable_blocks_per_group.into());
            d.block_bitmap.0 == at || d.inode_bitmap.0 == at || (table..end).contains(&at)
        })
    };
    for at in first..first.saturating_add(SEARCH_BLOCKS).min(geo.blocks_count) {
        if !named(at) && fits(desc, &ed.block(Pblk(at))?) {
            return Ok(Some(Pblk(at)));
        }
    }
    Ok(None)
}

/// Whether a block has the checksum of the bitmap, or without checksums its padding and count.
fn fits(
    ed: &Editor<'_, '_>,
    desc: &GroupDesc,
    block: &[u8],
    bits: u32,
    used: u32,
    blocks: bool,
) -> bool {
    if let Some(seed) = ed.cx.seed {
        let sum = match blocks {
            true => desc.verify_block_bitmap(seed, &ed.cx.geo, block),
            false => desc.verify_inode_bitmap(seed, &ed.cx.geo, block),
        };
        return sum.is_ok();
    }
    let bits = bits as usize;
    let rest = block.get(bits.div_ceil(8)..).unwrap_or(&[]);
    let padding = rest.iter().all(|b| *b == 0xff);
    let part = block.get(..bits / 8).unwrap_or(&[]);
    padding && used > 0 && count_ones(part) == u64::from(used)
}
