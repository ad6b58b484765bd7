//! Group descriptors: places of metadata from a backup, and checksums.

use super::bitmap_places;
use super::editor::Editor;
use crate::prelude::*;
use std::collections::BTreeSet;
use uext4_ondisk::{GroupCsum, GroupFlags};

/// Backups of a descriptor that are read at most.
const BACKUPS_MAX: usize = 8;

/// A group's descriptor in the backups, if one has places that can be right.
fn from_backup(ed: &Editor<'_, '_>, group: GroupNo) -> Result<Option<GroupDesc>> {
    let geo = &ed.cx.geo;
    let csum = GroupCsum::of(&ed.cx.sb);
    let nr = group.0 / geo.desc_per_block;
    let at = (group.0 % geo.desc_per_block) as usize * usize::from(geo.desc_size);
    let mut fallback = None;
    for place in geo.desc_backups(nr).into_iter().take(BACKUPS_MAX) {
        if !geo.contains_blocks(place, 1) {
            continue;
        }
        let block = ed.block(place)?;
        let Some(bytes) = block.get(at..at.saturating_add(usize::from(geo.desc_size))) else {
            continue;
        };
        let Ok(desc) = GroupDesc::decode(bytes) else {
            continue;
        };
        let places = GroupDesc {
            free_blocks: 0,
            free_inodes: 0,
            itable_unused: 0,
            ..desc
        };
        if places.validate(geo, group).is_err() {
            continue;
        }
        if csum.verify_desc(group, bytes).is_ok() {
            return Ok(Some(desc));
        }
        fallback = fallback.or(Some(desc));
    }
    Ok(fallback)
}

/// Inodes of a group that must be damaged before its table is searched elsewhere.
const DAMAGED_MIN: usize = 3;

/// Takes the place of an inode table from a backup where many inodes are damaged and it differs.
///
/// # Errors
/// The device's.
pub(crate) fn mend_tables(ed: &mut Editor<'_, '_>, faults: &[Fault]) -> Result<()> {
    let of_table = |kind: FaultKind| {
        matches!(
            kind,
            FaultKind::Structure(CorruptKind::InodeChecksum)
                | FaultKind::InodeMode
                | FaultKind::RootMode
                | FaultKind::InodeReserved
        )
    };
    // A group that seems never used, but has the root.
    let hidden = faults.iter().any(|f| f.kind == FaultKind::RootMode);
    if let Some(mut desc) = ed.cx.desc(GroupNo(0)).copied().filter(|_| hidden)
        && desc.flags.contains(GroupFlags::INODE_UNINIT)
    {
        desc.flags &= !GroupFlags::INODE_UNINIT;
        desc.itable_unused = 0;
        ed.put_desc(GroupNo(0), &desc)?;
        return Ok(());
    }
    let mut damaged: BTreeMap<GroupNo, BTreeSet<Ino>> = BTreeMap::new();
    for ino in faults
        .iter()
        .filter(|f| of_table(f.kind))
        .filter_map(|f| f.ino)
    {
        if let Ok((group, _)) = ed.cx.geo.group_of_ino(ino) {
            damaged.entry(group).or_default().insert(ino);
        }
    }
    for (group, inodes) in damaged {
        let Some(mut desc) = ed.cx.desc(group).copied() else {
            continue;
        };
        if inodes.len() < DAMAGED_MIN {
            continue;
        }
        if let Some(backup) = from_backup(ed, group)?.filter(|b| b.inode_table != desc.inode_table)
        {
            desc.inode_table = backup.inode_table;
            ed.put_desc(group, &desc)?;
        }
    }
    Ok(())
}

/// Whether a fault is that a descriptor names no place that bitmaps or inodes can be at.
pub(crate) fn names_no_place(fault: &Fault) -> bool {
    use CorruptKind as C;
    matches!(
        fault.kind,
        FaultKind::Structure(
            C::GroupDescBlockBitmap | C::GroupDescInodeBitmap | C::GroupDescInodeTable
        )
    )
}

/// Repairs descriptors; false if none has a fault that is repaired here.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, faults: &[Fault]) -> Result<bool> {
    let mut changed = false;
    use CorruptKind as C;
    let is_place = |f: &Fault| match f.kind {
        FaultKind::GroupMetadataPlace
        | FaultKind::MetadataOverlap
        | FaultKind::MetadataNotMapped => true,
        _ => names_no_place(f),
    };
    let places = faults.iter().any(is_place);
    for g in (0..ed.cx.geo.groups_count).map(GroupNo) {
        let of_group =
            |kind: FaultKind| faults.iter().any(|f| f.group == Some(g) && f.kind == kind);
        let checksum = of_group(FaultKind::Structure(C::GroupDescChecksum));
        let uninit = of_group(FaultKind::GroupUninit);
        let unused = of_group(FaultKind::Structure(C::GroupDescUnusedInodes));
        if !(places || checksum || uninit || unused) {
            continue;
        }
        let Some(mut desc) = ed.cx.descs.get(g.0 as usize).copied() else {
            continue;
        };
        let before = desc;
        if places || checksum {
            match from_backup(ed, g)? {
                Some(backup) => {
                    desc.block_bitmap = backup.block_bitmap;
                    desc.inode_bitmap = backup.inode_bitmap;
                    desc.inode_table = backup.inode_table;
                }
                None => bitmap_places::find(ed, g, &mut desc)?,
            }
        }
        if desc != before || checksum || uninit || unused {
            // What hides inodes or bitmaps can't be trusted then.
            desc.flags &= GroupFlags::ITABLE_ZEROED;
            desc.itable_unused = 0;
            desc.free_blocks = 0;
            desc.free_inodes = 0;
            desc.used_dirs = 0;
            ed.put_desc(g, &desc)?;
            changed = true;
        }
    }
    Ok(changed)
}
