//! Edits written in place, in an order after which a crash leaves what another repair can complete.

use crate::error::RepairError;
use crate::undo_file::RUN_BYTES_MAX;
use uext4_block::BlockDevice;
use uext4_check::{EDIT_UNIT, Edits, LogPlace};
use uext4_ondisk::{SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};

/// Writes edits and makes them durable: blocks that nothing used, then those in use, then the superblock of the log, and last the one
/// of the file system.
///
/// # Crash
/// Recovery of a log, if the superblock asked for it, is asked for until all else is durable. Any part of the edits may be there.
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
    for part in [fresh, used, log, superblock] {
        durably(device, &part)?;
    }
    Ok(())
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
