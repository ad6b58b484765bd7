//! Fields of the superblock.

use super::editor::Editor;
use super::restore;
use crate::context::Context;
use crate::journal::is_journal;
use crate::prelude::*;
use uext4_ondisk::{EXT4_MAGIC, Mmp, RawSuperblock, SUPERBLOCK_SIZE, quota_inodes};

/// Features that decide where the fixed metadata lies and what it is; none changes while a file system is mounted.
const LAYOUT_COMPAT: Compat = Compat::RESIZE_INODE.union(Compat::SPARSE_SUPER2);
const LAYOUT_INCOMPAT: Incompat = Incompat::META_BG
    .union(Incompat::FLEX_BG)
    .union(Incompat::BIT64);
const LAYOUT_RO_COMPAT: RoCompat = RoCompat::SPARSE_SUPER.union(RoCompat::BIGALLOC);

/// Takes what decides about the layout from a backup; false if that is the same, or there is none. The number of blocks reserved for
/// descriptors counts only where metadata overlaps, as a resize writes it to the backups last.
///
/// # Errors
/// The device's.
pub(crate) fn adopt_layout(ed: &mut Editor<'_, '_>, overlaps: bool) -> Result<bool> {
    let raw = &ed.cx.sb.raw;
    let Some(backup) = restore::find(ed.cx.view.device())? else {
        return Ok(false);
    };
    let same_as = backup.raw.uuid == raw.uuid;
    let differ = (backup.compat ^ raw.compat()).intersects(LAYOUT_COMPAT)
        || (backup.incompat ^ raw.incompat()).intersects(LAYOUT_INCOMPAT)
        || (backup.ro_compat ^ raw.ro_compat()).intersects(LAYOUT_RO_COMPAT)
        || overlaps && backup.raw.reserved_gdt_blocks != raw.reserved_gdt_blocks;
    if !same_as || !differ {
        return Ok(false);
    }
    ed.change_super(|raw| {
        let compat = raw.compat() & !LAYOUT_COMPAT | backup.compat & LAYOUT_COMPAT;
        let incompat = raw.incompat() & !LAYOUT_INCOMPAT | backup.incompat & LAYOUT_INCOMPAT;
        let ro = raw.ro_compat() & !LAYOUT_RO_COMPAT | backup.ro_compat & LAYOUT_RO_COMPAT;
        raw.set_features(compat, incompat, ro);
        raw.reserved_gdt_blocks = backup.raw.reserved_gdt_blocks;
        raw.backup_bgs = backup.raw.backup_bgs;
        raw.desc_size = backup.raw.desc_size;
    })?;
    Ok(true)
}

/// Repairs fields of the superblock, and the block of multi-mount protection; false if nothing of this is wrong.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, faults: &[Fault]) -> Result<bool> {
    let cx = ed.cx;
    let has = |kind| faults.iter().any(|f| f.kind == kind);
    if has(FaultKind::SuperblockChecksum) {
        let backup = restore::find(cx.view.device())?;
        ed.change_super(|raw| {
            if let Some(backup) = backup {
                *raw = restore::merged(cx.view.device(), &backup, raw);
            }
        })?;
        return Ok(true);
    }
    let of_layout = [
        FaultKind::SuperblockField,
        FaultKind::GroupMetadataPlace,
        FaultKind::MetadataOverlap,
        FaultKind::MetadataNotMapped,
    ];
    let places = |f: &Fault| matches!(f.kind, FaultKind::Structure(k) if format!("{k:?}").starts_with("GroupDesc"));
    let layout = of_layout.iter().any(|k| has(*k)) || faults.iter().any(places);
    if layout && adopt_layout(ed, has(FaultKind::MetadataOverlap))? {
        return Ok(true);
    }
    let mut changed = has(FaultKind::SuperblockField);
    changed |= mend_quota_inodes(ed, faults)?;
    if has(FaultKind::SuperblockField) {
        let journal = journal_of(cx)?;
        ed.change_super(|raw| mend_fields(cx, raw, journal))?;
    }
    let mmp_block = |f: &&Fault| {
        f.kind == FaultKind::MmpInUse
            || matches!(f.kind, FaultKind::Structure(k)
                if matches!(k, CorruptKind::MmpMagic | CorruptKind::MmpChecksum))
    };
    if has(FaultKind::MmpBlock) {
        ed.change_super(|raw| {
            raw.feature_incompat = (raw.feature_incompat.get() & !Incompat::MMP.bits()).into();
            raw.mmp_block = 0.into();
        })?;
        changed = true;
    } else if let Some(fault) = faults.iter().find(mmp_block) {
        let at = fault.pblk.unwrap_or(Pblk(cx.sb.raw.mmp_block.get()));
        write_mmp(ed, at)?;
        changed = true;
    }
    Ok(changed)
}

