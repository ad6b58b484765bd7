//! What a journal did since it was opened.

use uext4_sync::atomic::AtomicU64;

/// What the journal did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Transactions committed.
    pub commits: u64,
    /// Bytes written to the log.
    pub journal_bytes: u64,
    /// Bytes written in place.
    pub checkpoint_bytes: u64,
    /// Blocks attached beyond what their handles had reserved.
    pub overruns: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub commits: AtomicU64,
    pub journal_bytes: AtomicU64,
    pub checkpoint_bytes: AtomicU64,
    pub overruns: AtomicU64,
}
