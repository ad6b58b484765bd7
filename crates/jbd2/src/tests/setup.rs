//! A journal on a test device.

use super::device::TestDevice;
use crate::buffer::BufferCache;
use crate::{Journal, JournalOptions, LogFeatures, LogMap, LogRun, Opened, Result};
use std::sync::Arc;
use std::time::Duration;
use uext4_block::{BlockDevice, MemoryDevice};
use uext4_ondisk::{JOURNAL_BLOCKS_MIN, RawJournalSuper};
use zerocopy::IntoBytes;

pub const BLOCK: usize = 1024;
pub const LOG_BLOCKS: u32 = JOURNAL_BLOCKS_MIN;
/// Blocks for fast commits, behind it.
pub const FAST_BLOCKS: u32 = 8;
pub const DEVICE_BLOCKS: u64 = 8192;
/// The first block after the log.
pub const HOME: u64 = 4096;

/// The log lies in two parts.
pub const RUNS: [LogRun; 2] = [
    LogRun {
        first: 0,
        pblk: 64,
        len: 700,
    },
    LogRun {
        first: 700,
        pblk: 2000,
        len: LOG_BLOCKS - 700,
    },
];

pub const FEATURES: LogFeatures = LogFeatures {
    checksums: true,
    wide: true,
    fast_commits: false,
};

/// Commits only when asked to.
pub fn options() -> JournalOptions {
    JournalOptions {
        commit_interval: Duration::from_secs(100_000),
        barrier: true,
        ..JournalOptions::default()
    }
}

/// A device with an empty log, whose superblock `change` has changed.
pub fn device_with(change: impl FnOnce(&mut RawJournalSuper)) -> Arc<TestDevice> {
    let memory = MemoryDevice::new(DEVICE_BLOCKS * BLOCK as u64);
    let device = Arc::new(TestDevice::new(memory, BLOCK));
    let mut raw = RawJournalSuper::new_empty(BLOCK as u32, LOG_BLOCKS);
    change(&mut raw);
    raw.update_checksum();
    map(&device).write(0, raw.as_bytes()).expect("writes");
    device.take_calls();
    device
}

pub fn map(device: &Arc<TestDevice>) -> LogMap {
    LogMap::new(Arc::clone(device) as Arc<_>, BLOCK, RUNS.to_vec())
}

/// As [`map`], with the blocks for fast commits behind it.
pub fn map_with_fast_commits(device: &Arc<TestDevice>) -> LogMap {
    let mut runs = RUNS.to_vec();
    runs.push(LogRun {
        first: LOG_BLOCKS,
        pblk: 3000,
        len: FAST_BLOCKS,
    });
    LogMap::new(Arc::clone(device) as Arc<_>, BLOCK, runs)
}

/// A device with an empty log that has them.
pub fn device_with_fast_commits() -> Arc<TestDevice> {
    device_with(|raw| {
        raw.maxlen = (LOG_BLOCKS + FAST_BLOCKS).into();
        raw.num_fc_blks = FAST_BLOCKS.into();
    })
}

pub fn cache(device: &Arc<TestDevice>) -> Arc<BufferCache> {
    Arc::new(BufferCache::new(Arc::clone(device) as Arc<_>, BLOCK, 1024))
}

/// Opens a log on `log` for what is on `device`.
pub fn open_apart(device: &Arc<TestDevice>, log: &Arc<TestDevice>) -> Result<Arc<Journal>> {
    Journal::open(cache(device), map(log), FEATURES, options(), Opened::Empty)
}

pub fn open(device: &Arc<TestDevice>) -> Result<Arc<Journal>> {
    open_apart(device, device)
}

/// A journal that flushes nothing.
pub fn open_without_barriers(device: &Arc<TestDevice>) -> Result<Arc<Journal>> {
    let options = JournalOptions {
        barrier: false,
        ..options()
    };
    let (cache, map) = (cache(device), map(device));
    Journal::open(cache, map, FEATURES, options, Opened::Empty)
}

/// A journal with an empty log, whose opening is not among the calls.
pub fn journal() -> (Arc<TestDevice>, Arc<Journal>) {
    let device = device_with(|_| ());
    let journal = open(&device).expect("opens");
    device.take_calls();
    (device, journal)
}

/// Fills blocks with a byte, under one handle that reserves just what it needs.
pub fn fill(journal: &Journal, blocks: &[u64], byte: u8) -> Result<()> {
    let handle = journal.start(blocks.len() as u32)?;
    for block in blocks {
        let buffer = journal.cache().get(*block)?;
        handle.modify(&buffer)?.data_mut().fill(byte);
    }
    handle.finish();
    Ok(())
}

/// The first byte of a block on a device.
pub fn byte_at(device: &dyn BlockDevice, block: u64) -> u8 {
    let mut byte = [0];
    device
        .read_at(block * BLOCK as u64, &mut byte)
        .expect("reads");
    byte[0]
}

/// The first byte of each block that recovery leaves in place when the power is lost now.
pub fn after_power_loss(device: &Arc<TestDevice>, blocks: &[u64]) -> Vec<u8> {
    let left = Arc::new(TestDevice::new(device.memory.clone(), BLOCK));
    crate::recover(&map(&left), &*left).expect("recovers");
    blocks.iter().map(|b| byte_at(&left.memory, *b)).collect()
}
