//! Data that was written to the device and may still be in its cache.
//!
//! # Invariants
//! - What a flush covers is claimed before it starts and noted when it has ended, so that a thread that syncs
//!   beside another waits for a flush too.
//! - A write needs a number of its own only if the one before it was claimed: otherwise the flush that
//!   claims that one is still to come. So writes of many threads change no shared line between two syncs.
//!
//! # Locking
//! None: counters that only grow.

use uext4_sync::atomic::{AtomicU64, Ordering, fence};

/// Counts writes, and how many of them a flush has covered.
#[derive(Debug)]
pub(crate) struct UnflushedWrites {
    writes: AtomicU64,
    /// The most that a flush which began covers.
    claimed: AtomicU64,
    /// The most that a flush which ended covered.
    flushed: AtomicU64,
}

impl UnflushedWrites {
    /// Nothing to flush.
    pub fn new() -> UnflushedWrites {
        UnflushedWrites {
            writes: AtomicU64::new(0),
            claimed: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
        }
    }

    /// Says that data was written which no later commit is known to flush.
    pub fn add(&self) {
        // Either this finds the claim of a flush, or that flush finds the data.
        fence(Ordering::SeqCst);
        let writes = self.writes.load(Ordering::Acquire);
        if self.claimed.load(Ordering::Relaxed) >= writes {
            self.writes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Which writes a flush from now on covers, if there are some that none has covered.
    pub fn due(&self) -> Option<u64> {
        let writes = self.writes.load(Ordering::Acquire);
        if self.flushed.load(Ordering::Acquire) >= writes {
            return None;
        }
        self.claimed.fetch_max(writes, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Some(writes)
    }

    /// Says that a flush covered the writes that [`UnflushedWrites::due`] gave.
    pub fn paid(&self, writes: u64) {
        self.flushed.fetch_max(writes, Ordering::Release);
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_write_is_covered_by_a_flush_that_began_after_it() {
        let debt = UnflushedWrites::new();
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
        let debt = UnflushedWrites::new();
        debt.add();
        let first = debt.due();
        assert!(first.is_some());
        assert_eq!(debt.due(), first);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A file and its device: what was written, and how much of it is durable.
    struct Disk {
        debt: UnflushedWrites,
        written: AtomicU64,
        durable: AtomicU64,
    }

    impl Disk {
        fn write(&self) {
            self.written.fetch_add(1, Ordering::Relaxed);
            self.debt.add();
        }

        fn sync(&self) {
            if let Some(writes) = self.debt.due() {
                let written = self.written.load(Ordering::Acquire);
                self.durable.fetch_max(written, Ordering::AcqRel);
                self.debt.paid(writes);
            }
        }
    }

    /// A thread that wrote and syncs finds its write durable, whatever other threads sync.
    #[test]
    fn loom_what_was_synced_is_durable() {
        loom::model(|| {
            let disk = Arc::new(Disk {
                debt: UnflushedWrites::new(),
                written: AtomicU64::new(0),
                durable: AtomicU64::new(0),
            });
            disk.write();
            let other = {
                let disk = Arc::clone(&disk);
                thread::spawn(move || {
                    disk.sync();
                    disk.sync();
                })
            };
            disk.write();
            disk.sync();
            assert_eq!(disk.durable.load(Ordering::Acquire), 2);
            other.join().expect("joins");
        });
    }
}
