//! Bitmaps and counters, computed again for whole groups.

use super::editor::Editor;
use crate::bitmap::{bit, count_ones};
use crate::prelude::*;
use std::collections::BTreeSet;
use uext4_ondisk::{GroupFlags, STATE_CLEAN, STATE_ERROR};

/// Repairs the groups that have faults, and the counters of the superblock.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, faults: &[Fault]) -> Result<()> {
    let groups: BTreeSet<GroupNo> = faults.iter().filter_map(|f| f.group).collect();
    for group in groups {
        mend_group(ed, group)?;
    }
    let counts = |f: &Fault| {
        matches!(
            f.kind,
            FaultKind::SuperblockFreeBlocks | FaultKind::SuperblockFreeInodes
        )
    };
    if faults.iter().any(counts) {
        mend_super(ed)?;
    }
    Ok(())
}

/// Sets the bits from `from` on, as there is nothing there.
fn pad(block: &mut [u8], from: usize) {
    if let Some(byte) = block.get_mut(from / 8) {
        *byte |= (0xffu16 << (from % 8)) as u8;
    }
    if let Some(rest) = block.get_mut(from / 8 + 1..) {
        rest.fill(0xff);
    }
}

fn mend_group(ed: &mut Editor<'_, '_>, group: GroupNo) -> Result<()> {
    let cx = ed.cx;
    let Some(mut desc) = cx.desc(group).copied() else {
        return Ok(());
    };
    let clusters = cx.geo.clusters_in_group(group);
    let from = u64::from(group.0).saturating_mul(u64::from(cx.geo.clusters_per_group));
    let mut used = Vec::new();
    cx.claimed.copy_to(from, clusters.into(), &mut used);
    let mut block = vec![0; cx.block_size()];
    copy_bits(&mut block, &used, clusters as usize);
    desc.free_blocks = clusters.saturating_sub(count_ones(&block) as u32);
    pad(&mut block, clusters as usize);
    if let Some(seed) = cx.seed {
        desc.set_block_bitmap_csum(seed, &cx.geo, &block);
    }
    ed.put_block(desc.block_bitmap, &block);
    inode_bitmap(ed, group, &mut desc);
    desc.flags &= GroupFlags::ITABLE_ZEROED;
    if !cx.sb.has_group_csum() {
        desc.itable_unused = 0;
    }
    ed.put_desc(group, &desc)
}

fn copy_bits(to: &mut [u8], from: &[u8], bits: usize) {
    for (i, (to, from)) in to.iter_mut().zip(from).enumerate() {
        let left = bits.saturating_sub(i * 8).min(8);
        *to = *from & (0xffu16 >> (8 - left)) as u8;
    }
}

fn inode_bitmap(ed: &mut Editor<'_, '_>, group: GroupNo, desc: &mut GroupDesc) {
    let cx = ed.cx;
    let count = cx.geo.inodes_per_group;
    let mut block = vec![0; cx.block_size()];
    let (mut used, mut dirs, mut end) = (0, 0, 0);
    for i in 0..count {
        let state = cx.inodes.state(cx.geo.ino_in_group(group, i));
        if !state.used() {
            continue;
        }
        used += 1;
        end = i + 1;
        dirs += u32::from(state.file_type() == FileType::Directory);
        if let Some(byte) = block.get_mut(i as usize / 8) {
            *byte |= 1 << (i % 8);
        }
    }
    debug_assert!(used == 0 || bit(&block, (end - 1) as usize));
    pad(&mut block, count as usize);
    desc.free_inodes = count - used;
    desc.used_dirs = dirs;
    // What the table holds behind the inodes in use may not be zeros.
    let ever_used = cx.inodes_in_use_max(group).max(end);
    desc.itable_unused = count.saturating_sub(ever_used);
    if let Some(seed) = cx.seed {
        desc.set_inode_bitmap_csum(seed, &cx.geo, &block);
    }
    ed.put_block(desc.inode_bitmap, &block);
}

fn mend_super(ed: &mut Editor<'_, '_>) -> Result<()> {
    let cx = ed.cx;
    let (mut free_clusters, mut free_inodes) = (0u64, 0u32);
    for g in (0..cx.geo.groups_count).map(GroupNo) {
        let clusters = cx.geo.clusters_in_group(g);
        let from = u64::from(g.0).saturating_mul(u64::from(cx.geo.clusters_per_group));
        let mut used = Vec::new();
        cx.claimed.copy_to(from, clusters.into(), &mut used);
        let mut block = vec![0; used.len()];
        copy_bits(&mut block, &used, clusters as usize);
        free_clusters += u64::from(clusters).saturating_sub(count_ones(&block));
        let inodes = (0..cx.geo.inodes_per_group).map(|i| cx.geo.ino_in_group(g, i));
        free_inodes += inodes.filter(|ino| !cx.inodes.state(*ino).used()).count() as u32;
    }
    let ratio = u64::from(cx.geo.cluster_ratio);
    ed.change_super(|raw| {
        raw.set_free_blocks_count(free_clusters.saturating_mul(ratio));
        raw.free_inodes_count = free_inodes.into();
    })
}

/// Marks the file system as clean, without recorded errors.
///
/// # Errors
/// The device's.
pub(crate) fn mark_clean(ed: &mut Editor<'_, '_>) -> Result<()> {
    ed.change_super(|raw| {
        raw.state = (raw.state.get() & !STATE_ERROR | STATE_CLEAN).into();
        raw.error_count = 0.into();
    })
}