/// Quota files that the superblock names but that can't be ones: the inodes that are kept for them are named again, if
/// they hold files. False if there is none of this.
///
/// # Errors
/// The device's.
pub(crate) fn mend_quota_inodes(ed: &mut Editor<'_, '_>, faults: &[Fault]) -> Result<bool> {
    let cx = ed.cx;
    if !faults.iter().any(|f| f.kind == FaultKind::QuotaInode) {
        return Ok(false);
    }
    let named = faults.iter().filter(|f| f.kind == FaultKind::QuotaInode);
    let named: Vec<Ino> = named.filter_map(|f| f.ino).collect();
    let mut new = [Ino::NONE; 3];
    let kept = [Ino::USER_QUOTA, Ino::GROUP_QUOTA, Ino::NONE];
    for ((slot, (_, ino)), usual) in new.iter_mut().zip(quota_inodes(&cx.sb.raw)).zip(kept) {
        let reserved = cx.is_reserved(ino) && ino != Ino::USER_QUOTA && ino != Ino::GROUP_QUOTA;
        let wrong = reserved || ino.0 > cx.geo.inodes_count || named.contains(&ino);
        if ino == Ino::NONE || !wrong {
            *slot = ino;
            continue;
        }
        let file = match usual {
            Ino::NONE => None,
            usual => ed.decoded(usual)?,
        };
        if file.is_some_and(|i| i.file_type() == FileType::Regular && i.links > 0) {
            *slot = usual;
        }
    }
    let [user, group, project] = new;
    ed.change_super(|raw| {
        raw.usr_quota_inum = user.0.into();
        raw.grp_quota_inum = group.0.into();
        raw.prj_quota_inum = project.0.into();
    })?;
    Ok(true)
}

/// The inode that holds a journal, by the superblock or by custom.
fn journal_of(cx: &Context<'_>) -> Result<Option<Ino>> {
    let named = Ino(cx.sb.raw.journal_inum.get());
    for ino in [named, Ino::JOURNAL] {
        if ino != Ino::NONE && is_journal(&cx.view, &cx.sb, &cx.descs, ino)? {
            return Ok(Some(ino));
        }
    }
    Ok(None)
}

fn mend_fields(cx: &Context<'_>, raw: &mut RawSuperblock, journal: Option<Ino>) {
    let (compat, incompat) = (raw.compat(), raw.incompat());
    if raw.reserved_blocks_count() > cx.geo.blocks_count / 2 {
        raw.set_reserved_blocks_count(cx.geo.blocks_count / 20);
    }
    if raw.log_groups_per_flex > 31 {
        raw.log_groups_per_flex = 0;
    }
    let desc = raw.desc_size.get();
    if desc != 0 && !(desc.is_power_of_two() && desc <= 1024) {
        raw.desc_size = 0.into();
    }
    if incompat.contains(Incompat::META_BG) && compat.contains(Compat::RESIZE_INODE) {
        raw.feature_compat = (compat & !Compat::RESIZE_INODE).bits().into();
    }
    if !raw.compat().contains(Compat::RESIZE_INODE) {
        raw.reserved_gdt_blocks = 0.into();
    }
    if !raw.ro_compat().contains(RoCompat::BIGALLOC) {
        raw.clusters_per_group = raw.blocks_per_group;
        raw.log_cluster_size = raw.log_block_size;
    }
    mend_journal(raw, journal);
}

