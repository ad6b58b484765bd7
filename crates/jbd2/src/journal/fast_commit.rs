//! Waiting for fast commits, and transactions of which there can be none.

use super::Journal;
use crate::error::Result;
use std::time::Duration;
use uext4_sync::atomic::Ordering::Relaxed;
use uext4_sync::{Condvar, class, order};

/// The rounds that calls can be in at a time: the fast commit of one is written, of the next closed, and the last takes calls.
pub(crate) const ROUNDS: usize = 3;

/// The rounds of calls that wait for fast commits.
#[derive(Debug, Default)]
pub(crate) struct FastRounds {
    /// The round that takes calls.
    current: u64,
    /// It has some.
    has_calls: bool,
    /// The fast commits of rounds below this are durable.
    done: u64,
}

impl FastRounds {
    /// Whether a call waits whose round is not closed.
    pub fn has_calls(&self) -> bool {
        self.has_calls
    }
}

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
        state.fast.has_calls = true;
        let round = state.fast.current;
        self.work.notify_all();
        while state.fast.done <= round && !self.is_committed(tid) {
            if state.stopped || self.is_aborted() {
                return Err(self.abort_error());
            }
            self.round_done(round).wait(&mut state);
        }
        Ok(())
    }

    fn round_done(&self, round: u64) -> &Condvar {
        let [first, second, third] = &self.fast_done;
        match round % ROUNDS as u64 {
            0 => first,
            1 => second,
            _ => third,
        }
    }

    /// Ends the round that takes calls: later ones are in the next. Returns it.
    pub(crate) fn begin_fast_commit(&self) -> u64 {
        let mut state = self.state.lock();
        state.fast.has_calls = false;
        let round = state.fast.current;
        state.fast.current += 1;
        round
    }

    /// Says that what the calls of `round` and those before wait for is durable.
    pub(crate) fn end_fast_commit(&self, round: u64) {
        self.state.lock().fast.done = round + 1;
        self.round_done(round).notify_all();
    }

    /// Whether calls wait for a fast commit and nothing else is to be done, with a running transaction of that age.
    pub(crate) fn awaits_only_fast_commits(&self, age: Duration) -> bool {
        let state = self.state.lock();
        let is_other = state.need_room || state.need_empty || state.stop;
        let is_commit =
            state.requested >= self.running_tid() || age >= self.settings.commit_interval();
        state.fast.has_calls && !is_other && !is_commit
    }
}
