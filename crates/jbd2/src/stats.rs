//! What a journal did since it was opened.

use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};
use uext4_sync::{DurationCounter, Durations};

/// What the journal did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Transactions committed.
    pub commits: u64,
    /// Fast commits.
    pub fast_commits: u64,
    /// Bytes written to the log.
    pub journal_bytes: u64,
    /// Bytes written in place.
    pub checkpoint_bytes: u64,
    /// Blocks attached beyond what their handles had reserved.
    pub overruns: u64,
    /// Commits, from closing the transaction until it is durable.
    pub commit: Durations,
    /// Checkpoints, from collecting the blocks until the log's tail has moved.
    pub checkpoint: Durations,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub commits: AtomicU64,
    pub fast_commits: AtomicU64,
    pub journal_bytes: AtomicU64,
    pub checkpoint_bytes: AtomicU64,
    pub overruns: AtomicU64,
    pub commit: DurationCounter,
    pub checkpoint: DurationCounter,
}

impl Counters {
    pub fn snapshot(&self) -> JournalStats {
        JournalStats {
            commits: self.commits.load(Relaxed),
            fast_commits: self.fast_commits.load(Relaxed),
            journal_bytes: self.journal_bytes.load(Relaxed),
            checkpoint_bytes: self.checkpoint_bytes.load(Relaxed),
            overruns: self.overruns.load(Relaxed),
            commit: self.commit.snapshot(),
            checkpoint: self.checkpoint.snapshot(),
        }
    }
}
