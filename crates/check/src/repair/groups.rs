//! Bitmaps and counters, computed again for whole groups.

use super::editor::Editor;
use crate::bitmap::{bit, count_ones};
use crate::prelude::*;
use crate::report::CheckReport;
use std::collections::BTreeSet;
use uext4_ondisk::{GroupFlags, STATE_CLEAN, STATE_ERROR, pad_bitmap};

/// Repairs the groups that have faults, and the counters of the superblock.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, faults: &[Fault], present: &CheckReport) -> Result<()> {
    // With a fault in front of the bitmaps, files may have blocks that the check does not know.
    let of_bitmaps = |f: &Fault| match f.kind {
        FaultKind::QuotaUsage | FaultKind::QuotaFile => true,
        // Of the journal's own superblock.
        FaultKind::Structure(kind) if format!("{kind:?}").starts_with("Journal") => true,
        _ => f.group.is_some() || of_counters(f),
    };
    let all_known = ed.cx.usable.iter().all(|usable| *usable)
        && present.faults_total == present.faults.len() as u64
        && present.faults.iter().all(of_bitmaps);
    let groups: BTreeSet<GroupNo> = faults.iter().filter_map(|f| f.group).collect();
    for group in groups {
        mend_group(ed, group, all_known)?;
    }
    if all_known && faults.iter().any(of_counters) {
        mend_super(ed)?;
    }
    Ok(())
}

fn of_counters(f: &Fault) -> bool {
    matches!(
        f.kind,
        FaultKind::SuperblockFreeBlocks | FaultKind::SuperblockFreeInodes
    )
}

/// Computes bitmaps and counters of a group. Bits are only set, not cleared, unless it is known what all files map.
fn mend_group(ed: &mut Editor<'_, '_>, group: GroupNo, all_known: bool) -> Result<()> {
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
    if !all_known {
        set_bits_of(&mut block, &ed.block(desc.block_bitmap)?, clusters as usize);
    }
    desc.free_blocks = clusters.saturating_sub(count_ones(&block) as u32);
    pad_bitmap(&mut block, clusters as usize);
    if let Some(seed) = cx.seed {
        desc.set_block_bitmap_csum(seed, &cx.geo, &block);
    }
    ed.put_block(desc.block_bitmap, &block);
    inode_bitmap(ed, group, &mut desc, all_known)?;
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

/// Sets the bits that are set in an old bitmap too.
fn set_bits_of(block: &mut [u8], old: &[u8], bits: usize) {
    let mut set = vec![0; block.len()];
    copy_bits(&mut set, old, bits);
    for (to, old) in block.iter_mut().zip(set) {
        *to |= old;
    }
}

fn inode_bitmap(
    ed: &mut Editor<'_, '_>,
    group: GroupNo,
    desc: &mut GroupDesc,
    all_known: bool,
) -> Result<()> {
    let cx = ed.cx;
    let count = cx.geo.inodes_per_group;
    let mut block = vec![0; cx.block_size()];
    if !all_known {
        set_bits_of(&mut block, &ed.block(desc.inode_bitmap)?, count as usize);
    }
    let (mut dirs, mut end) = (0, 0);
    for i in 0..count {
        let state = cx.inodes.state(cx.geo.ino_in_group(group, i));
        if !state.used() {
            continue;
        }
        end = i + 1;
        dirs += u32::from(state.file_type() == FileType::Directory);
        if let Some(byte) = block.get_mut(i as usize / 8) {
            *byte |= 1 << (i % 8);
        }
    }
    let used = count_ones(&block) as u32;
    if !all_known {
        end = (0..count)
            .rfind(|i| bit(&block, *i as usize))
            .map_or(0, |i| i + 1);
    }
    pad_bitmap(&mut block, count as usize);
    desc.free_inodes = count.saturating_sub(used);
    desc.used_dirs = dirs;
    // What the table holds behind the inodes in use may not be zeros.
    let ever_used = cx.inodes_in_use_max(group).max(end);
    desc.itable_unused = count.saturating_sub(ever_used);
    if let Some(seed) = cx.seed {
        desc.set_inode_bitmap_csum(seed, &cx.geo, &block);
    }
    ed.put_block(desc.inode_bitmap, &block);
    Ok(())
}

fn mend_super(ed: &mut Editor<'_, '_>) -> Result<()> {
    let cx = ed.cx;
    let (mut free_clusters, mut free_inodes) = (0u64, 0u32);
    for g in (0..cx.geo.groups_count).map(GroupNo) {
        let clusters = cx.geo.clusters_in_group(g);
        let from = u64::from(g.0).saturating_mul(u64::from(cx.geo.clusters_per_group));
        free_clusters += u64::from(clusters) - cx.claimed.count(from, clusters.into());
        let (first, count) = (cx.geo.ino_in_group(g, 0), cx.geo.inodes_per_group);
        free_inodes += count;
        if !cx.inodes.is_untouched(first, count) {
            let inodes = (0..count).map(|i| cx.geo.ino_in_group(g, i));
            free_inodes -= inodes.filter(|ino| cx.inodes.state(*ino).used()).count() as u32;
        }
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
