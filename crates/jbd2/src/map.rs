//! Where the log lies on the device.

use crate::error::{JournalError, Result};
use std::sync::Arc;
use uext4_block::BlockDevice;
use uext4_ondisk::{Corrupt, CorruptKind};

/// A run of log blocks that lie together on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRun {
    /// The first block, counted in the log.
    pub first: u32,
    /// The first block, counted on the device.
    pub pblk: u64,
    /// How many blocks.
    pub len: u32,
}

/// The log as runs of blocks on a device.
#[derive(Clone, Debug)]
pub struct LogMap {
    device: Arc<dyn BlockDevice>,
    block_size: usize,
    runs: Vec<LogRun>,
}

impl LogMap {
    /// A log on `device`; `runs` in ascending order without gaps.
    pub fn new(device: Arc<dyn BlockDevice>, block_size: usize, runs: Vec<LogRun>) -> LogMap {
        LogMap {
            device,
            block_size,
            runs,
        }
    }

    /// The device under the log.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// The runs, in the order of the log.
    pub fn runs(&self) -> &[LogRun] {
        &self.runs
    }

    /// Gives the log its space on the host, so that writing to it does not fail for lack of space.
    ///
    /// # Errors
    /// The device's: `ENOSPC` where the host is full.
    pub fn allocate(&self) -> Result<()> {
        let size = self.block_size as u64;
        for run in &self.runs {
            self.device
                .allocate(run.pblk * size, u64::from(run.len) * size)?;
        }
        Ok(())
    }

    /// The size of a block in bytes.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// How many blocks the runs hold.
    pub fn len(&self) -> u32 {
        self.runs.last().map_or(0, |r| r.first + r.len)
    }

    /// Whether there are no blocks at all.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The device block of a log block, with how many follow it directly.
    fn locate(&self, block: u32) -> Option<(u64, u32)> {
        let at = self.runs.partition_point(|r| r.first + r.len <= block);
        let run = self.runs.get(at)?;
        let within = block.checked_sub(run.first)?;
        Some((run.pblk + u64::from(within), run.len - within))
    }

    /// Calls `f` for each piece of `len` blocks from `block` on that lies together on the device:
    /// device offset, offset in the caller's bytes, bytes.
    fn pieces(
        &self,
        block: u32,
        len: u32,
        mut f: impl FnMut(u64, usize, usize) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        while done < len {
            let Some((pblk, here)) = self.locate(block + done) else {
                return Err(Corrupt::new(CorruptKind::JournalMaxLen)
                    .detail(format_args!("no block {}", block + done))
                    .into());
            };
            let n = here.min(len - done);
            let size = self.block_size;
            f(pblk * size as u64, done as usize * size, n as usize * size)?;
            done += n;
        }
        Ok(())
    }

    /// Writes whole blocks from log block `block` on; they must not pass the end of the log.
    ///
    /// # Errors
    /// The device's.
    pub fn write(&self, block: u32, bytes: &[u8]) -> Result<()> {
        let len = (bytes.len() / self.block_size) as u32;
        self.pieces(block, len, |offset, at, n| {
            let piece = bytes.get(at..at + n).ok_or_else(past_the_end)?;
            Ok(self.device.write_at(offset, piece)?)
        })
    }

    /// Writes one block and makes it durable.
    ///
    /// # Errors
    /// The device's.
    pub fn write_fua(&self, block: u32, bytes: &[u8]) -> Result<()> {
        self.pieces(block, 1, |offset, at, n| {
            let piece = bytes.get(at..at + n).ok_or_else(past_the_end)?;
            Ok(self.device.write_fua(offset, piece)?)
        })
    }

    /// Reads whole blocks from log block `block` on; they must not pass the end of the log.
    ///
    /// # Errors
    /// The device's.
    pub fn read(&self, block: u32, bytes: &mut [u8]) -> Result<()> {
        let len = (bytes.len() / self.block_size) as u32;
        self.pieces(block, len, |offset, at, n| {
            let piece = bytes.get_mut(at..at + n).ok_or_else(past_the_end)?;
            Ok(self.device.read_at(offset, piece)?)
        })
    }
}

/// Fewer bytes than the blocks that they are to be.
fn past_the_end() -> JournalError {
    Corrupt::new(CorruptKind::JournalMaxLen)
        .detail("less than a block of bytes")
        .into()
}
