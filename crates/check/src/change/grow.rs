//! A larger file system: more blocks in the last group, and more groups.
//!
//! New groups have their metadata in themselves. Their descriptors go behind those there are: into the blocks that follow in each group with
//! a backup, if these are free, else into the new groups (`meta_bg`).
//!
//! What is free is what the bitmaps say: the check of the larger image, the only one, finds blocks that are used twice if they are wrong.
//!
//! # Crash
//! What lies behind the old end, and descriptors of groups that are not there yet, are written first, as nothing reads them; those that go
//! where the resize inode has reserved blocks are not. The rest, with the superblock, is one transaction.

use super::{
    Change, ChangeError, Result, completed, context, examine_sound, files, put_superblocks,
    superblock,
};
use crate::context::Context;
use crate::edits::{EDIT_UNIT, EditedDevice, Edits};
use crate::passes::Stage;
use crate::prelude::*;
use crate::repair::editor::Editor;
use crate::repair::plan::{LogPlace, Plan};
use crate::repair::resize;
use crate::report::{CheckOptions, Progress};
use uext4_ondisk::{GroupCsum, GroupFlags, NewGroup, RawSuperblock};

/// Plans to make an image larger, in steps that are carried out one after the other: so many blocks, which the device has by then, or as
/// many of them as make groups. There are none if there are as many.
///
/// A resize inode is made again for the new size, or removed.
///
/// # Errors
/// As of [`super::plan_tune`].
pub fn plan_grow(
    device: &dyn BlockDevice,
    blocks: u64,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Vec<Plan>> {
    let before = examine_sound(device, Stage::Superblock, options, progress)?;
    let none = Edits::default();
    let unit = u64::from(context(&before)?.geo.block_size);
    let device = EditedDevice::new(device, &none).with_len(blocks.saturating_mul(unit));
    let before = examine_sound(&device, Stage::Orphans, options, progress)?;
    let cx = context(&before)?;
    refuse(&cx.sb, blocks)?;
    claim_used(cx)?;
    let Some(change) = change(cx, blocks)? else {
        return Ok(Vec::new());
    };
    let log = LogPlace::of(&before);
    let plan = completed(&device, change, log, &mut |_| {}, options, progress);
    let mut decisions = plan.iter().flat_map(|plan| &plan.decisions);
    if plan.is_err() || !decisions.all(|d| follows(d.fault.kind)) {
        // It may not have been sound.
        examine_sound(&device, Stage::Groups, options, progress)?;
    }
    plan.map(|plan| vec![plan])
}

/// What the check of the larger image finds because it is larger: what counts blocks and inodes.
fn follows(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::BlockBitmapClear
            | FaultKind::GroupFreeBlocks
            | FaultKind::GroupFreeInodes
            | FaultKind::SuperblockFreeBlocks
            | FaultKind::SuperblockFreeInodes
    )
}

/// Claims what is in use by the bitmaps of the groups. If they are wrong, the check of the larger image finds a block that is used twice.
fn claim_used(cx: &Context<'_>) -> Result<()> {
    let mut bitmap = vec![0; cx.block_size()];
    for group in (0..cx.geo.groups_count).map(GroupNo) {
        let desc = cx.desc(group).ok_or(ChangeError::Faulty)?;
        if cx.is_uninit(desc, GroupFlags::BLOCK_UNINIT) {
            continue;
        }
        cx.view.read(desc.block_bitmap, &mut bitmap)?;
        let first = cx.cluster(cx.geo.group_first_block(group));
        let clusters = cx.geo.clusters_in_group(group);
        cx.claimed.claim_bits(first, clusters, &bitmap);
    }
    Ok(())
}

