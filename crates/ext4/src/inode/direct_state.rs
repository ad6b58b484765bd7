//! What direct I/O keeps for an inode.

use uext4_sync::class;
use uext4_sync::{Condvar, Mutex, RangeLock};

/// What direct I/O keeps for an inode.
#[derive(Debug, Default)]
pub(crate) struct DirectState {
    /// The blocks, as bytes, of writes that are not overwrites.
    pub(crate) ranges: RangeLock,
    pub(crate) conversions: Conversions,
}

/// The batches of an inode.
#[derive(Debug)]
pub(crate) struct Conversions {
    pub(crate) batches: Mutex<Batches>,
    pub(crate) ended: Condvar,
}

#[derive(Debug)]
pub(crate) struct Batches {
    /// The blocks of the batch that is being collected, as `[from, to)`.
    pub(crate) waiting: Vec<(u64, u64)>,
    /// Its number.
    pub(crate) collecting: u64,
    /// The last one that ended, well or not.
    pub(crate) ended: u64,
    /// The last one that failed.
    pub(crate) failed: u64,
    pub(crate) running: bool,
}

impl Default for Conversions {
    fn default() -> Self {
        Conversions {
            batches: Mutex::new(
                &class::DIRECT,
                Batches {
                    waiting: Vec::new(),
                    collecting: 1,
                    ended: 0,
                    failed: 0,
                    running: false,
                },
            ),
            ended: Condvar::new(),
        }
    }
}
