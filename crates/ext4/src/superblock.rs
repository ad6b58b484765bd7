//! The superblock in its block.

use crate::prelude::*;
use uext4_ondisk::{FormatError, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};

/// Changes the superblock that starts at byte `at` of its block.
pub fn with_superblock(data: &mut [u8], at: usize, change: impl FnOnce(&mut RawSuperblock)) {
    if let Some(bytes) = data.get_mut(at..at + SUPERBLOCK_SIZE)
        && let Some(raw) = RawSuperblock::mut_from(bytes)
    {
        change(raw);
    }
}

/// The block of the primary superblock, and where it starts there.
pub fn superblock_place(block_size: u32) -> (Pblk, usize) {
    let size = u64::from(block_size);
    (
        Pblk(SUPERBLOCK_OFFSET / size),
        (SUPERBLOCK_OFFSET % size) as usize,
    )
}

/// Seconds since 1970.
pub(crate) fn unix_now() -> u64 {
    uext4_sync::clock::since_epoch().as_secs()
}

/// Reads and checks the superblock of a device.
///
/// # Errors
/// The device's, or why it is not a superblock.
pub fn read_superblock(device: &dyn BlockDevice) -> Result<Superblock> {
    let mut bytes = [0u8; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes)?;
    Ok(Superblock::parse(&bytes)?)
}

/// As [`read_superblock`], but one whose checksum alone is wrong is given too, with the error: a crash
/// may have torn its last write, and then the log has it whole.
///
/// # Errors
/// As [`read_superblock`].
pub fn read_superblock_to_recover(
    device: &dyn BlockDevice,
) -> Result<(Superblock, Option<FormatError>)> {
    let mut bytes = [0u8; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes)?;
    match Superblock::parse(&bytes) {
        Ok(sb) => Ok((sb, None)),
        Err(why @ FormatError::Checksum { .. }) => {
            let Some(raw) = RawSuperblock::mut_from(&mut bytes) else {
                return Err(why.into());
            };
            Ok((Superblock::from_raw(raw.clone())?, Some(why)))
        }
        Err(why) => Err(why.into()),
    }
}