/// The larger size, and a resize inode that reserves as many blocks in each group with a backup as it does now, where they are free. `None`
/// if there are no more blocks.
fn change(cx: &Context<'_>, blocks: u64) -> Result<Option<Change>> {
    let mut ed = Editor::new(cx);
    let raw = grown(&ed, blocks)?;
    let new = superblock(&raw)?;
    let geo = new.geometry;
    if geo.blocks_count <= cx.geo.blocks_count {
        return Ok(None);
    }
    let unit = u64::from(geo.block_size);
    for group in (cx.geo.groups_count..geo.groups_count).map(GroupNo) {
        let table = add_group(&mut ed, &new, group)?;
        let bytes = u64::from(geo.itable_blocks_per_group) * unit;
        ed.zero(table.0 * unit, bytes);
    }
    copy_descs(&mut ed, &geo)?;
    let first = without_reserved(cx, ed.patch().clone());
    free_behind_end(&mut ed, &geo)?;
    put_superblocks(&mut ed, &raw, &geo)?;
    if new.compat.contains(Compat::RESIZE_INODE) {
        claim_descs(cx, &geo);
        resize::write(&mut ed, &geo)?;
    } else if cx.sb.compat.contains(Compat::RESIZE_INODE) {
        files::remove(&mut ed, Ino::RESIZE)?;
    }
    Ok(Some(Change {
        patch: ed.into_patch(),
        first,
        ..Change::default()
    }))
}

/// Changes without those of blocks that the resize inode has reserved: it maps more blocks with what they hold.
fn without_reserved(cx: &Context<'_>, mut edits: Edits) -> Edits {
    let units = u64::from(cx.geo.block_size) / EDIT_UNIT as u64;
    let groups = (0..cx.geo.groups_count).map(GroupNo);
    for group in groups.filter(|group| cx.geo.has_super(*group)) {
        let end = cx.geo.group_first_block(group).0 + u64::from(cx.geo.base_meta_blocks(group));
        let start = end - u64::from(cx.geo.reserved_gdt_blocks);
        edits.take(start * units..end * units);
    }
    edits
}

/// Claims the places of descriptors, and what is reserved for more of them, in the groups there are.
pub(super) fn claim_descs(cx: &Context<'_>, geo: &Geometry) {
    for group in (0..cx.geo.groups_count).map(GroupNo) {
        let start = cx.cluster(geo.group_first_block(group));
        cx.claimed
            .claim(start, geo.base_meta_blocks(group).into(), |_| {});
    }
}

fn refuse(sb: &Superblock, blocks: u64) -> Result<()> {
    if sb.ro_compat.contains(RoCompat::BIGALLOC) {
        return Err(ChangeError::refused(
            "a file system with bigalloc can't be resized; `uext4 mkfs NEW SIZE -O bigalloc --from IMAGE` makes another one",
        ));
    }
    if blocks > u64::from(u32::MAX) && !sb.incompat.contains(Incompat::BIT64) {
        return Err(ChangeError::refused(
            "without the feature 64bit there are fewer than 2^32 blocks",
        ));
    }
    Ok(())
}

/// The superblock with the new size.
fn grown(ed: &Editor<'_, '_>, blocks: u64) -> Result<RawSuperblock> {
    let (old, raw) = (&ed.cx.geo, &ed.cx.sb.raw);
    let mut new = sized(ed, blocks)?;
    if let Some(end) = new.geometry.end_before_short_group(old.groups_count) {
        new = sized(ed, end.max(old.blocks_count))?;
    }
    let mut made = new.raw;
    made.keep_shares(raw);
    Ok(made)
}

/// The superblock of so many blocks, with places for all descriptors.
fn sized(ed: &Editor<'_, '_>, blocks: u64) -> Result<Superblock> {
    let old = &ed.cx.geo;
    let reserve = old.reserved_gdt_blocks;
    let mut raw = ed.cx.sb.raw.with_blocks(blocks).ok_or_else(|| {
        ChangeError::refused("there would be more than 2^32 inodes, as each group has its own")
    })?;
    raw.feature_compat = (raw.compat() - Compat::RESIZE_INODE).bits().into();
    raw.reserved_gdt_blocks = 0.into();
    let new = superblock(&raw)?;
    if old.meta_bg {
        return Ok(new);
    }
    let more = new.geometry.desc_blocks.saturating_sub(old.desc_blocks);
    let room = reserve + free_behind_descs(ed, more);
    if room < more {
        raw.feature_incompat = (raw.incompat() | Incompat::META_BG).bits().into();
        raw.first_meta_bg = old.desc_blocks.into();
        return superblock(&raw);
    }
    let reserved = (room - more).min(reserve).min(old.block_size / 4);
    // Pointers of the resize inode have 32 bits.
    let fits = new.geometry.blocks_count <= u64::from(u32::MAX);
    if reserved > 0 && fits {
        raw.feature_compat = (raw.compat() | Compat::RESIZE_INODE).bits().into();
        raw.reserved_gdt_blocks = (reserved as u16).into();
    }
    superblock(&raw)
}

