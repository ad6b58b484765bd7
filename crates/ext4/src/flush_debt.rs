//! Data that was written to the device and may still be in its cache.
//!
//! # Invariants
//! - What a flush covers is claimed before it starts and noted when it has ended, so that whoever syncs
//!   beside another waits for a flush too.
//! - A write needs a number of its own only if the one before it was claimed: otherwise the flush that
//!   claims that one is still to come. So writes of many threads change no shared line between two syncs.
//!
//! # Locking
//! None: counters that only grow.

use uext4_sync::atomic::{AtomicU64, Ordering};

/// Counts writes, and how many of them a flush has covered.
#[derive(Debug)]
pub(crate) struct FlushDebt {
    writes: AtomicU64,
    /// The most that a flush which began covers.
    claimed: AtomicU64,
    /// The most that a flush which ended covered.
    flushed: AtomicU64,
}

impl FlushDebt {
    /// Nothing to flush.
    pub fn new() -> FlushDebt {
        FlushDebt {
            writes: AtomicU64::new(0),
            claimed: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
        }
    }

    /// Says that data was written which no later commit is known to flush.
    pub fn add(&self) {
        let writes = self.writes.load(Ordering::SeqCst);
        if self.claimed.load(Ordering::SeqCst) >= writes {
            self.writes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Which writes a flush from now on covers, if there are some that none has covered.
    pub fn due(&self) -> Option<u64> {
        let writes = self.writes.load(Ordering::SeqCst);
        if self.flushed.load(Ordering::Acquire) >= writes {
            return None;
        }
        self.claimed.fetch_max(writes, Ordering::SeqCst);
        Some(writes)
    }

    /// Says that a flush covered the writes that [`FlushDebt::due`] gave.
    pub fn paid(&self, writes: u64) {
        self.flushed.fetch_max(writes, Ordering::Release);
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_write_is_covered_by_a_flush_that_began_after_it() {
        let debt = FlushDebt::new();
        assert_eq!(debt.due(), None);
        debt.add();
        debt.add();
        let first = debt.due().expect("something to flush");
        debt.add();
        assert_eq!(debt.due(), Some(first + 1), "not covered by the first");
        debt.paid(first);
        assert_eq!(debt.due(), Some(first + 1));
        debt.paid(first + 1);
        assert_eq!(debt.due(), None);
    }

    #[test]
    fn who_syncs_beside_another_waits_too() {
        let debt = FlushDebt::new();
        debt.add();
        let first = debt.due();
        assert!(first.is_some());
        assert_eq!(debt.due(), first);
    }
}
