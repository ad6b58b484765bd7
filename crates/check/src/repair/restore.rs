//! A superblock from a backup.

use crate::edits::Edits;
use crate::prelude::*;
use uext4_ondisk::{EXT4_MAGIC, FormatError, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};

/// Groups that have a backup in most file systems.
const GROUPS: [u64; 10] = [1, 3, 5, 7, 9, 25, 27, 49, 81, 125];
/// Bytes at the front of a device that are searched for backups in other places.
const SEARCH_BYTES: u64 = 1 << 30;
/// Bytes of a read of that search.
const CHUNK: usize = 1 << 20;
/// Byte of the magic.
const MAGIC_AT: usize = 0x38;
/// State of a file system that was unmounted.
const STATE_CLEAN: u16 = 1;

/// True if a superblock that does not parse may be a damaged one.
pub(crate) fn is_damage(e: &FormatError) -> bool {
    matches!(
        e,
        FormatError::BadMagic(_)
            | FormatError::BadGeometry { .. }
            | FormatError::Checksum { .. }
            | FormatError::Revision(_)
            | FormatError::JournalDevice
            | FormatError::UnsupportedIncompat(_)
    )
}

/// A superblock at byte `at`, if it is a sound backup of a file system that fits the device.
fn backup_at(device: &dyn BlockDevice, at: u64) -> Result<Option<Superblock>> {
    if at.saturating_add(SUPERBLOCK_SIZE as u64) > device.len() {
        return Ok(None);
    }
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    device.read_at(at, &mut bytes)?;
    let Ok(sb) = Superblock::parse(&bytes) else {
        return Ok(None);
    };
    let geo = &sb.geometry;
    let group = GroupNo(sb.raw.block_group_nr.get().into());
    let bytes = geo.blocks_count.saturating_mul(geo.block_size.into());
    let here = group.0 != 0
        && group.0 < geo.groups_count
        && geo.block_offset(geo.group_first_block(group)) == at;
    Ok(Some(sb).filter(|_| here && bytes <= device.len()))
}

/// The first sound backup: where most are, then anywhere at the front of the device.
///
/// # Errors
/// The device's.
pub(crate) fn find(device: &dyn BlockDevice) -> Result<Option<Superblock>> {
    for bits in 10..17u32 {
        let block = 1u64 << bits;
        for group in GROUPS {
            let first = u64::from(bits == 10);
            let at = (group * block * 8 + first).saturating_mul(block);
            if let Some(sb) = backup_at(device, at)? {
                return Ok(Some(sb));
            }
        }
    }
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    while at < device.len().min(SEARCH_BYTES) {
        let len = (device.len() - at).min(CHUNK as u64) as usize;
        let Some(part) = chunk.get_mut(..len) else {
            break;
        };
        device.read_at(at, part)?;
        let units = part.chunks_exact(SUPERBLOCK_SIZE).enumerate();
        let magic = units.filter(|(_, unit)| le16(unit, MAGIC_AT) == Some(EXT4_MAGIC));
        let places: Vec<u64> = magic
            .map(|(i, _)| at.saturating_add((i * SUPERBLOCK_SIZE) as u64))
            .collect();
        for place in places {
            if let Some(sb) = backup_at(device, place)? {
                return Ok(Some(sb));
            }
        }
        at = at.saturating_add(CHUNK as u64);
    }
    Ok(None)
}

/// The primary superblock, made from a backup: what changes in use is kept from the primary one where it can be
/// right. A journal that may hold changes is to be recovered, as no backup records it.
pub(crate) fn merged(
    device: &dyn BlockDevice,
    backup: &Superblock,
    primary: &RawSuperblock,
) -> RawSuperblock {
    let mut raw = backup.raw.clone();
    if backup.may_need_recovery(|at, bytes| device.read_at(at, bytes).is_ok()) {
        let incompat = backup.incompat | Incompat::RECOVER;
        raw.set_features(backup.compat, incompat, backup.ro_compat);
    }
    raw.block_group_nr = 0.into();
    raw.state = STATE_CLEAN.into();
    if primary.magic.get() == EXT4_MAGIC && primary.uuid == backup.raw.uuid {
        raw.last_orphan = primary.last_orphan;
        if primary.last_orphan.get() > backup.geometry.inodes_count {
            raw.last_orphan = 0.into();
        }
        let kept = Incompat::RECOVER.bits();
        let incompat = raw.feature_incompat.get() | primary.feature_incompat.get() & kept;
        raw.feature_incompat = incompat.into();
        let kept = RoCompat::ORPHAN_PRESENT.bits();
        let ro_compat = raw.feature_ro_compat.get() | primary.feature_ro_compat.get() & kept;
        raw.feature_ro_compat = ro_compat.into();
        (raw.mtime, raw.mtime_hi) = (primary.mtime, primary.mtime_hi);
        raw.mnt_count = primary.mnt_count;
        raw.kbytes_written = primary.kbytes_written;
    }
    raw.update_checksum();
    raw
}

/// Changes that put a backup in place of the superblock; `None` if there is none.
///
/// # Errors
/// The device's.
pub(crate) fn from_backup(device: &dyn BlockDevice) -> Result<Option<Edits>> {
    let Some(backup) = find(device)? else {
        return Ok(None);
    };
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes)?;
    let Some(slot) = RawSuperblock::mut_from(&mut bytes) else {
        return Ok(None);
    };
    *slot = merged(device, &backup, slot);
    let mut edits = Edits::default();
    edits.write(SUPERBLOCK_OFFSET, &bytes);
    Ok(Some(edits))
}

/// Changes that remove the feature of folded names, if there is no encoding for them; none otherwise.
///
/// # Errors
/// The device's.
pub(crate) fn without_folding(device: &dyn BlockDevice) -> Result<Edits> {
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes)?;
    let mut edits = Edits::default();
    let Some(raw) = RawSuperblock::mut_from(&mut bytes) else {
        return Ok(edits);
    };
    if raw.incompat().contains(Incompat::CASEFOLD) && raw.encoding.get() == 0 {
        raw.feature_incompat = (raw.incompat() & !Incompat::CASEFOLD).bits().into();
        raw.update_checksum();
        edits.write(SUPERBLOCK_OFFSET, &bytes);
    }
    Ok(edits)
}
