//! Edits written in place, in an order after which a crash leaves what another repair can complete.

use crate::error::RepairError;
use crate::undo_file::RUN_BYTES_MAX;
use uext4_block::BlockDevice;
use uext4_check::{EDIT_UNIT, Edits, LogPlace};
use uext4_ondisk::{
    Incompat, RawSuperblock, STATE_CLEAN, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock,
};

/// Writes edits and makes them durable: blocks that nothing used, then those in use, then the superblock of the log, and last the one
/// of the file system.
///
/// # Crash
/// Recovery of a log, if the superblock asked for it, is asked for until all else is durable. Any part of the edits may be there; then the
/// superblock does not say that the file system is clean, so that e2fsck checks all of it.
///
/// # Errors
/// The device's.
pub(crate) fn ordered(
    device: &dyn BlockDevice,
    edits: &Edits,
    log: Option<&LogPlace>,
) -> Result<(), RepairError> {
    let (fresh, mut used) = edits.split_fresh();
    let superblock = used.take(superblock_units());
    let log = log.map(log_superblock_units);
    let log = log.map_or(Edits::default(), |units| used.take(units));
    durably(device, &fresh)?;
    let was = match used.is_empty() {
        true => None,
        false => mark(device, |raw| {
            let is_clean = raw.state.get() & STATE_CLEAN != 0;
            raw.state = (raw.state.get() & !STATE_CLEAN).into();
            is_clean && !raw.incompat().contains(Incompat::RECOVER)
        })?,
    };
    for part in [used, log, superblock.clone()] {
        durably(device, &part)?;
    }
    if let Some(was) = was.filter(|_| superblock.is_empty()) {
        device.write_at(SUPERBLOCK_OFFSET, &was)?;
        device.flush()?;
    }
    Ok(())
}

/// Changes the superblock durably, and returns what it was; `None` if it is not whole, or `change` returns false.
///
/// # Errors
/// The device's.
pub(crate) fn mark(
    device: &dyn BlockDevice,
    change: impl FnOnce(&mut RawSuperblock) -> bool,
) -> Result<Option<Vec<u8>>, RepairError> {
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes)?;
    let was = bytes.clone();
    if Superblock::parse(&bytes).is_err() {
        return Ok(None);
    }
    let raw = RawSuperblock::mut_from(&mut bytes);
    let changed = raw.is_some_and(|raw| {
        let wanted = change(raw);
        raw.update_checksum();
        wanted
    });
    if !changed {
        return Ok(None);
    }
    device.write_at(SUPERBLOCK_OFFSET, &bytes)?;
    device.flush()?;
    Ok(Some(was))
}

fn superblock_units() -> std::ops::Range<u64> {
    let unit = EDIT_UNIT as u64;
    let first = SUPERBLOCK_OFFSET / unit;
    first..first + (SUPERBLOCK_SIZE as u64).div_ceil(unit)
}

/// Writes the edits of the log's own superblock.
///
/// # Errors
/// The device's.
pub(crate) fn log_superblock(
    device: &dyn BlockDevice,
    log: &LogPlace,
    edits: &Edits,
) -> Result<(), RepairError> {
    durably(device, &edits.clone().take(log_superblock_units(log)))
}

fn log_superblock_units(log: &LogPlace) -> std::ops::Range<u64> {
    let units = u64::from(log.block_size) / EDIT_UNIT as u64;
    let first = log.runs.first().map_or(0, |run| run.1.0);
    first * units..(first + 1) * units
}

/// Writes edits and makes them durable.
///
/// # Errors
/// The device's.
fn durably(device: &dyn BlockDevice, part: &Edits) -> Result<(), RepairError> {
    if part.is_empty() {
        return Ok(());
    }
    edits(device, part)?;
    Ok(device.flush()?)
}

/// Writes edits. A flush makes them durable.
///
/// # Errors
/// The device's.
pub(crate) fn edits(device: &dyn BlockDevice, edits: &Edits) -> Result<(), RepairError> {
    for (offset, bytes) in edits.runs(RUN_BYTES_MAX) {
        device.write_at(offset, &bytes)?;
    }
    Ok(())
}
