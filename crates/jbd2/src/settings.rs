//! What of a journal can change while it is in use: how often it commits, and whether it flushes.
//!
//! # Locking
//! Each value is an atomic of its own.

use crate::options::JournalOptions;
use std::time::Duration;
use uext4_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The options of a journal, as they are now.
#[derive(Debug)]
pub(crate) struct Settings {
    commit_interval_ns: AtomicU64,
    barrier: AtomicBool,
    handle_extra: AtomicU32,
}

impl Settings {
    pub fn new(options: &JournalOptions) -> Settings {
        Settings {
            commit_interval_ns: AtomicU64::new(nanoseconds(options.commit_interval)),
            barrier: AtomicBool::new(options.barrier),
            handle_extra: AtomicU32::new(0),
        }
    }

    /// A transaction is committed when it is this old.
    pub fn commit_interval(&self) -> Duration {
        Duration::from_nanos(self.commit_interval_ns.load(Ordering::Relaxed))
    }

    /// Returns whether that is a change.
    pub fn set_commit_interval(&self, interval: Duration) -> bool {
        let ns = nanoseconds(interval);
        self.commit_interval_ns.swap(ns, Ordering::Relaxed) != ns
    }

    /// Returns the value before.
    pub fn set_barrier(&self, barrier: bool) -> bool {
        self.barrier.swap(barrier, Ordering::SeqCst)
    }

    /// Credits that each handle gets besides those that its caller asks for.
    #[inline]
    pub fn handle_extra(&self) -> u32 {
        self.handle_extra.load(Ordering::Relaxed)
    }

    pub fn set_handle_extra(&self, credits: u32) {
        self.handle_extra.store(credits, Ordering::Relaxed);
    }

    /// Whether the device is flushed around a commit block.
    pub fn barrier(&self) -> bool {
        self.barrier.load(Ordering::Relaxed)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::JournalError;
    use crate::buffer::BufferCache;
    use crate::journal::Journal;
    use std::sync::Arc;
    use uext4_block::{BlockDevice, CountDevice, MemoryDevice};

    fn journal(options: JournalOptions) -> Arc<Journal> {
        let device = Arc::new(MemoryDevice::new(1 << 20));
        let cache = Arc::new(BufferCache::new(device, 4096, 16));
        Journal::without_log(cache, options).expect("a thread")
    }

    #[test]
    fn a_closed_journal_takes_no_handle_until_it_is_reopened() {
        let journal = journal(JournalOptions::default());
        let nothing = |_: &crate::Handle<'_>| Ok::<(), JournalError>(());
        for _ in 0..2 {
            journal.close(nothing).expect("closes");
            assert!(matches!(journal.start(1), Err(JournalError::Closed)));
            assert!(matches!(journal.try_start(1), Ok(None)));
            journal.sync().expect("has nothing to do");
            journal.reopen().expect("reopens");
            journal.start(1).expect("starts").finish();
            journal.sync().expect("syncs");
        }
        journal.stop();
    }

    #[test]
    fn turning_barriers_on_flushes_what_was_committed_without() {
        let device = Arc::new(CountDevice::new(MemoryDevice::new(1 << 20)));
        let cache = Arc::new(BufferCache::new(Arc::clone(&device) as Arc<_>, 4096, 16));
        let options = JournalOptions {
            barrier: false,
            ..JournalOptions::default()
        };
        let journal = Journal::without_log(cache, options).expect("a thread");
        let flushes = || device.counts().flushes;
        for (barrier, expected) in [(false, 0), (true, 1), (true, 1), (false, 1)] {
            journal.set_barrier(barrier).expect("flushes");
            assert_eq!(flushes(), expected, "{barrier}");
        }
        journal.stop();
    }

    #[test]
    fn a_shorter_interval_holds_for_the_running_transaction() {
        let journal = journal(JournalOptions {
            commit_interval: Duration::from_secs(10_000),
            ..JournalOptions::default()
        });
        let buffer = journal.cache().get(3).expect("block 3");
        let handle = journal.start(1).expect("starts");
        handle.modify(&buffer).expect("modifies").data_mut().fill(7);
        let tid = journal.running_tid();
        handle.finish();
        journal.set_commit_interval(Duration::from_millis(1));
        while !journal.is_committed(tid) {
            std::thread::yield_now();
        }
        let mut block = [0; 4096];
        let device = journal.cache().device();
        device.read_at(3 * 4096, &mut block).expect("reads");
        assert_eq!(block, [7; 4096]);
        journal.stop();
    }
}