/// What the superblock states of the journal.
fn mend_journal(raw: &mut RawSuperblock, journal: Option<Ino>) {
    let compat = raw.compat();
    if compat.contains(Compat::HAS_JOURNAL) {
        if raw.journal_inum.get() == 0 && raw.journal_dev.get() == 0 {
            match journal {
                Some(ino) => raw.journal_inum = ino.0.into(),
                None => {
                    raw.feature_compat = (compat & !Compat::HAS_JOURNAL).bits().into();
                    clear_journal(raw);
                }
            }
        }
        if raw.journal_inum.get() != 0 {
            raw.journal_uuid = [0; 16];
            raw.journal_dev = 0.into();
        }
        return;
    }
    match journal {
        Some(ino) if raw.incompat().contains(Incompat::RECOVER) => {
            raw.feature_compat = (compat | Compat::HAS_JOURNAL).bits().into();
            raw.journal_inum = ino.0.into();
            raw.journal_uuid = [0; 16];
        }
        _ => clear_journal(raw),
    }
}

/// Forgets the journal.
pub(crate) fn clear_journal(raw: &mut RawSuperblock) {
    let (compat, incompat) = (raw.compat(), raw.incompat());
    raw.feature_compat = (compat & !Compat::HAS_JOURNAL).bits().into();
    raw.feature_incompat = (incompat & !Incompat::RECOVER).bits().into();
    raw.journal_inum = 0.into();
    raw.journal_dev = 0.into();
    raw.journal_uuid = [0; 16];
    raw.jnl_backup_type = 0;
    raw.jnl_blocks = [0.into(); 17];
}

fn write_mmp(ed: &mut Editor<'_, '_>, at: Pblk) -> Result<()> {
    let mut block = ed.block(at)?;
    let kept = Mmp::parse(&block, ed.cx.seed).ok();
    let mmp = Mmp {
        seq: uext4_ondisk::MMP_SEQ_CLEAN,
        time: kept.as_ref().map_or(0, |m| m.time),
        nodename: kept.as_ref().map_or([0; 64], |m| m.nodename),
        bdevname: kept.as_ref().map_or([0; 32], |m| m.bdevname),
        check_interval: kept
            .as_ref()
            .map_or(ed.cx.sb.raw.mmp_update_interval.get(), |m| m.check_interval),
    };
    mmp.encode_into(&mut block, ed.cx.seed);
    ed.put_block(at, &block);
    Ok(())
}

/// Copies the superblock to backups that disagree.
///
/// # Errors
/// The device's.
pub(crate) fn copy_to_backups(ed: &mut Editor<'_, '_>, faults: &[Fault]) -> Result<()> {
    let (at, from) = ed.super_place();
    let primary = ed.block(at)?;
    let Some(primary) = primary.get(from..from.saturating_add(SUPERBLOCK_SIZE)) else {
        return Ok(());
    };
    for fault in faults
        .iter()
        .filter(|f| f.kind == FaultKind::BackupSuperblock)
    {
        let (Some(group), Some(at)) = (fault.group, fault.pblk) else {
            continue;
        };
        let mut block = ed.block(at)?;
        let bytes = block.get_mut(..SUPERBLOCK_SIZE);
        if let Some(bytes) = bytes {
            bytes.copy_from_slice(primary);
            if let Some(raw) =
                RawSuperblock::mut_from(bytes).filter(|r| r.magic.get() == EXT4_MAGIC)
            {
                raw.block_group_nr = (group.0 as u16).into();
                let kept = Incompat::RECOVER | Incompat::JOURNAL_DEV;
                raw.feature_incompat = (raw.incompat() & !kept).bits().into();
                raw.update_checksum();
            }
        }
        ed.put_block(at, &block);
    }
    Ok(())
}
