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

/// Makes the superblock on the device ask for recovery, whole, unless it does: before the log holds anything, as e2fsck -p gives up
/// where the log is not empty and no recovery is asked for. The caller flushes the device.
///
/// # Errors
/// The device's.
pub(crate) fn ask_for_recovery_on(device: &dyn BlockDevice) -> Result<()> {
    let mut bytes = [0u8; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes)?;
    let found = bytes;
    with_superblock(&mut bytes, 0, RawSuperblock::ask_for_recovery);
    if bytes != found {
        device.write_at(SUPERBLOCK_OFFSET, &bytes)?;
    }
    Ok(())
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
/// may have torn its last write, and then the log has it whole. One that differs by nothing but the request for recovery was torn
/// when that was written, before the log was: it is whole, and asks.
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
            if let Some(asking) = raw.torn_request() {
                return Ok((Superblock::from_raw(asking)?, None));
            }
            Ok((Superblock::from_raw(raw.clone())?, Some(why)))
        }
        Err(why) => Err(why.into()),
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;
    use uext4_block::MemoryDevice;
    use uext4_build::{MkfsOptions, NoProgress};

    /// A sector: what a crash leaves of a write is whole sectors.
    const SECTOR: usize = 512;

    #[test]
    fn a_torn_request_for_recovery_is_one() {
        let device = MemoryDevice::new(4 << 20);
        let options = MkfsOptions {
            size: Some(4 << 20),
            ..MkfsOptions::default()
        };
        uext4_build::mkfs(&device, &options, &NoProgress).expect("mkfs");
        let mut before = [0; SUPERBLOCK_SIZE];
        device
            .read_at(SUPERBLOCK_OFFSET, &mut before)
            .expect("reads");
        ask_for_recovery_on(&device).expect("asks");
        let mut after = [0; SUPERBLOCK_SIZE];
        device
            .read_at(SUPERBLOCK_OFFSET, &mut after)
            .expect("reads");
        for first in [&before, &after] {
            for last in [&before, &after] {
                let torn = [&first[..SECTOR], &last[SECTOR..]].concat();
                device.write_at(SUPERBLOCK_OFFSET, &torn).expect("writes");
                let (sb, why) = read_superblock_to_recover(&device).expect("reads");
                assert!(why.is_none());
                let asks = sb.incompat.contains(Incompat::RECOVER);
                assert_eq!(asks, torn != before, "neither as before nor asking");
                ask_for_recovery_on(&device).expect("asks again");
                let mut whole = [0; SUPERBLOCK_SIZE];
                device
                    .read_at(SUPERBLOCK_OFFSET, &mut whole)
                    .expect("reads");
                assert_eq!(
                    whole, after,
                    "what was torn is whole before the log is used"
                );
            }
        }
        let mut other = after;
        other[0x78] ^= 1;
        device.write_at(SUPERBLOCK_OFFSET, &other).expect("writes");
        let (_, why) = read_superblock_to_recover(&device).expect("reads");
        assert!(why.is_some(), "another byte is damage");
    }
}
