//! Waiting for fast commits, and transactions of which there can be none.

use super::Journal;
use crate::error::Result;
use uext4_sync::atomic::Ordering::Relaxed;
use uext4_sync::{class, order};

impl Journal {
    /// Whether there may be a fast commit of transaction `tid`, which runs.
    #[inline]
    pub fn can_fast_commit(&self, tid: u64) -> bool {
        self.has_fast_commits() && self.not_described.load(Relaxed) != tid
    }

    /// Says that no fast commit can be of transaction `tid`, which runs.
    pub(crate) fn note_not_described(&self, tid: u64) {
        // Handles of an older one may not end beside this.
        if self.not_described.load(Relaxed) != tid {
            self.not_described.store(tid, Relaxed);
        }
    }

    /// As [`Journal::wait_commit`], by a fast commit where there can be one. Of the running transaction that one makes
    /// durable what its handles have described, and the data that they published.
    ///
    /// # Locks
    /// Waits; nothing of rank `handle` or below may be held.
    ///
    /// # Errors
    /// As [`Journal::wait_commit`].
    pub fn wait_fast_commit(&self, tid: u64) -> Result<()> {
        order::Held::check(&class::HANDLE);
        if !self.can_fast_commit(tid) {
            return self.wait_commit(tid);
        }
        let mut state = self.state.lock();
        if self.running_tid() != tid {
            drop(state);
            return self.wait_commit(tid);
        }
        state.fast_requested += 1;
        let asked = state.fast_requested;
        self.work.notify_all();
        while state.fast_done < asked && !self.is_committed(tid) {
            if state.stopped || self.is_aborted() {
                return Err(self.abort_error());
            }
            self.done.wait(&mut state);
        }
        Ok(())
    }
}