/// How many blocks behind the descriptors are free in every group that has them, `max` at most.
pub(super) fn free_behind_descs(ed: &Editor<'_, '_>, max: u32) -> u32 {
    let cx = ed.cx;
    let free = |group: GroupNo| {
        let start = cx.geo.group_first_block(group).0;
        let front = start + u64::from(cx.geo.base_meta_blocks(group));
        let end = start + u64::from(cx.geo.blocks_in_group(group));
        let run = (front..end).take(max as usize);
        let run = run.take_while(|at| !cx.claimed.is_set(cx.cluster(Pblk(*at))));
        run.count() as u32
    };
    let groups = (0..cx.geo.groups_count).map(GroupNo);
    let with_descs = groups.filter(|g| cx.geo.has_super(*g));
    with_descs.map(free).min().unwrap_or(0)
}

/// Writes bitmaps and descriptor of a new group, and returns where its inode table is.
fn add_group(ed: &mut Editor<'_, '_>, new: &Superblock, group: GroupNo) -> Result<Pblk> {
    let geo = &new.geometry;
    let NewGroup {
        desc,
        block_bitmap,
        inode_bitmap,
    } = NewGroup::of(new, group);
    ed.put_block(desc.block_bitmap, &block_bitmap);
    ed.put_block(desc.inode_bitmap, &inode_bitmap);
    let (at, from) = geo.group_desc_location(group);
    let mut block = match group.0 % geo.desc_per_block {
        0 => vec![0; ed.cx.block_size()],
        _ => ed.block(at)?,
    };
    if let Some(bytes) = block.get_mut(from..from + usize::from(geo.desc_size)) {
        desc.encode_into(bytes);
        GroupCsum::of(new).set_desc_checksum(group, bytes);
    }
    ed.put_block(at, &block);
    Ok(desc.inode_table)
}

/// Clears the bits of what the last group gets.
fn free_behind_end(ed: &mut Editor<'_, '_>, geo: &Geometry) -> Result<()> {
    let cx = ed.cx;
    let last = GroupNo(cx.geo.groups_count - 1);
    let mut desc = cx.desc(last).copied().ok_or(ChangeError::Faulty)?;
    if cx.is_uninit(&desc, GroupFlags::BLOCK_UNINIT) {
        return Ok(());
    }
    let mut bitmap = ed.block(desc.block_bitmap)?;
    for bit in cx.geo.clusters_in_group(last)..geo.clusters_in_group(last) {
        if let Some(byte) = bitmap.get_mut(bit as usize / 8) {
            *byte &= !(1 << (bit % 8));
        }
    }
    if let Some(seed) = cx.seed {
        desc.set_block_bitmap_csum(seed, geo, &bitmap);
    }
    ed.put_block(desc.block_bitmap, &bitmap);
    Ok(ed.put_desc(last, &desc)?)
}

/// Copies every block of descriptors to its backups.
fn copy_descs(ed: &mut Editor<'_, '_>, geo: &Geometry) -> Result<()> {
    for nr in 0..geo.desc_blocks {
        let block = ed.block(geo.desc_block(nr))?;
        for at in geo.desc_backups(nr) {
            if geo.contains_blocks(at, 1) {
                ed.put_block(at, &block);
            }
        }
    }
    Ok(())
}
