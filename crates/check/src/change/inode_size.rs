//! Larger inodes: every group gets another inode table, in which inodes have more room.
//!
//! # Crash
//! The superblock says how large inodes are, and by that the journal's is found: so that this takes an undo file.

use super::{Change, ChangeError, Result, files, put_superblocks, superblock};
use crate::context::Context;
use crate::prelude::*;
use crate::repair::editor::Editor;
use uext4_ondisk::{EXTRA_ISIZE_KNOWN, GroupFlags, inode_checksum_set};

/// Byte of the size of the extra fields, behind those that every inode has.
const EXTRA_SIZE_AT: usize = GOOD_OLD_INODE_SIZE;

/// Gives inodes so many bytes.
///
/// # Errors
/// The device's; the size can't be, or there is not enough space.
pub(super) fn change(cx: &Context<'_>, bytes: u16) -> Result<Change> {
    let old = &cx.geo;
    let fits = bytes.is_power_of_two() && u32::from(bytes) <= old.block_size;
    if !fits || bytes < old.inode_size {
        return Err(ChangeError::refused(format!(
            "an inode of {} bytes can get more: a power of 2, {} at most",
            old.inode_size, old.block_size
        )));
    }
    if cx.sb.ro_compat.contains(RoCompat::BIGALLOC) {
        return Err(ChangeError::refused(
            "inodes can't get larger with bigalloc",
        ));
    }
    let mut raw = cx.sb.raw.clone();
    raw.inode_size = bytes.into();
    if usize::from(old.inode_size) == GOOD_OLD_INODE_SIZE {
        raw.min_extra_isize = EXTRA_ISIZE_KNOWN.into();
        raw.want_extra_isize = EXTRA_ISIZE_KNOWN.into();
    }
    raw.overhead_clusters = 0.into();
    let new = superblock(&raw)?;
    let mut ed = Editor::new(cx);
    let mut from = 0;
    let mut descs = Vec::new();
    for group in (0..old.groups_count).map(GroupNo) {
        let mut desc = ed.desc(group)?.ok_or(ChangeError::Faulty)?;
        let clusters = match cx.incompat(Incompat::FLEX_BG) {
            true => from..u64::MAX,
            false => {
                let start = cx.cluster(old.group_first_block(group));
                start..start + u64::from(old.blocks_in_group(group))
            }
        };
        let blocks = new.geometry.itable_blocks_per_group;
        let to = ed.allocate_run(blocks, clusters);
        let to = to.ok_or_else(files::no_space)?;
        from = cx.cluster(to) + u64::from(blocks);
        table(&mut ed, &new, group, &desc, to)?;
        desc.inode_table = to;
        descs.push((group, desc));
    }
    for (group, desc) in &descs {
        ed.put_desc(*group, desc)?;
    }
    put_superblocks(&mut ed, &raw, &new.geometry)?;
    Ok(Change {
        patch: ed.into_patch(),
        is_whole: true,
        moves_journal: true,
        ..Change::default()
    })
}

/// Writes the table of a group.
fn table(
    ed: &mut Editor<'_, '_>,
    new: &Superblock,
    group: GroupNo,
    desc: &GroupDesc,
    to: Pblk,
) -> Result<()> {
    let (old, geo) = (ed.cx.geo, &new.geometry);
    let in_use = match desc.flags.contains(GroupFlags::INODE_UNINIT) {
        true => 0,
        false => old.inodes_per_group.saturating_sub(desc.itable_unused),
    };
    let written = in_use.div_ceil(geo.inodes_per_block);
    let mut inodes = Vec::new();
    for nr in 0..in_use.div_ceil(old.inodes_per_block) {
        let block = ed.block(Pblk(desc.inode_table.0 + u64::from(nr)))?;
        let all = block.chunks_exact(old.inode_size.into());
        inodes.extend(all.map(<[u8]>::to_vec));
    }
    let mut inodes = (0..in_use).zip(&inodes);
    for nr in 0..written {
        let mut block = vec![0; ed.cx.block_size()];
        for (bytes, (index, inode)) in block
            .chunks_exact_mut(geo.inode_size.into())
            .zip(inodes.by_ref().take(geo.inodes_per_block as usize))
        {
            enlarge(ed, bytes, old.ino_in_group(group, index), inode);
        }
        ed.put_block(Pblk(to.0 + u64::from(nr)), &block);
    }
    let bits = geo.block_bits;
    let rest = u64::from(geo.itable_blocks_per_group - written);
    if rest > 0 {
        ed.zero((to.0 + u64::from(written)) << bits, rest << bits);
    }
    Ok(())
}

/// Puts an inode into its larger place.
fn enlarge(ed: &Editor<'_, '_>, place: &mut [u8], ino: Ino, inode: &[u8]) {
    let Some((front, rest)) = place.split_at_mut_checked(inode.len()) else {
        return;
    };
    if inode.iter().all(|byte| *byte == 0) {
        return;
    }
    front.copy_from_slice(inode);
    if inode.len() == EXTRA_SIZE_AT {
        put16(rest, 0, EXTRA_ISIZE_KNOWN);
    }
    if let Some(seed) = ed.cx.seed {
        inode_checksum_set(place, seed, ino);
    }
}
