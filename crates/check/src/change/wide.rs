//! Descriptors of 64 bytes, for block numbers of 64 bits (`64bit`), and of 32 bytes without.
//!
//! # Crash
//! The superblock says how large descriptors are, and by those the journal is found: so that this takes an undo file.

use super::grow::{claim_descs, free_behind_descs};
use super::{Change, ChangeError, Result, metadata_csum, put_superblocks, superblock};
use crate::context::Context;
use crate::prelude::*;
use crate::repair::editor::Editor;
use crate::repair::resize;
use uext4_ondisk::GroupCsum;

/// Bytes of a descriptor with the feature.
const WIDE: u16 = 64;

/// Enables or disables the feature, and makes a resize inode that reserves up to `reserve` blocks in each group with descriptors.
///
/// # Errors
/// The device's; there is no room for larger descriptors, or there are too many blocks for smaller ones.
pub(super) fn change(cx: &Context<'_>, on: bool, reserve: u16) -> Result<Change> {
    let old = &cx.geo;
    if old.meta_bg {
        return Err(ChangeError::refused("64bit can't change with meta_bg"));
    }
    if !on && old.blocks_count > u64::from(u32::MAX) {
        return Err(ChangeError::refused(
            "without 64bit there are fewer than 2^32 blocks",
        ));
    }
    let mut ed = Editor::new(cx);
    let mut raw = cx.sb.raw.clone();
    let mut incompat = raw.incompat();
    incompat.set(Incompat::BIT64, on);
    raw.feature_incompat = incompat.bits().into();
    raw.desc_size = if on { WIDE } else { 0 }.into();
    let more = superblock(&raw)?.geometry.desc_blocks;
    let (more, less) = (
        more.saturating_sub(old.desc_blocks),
        old.desc_blocks.saturating_sub(more),
    );
    let room = free_behind_descs(&ed, more.saturating_add(reserve.into()));
    if room < more {
        return Err(ChangeError::refused(format!(
            "64bit needs {more} more blocks for descriptors, and {room} are free behind them"
        )));
    }
    let reserved = (room - more + less).min(reserve.into());
    let reserved = reserved.min(old.block_size / 4);
    if reserved > 0 && old.blocks_count <= u64::from(u32::MAX) {
        raw.feature_compat = (raw.compat() | Compat::RESIZE_INODE).bits().into();
        raw.reserved_gdt_blocks = (reserved as u16).into();
    }
    raw.overhead_clusters = 0.into();
    let new = superblock(&raw)?;
    descs(&mut ed, &new)?;
    put_superblocks(&mut ed, &raw, &new.geometry)?;
    if new.compat.contains(Compat::RESIZE_INODE) {
        claim_descs(cx, &new.geometry);
        if !resize::write(&mut ed, &new.geometry)? {
            return Err(super::files::no_space());
        }
    }
    Ok(Change {
        patch: ed.into_patch(),
        is_whole: true,
        moves_journal: true,
        ..Change::default()
    })
}

/// All descriptors and their backups.
fn descs(ed: &mut Editor<'_, '_>, new: &Superblock) -> Result<()> {
    let (geo, csum) = (&new.geometry, GroupCsum::of(new));
    let mut all = Vec::new();
    for group in (0..geo.groups_count).map(GroupNo) {
        let desc = ed.desc(group)?.ok_or(ChangeError::Faulty)?;
        // A larger descriptor has more of the checksums.
        let seed = new.has_metadata_csum().then_some(new.csum_seed);
        let desc = metadata_csum::bitmaps(ed, desc, geo, seed)?;
        all.push(desc);
    }
    let mut groups = (0..geo.groups_count).map(GroupNo).zip(all);
    for nr in 0..geo.desc_blocks {
        let mut block = vec![0; ed.cx.block_size()];
        let places = block.chunks_exact_mut(geo.desc_size.into());
        for (bytes, (group, desc)) in places.zip(groups.by_ref().take(geo.desc_per_block as usize))
        {
            desc.encode_into(bytes);
            csum.set_desc_checksum(group, bytes);
        }
        ed.put_block(geo.desc_block(nr), &block);
        for at in geo.desc_backups(nr) {
            if geo.contains_blocks(at, 1) {
                ed.put_block(at, &block);
            }
        }
    }
    Ok(())
}
