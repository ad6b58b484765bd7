//! What the journal calls in the file system above it.

use crate::error::JournalError;
use crate::transaction::Freed;
use uext4_ondisk::FastCommitRecord;

/// What the journal reports to the file system above.
pub trait JournalClient: Send + Sync {
    /// Transaction `tid` is durable, so `freed` may be given out again.
    ///
    /// # Locks
    /// Called by the commit thread with no lock held, sometimes with the gate closed. It must not call `start`, `sync` or
    /// `wait_commit`, which would deadlock; `flush_log` and `close` return [`JournalError::OnCommitThread`].
    fn committed(&self, tid: u64, freed: &[Freed]);
    /// What handles of the running transaction `tid` described since the last call, as records of a fast commit; none if it can't be given.
    ///
    /// # Locks
    /// Called by the commit thread with the gate closed, so no handle runs. It must not wait for one.
    fn describe(&self, tid: u64) -> Option<Vec<FastCommitRecord>> {
        let _ = tid;
        None
    }
    /// The journal is aborted: nothing is written any more.
    ///
    /// # Locks
    /// Called once, by the thread that aborts, which may hold locks of rank `handle` or below. It must not block.
    fn aborted(&self, why: &JournalError);
}
