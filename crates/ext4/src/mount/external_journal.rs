//! A journal on a device of its own.
//!
//! # Data model
//! The device starts with a superblock that says so and has a UUID, which the file system names. The
//! journal's superblock is in the block after; blocks of the log are counted from the start of the
//! device, so that the first few are none.
//!
//! Source: Linux documentation, filesystems/ext4, "Journal (jbd2)", "External Journal".

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;

use crate::options::MountOptions;
use crate::prelude::*;
use uext4_jbd2::LogRun;
use uext4_ondisk::{JournalDevice, JournalSuper, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};

/// The log of a file system that has it on another device. Without that device, what needs none can
/// still be read.
///
/// # Errors
/// [`Ext4Error::Unsupported`] where the device is needed and is not given; as [`log_on`].
pub(crate) fn find(
    sb: &Superblock,
    device: Option<&Arc<dyn BlockDevice>>,
    options: &MountOptions,
) -> Result<Option<LogMap>> {
    let reads_only =
        options.read_only && (options.noload || !sb.incompat.contains(Incompat::RECOVER));
    match device {
        Some(device) => log_on(sb, device).map(Some),
        None if reads_only => Ok(None),
        None => Err(Ext4Error::Unsupported(
            "mounting a file system without the device that its journal is on",
        )),
    }
}

/// Where the log of the file system of `sb` lies on `device`.
///
/// # Errors
/// [`Ext4Error::JournalUuid`]; a device that holds no journal, a journal of another file system or of
/// more than one, damage, or the device's.
fn log_on(sb: &Superblock, device: &Arc<dyn BlockDevice>) -> Result<LogMap> {
    let mut bytes = [0u8; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes)?;
    let head = JournalDevice::parse(&bytes)?;
    if head.raw.uuid != sb.raw.journal_uuid {
        return Err(Ext4Error::JournalUuid {
            wanted: show(&sb.raw.journal_uuid),
            found: show(&head.raw.uuid),
        });
    }
    let block_size = sb.geometry.block_size as usize;
    let start = head.journal_super_block();
    let blocks = head.blocks_count.min(device.len() / block_size as u64);
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    let map = LogMap::new(
        Arc::clone(device),
        block_size,
        vec![
            LogRun {
                first: 0,
                pblk: start,
                len: 1,
            },
            LogRun {
                first: 1,
                pblk: 1,
                len: blocks.saturating_sub(1),
            },
        ],
    );
    check(sb, &map, start)?;
    Ok(map)
}

/// The log keeps off the superblocks and is this file system's alone.
fn check(sb: &Superblock, map: &LogMap, start: u64) -> Result<()> {
    let mut block = vec![0; map.block_size()];
    map.read(0, &mut block)?;
    let journal = JournalSuper::parse(&block, map.block_size() as u32)?;
    let first = journal.raw.first.get();
    if u64::from(first) <= start {
        return Err(Corrupt::new(CorruptKind::JournalFirst).detail(first).into());
    }
    if journal.users().len() > 1 {
        return Err(Ext4Error::Unsupported(
            "a journal of more than one file system",
        ));
    }
    if !journal.users().contains(&sb.raw.uuid) {
        return Err(Ext4Error::Invalid("the journal is not this file system's"));
    }
    Ok(())
}

fn show(uuid: &[u8; 16]) -> String {
    let mut text = String::new();
    for (i, byte) in uuid.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}
