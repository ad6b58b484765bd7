//! Data that was written to the device and may still be in its cache.
//!
//! # Invariants
//! What a flush covers is read before it starts and noted when it has ended, so that whoever syncs beside
//! another waits for a flush too.
//!
//! # Locking
//! None: two counters that only grow.

use uext4_sync::atomic::{AtomicU64, Ordering};

/// Counts writes, and how many of them a flush has covered.
#[derive(Debug)]
pub(crate) struct FlushDebt {
    writes: AtomicU64,
    flushed: AtomicU64,
}

impl FlushDebt {
    /// Nothing to flush.
    pub fn new() -> FlushDebt {
        FlushDebt {
            writes: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
        }
    }

    /// Says that data was written which no later commit is known to flush.
    pub fn add(&self) {
        self.writes.fetch_add(1, Ordering::Release);
    }

    /// Which writes a flush from now on covers, if there are some that none has covered.
    pub fn due(&self) -> Option<u64> {
        let writes = self.writes.load(Ordering::Acquire);
        (self.flushed.load(Ordering::Acquire) < writes).then_some(writes)
    }

    /// Says that a flush covered the writes that [`FlushDebt::due`] gave.
    pub fn paid(&self, writes: u64) {
        self.flushed.fetch_max(writes, Ordering::Release);
    }
}
