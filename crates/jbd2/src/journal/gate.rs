//! The gate of the running transaction: which handles start, and how many blocks they reserve.

use super::{Journal, State};
use crate::error::{JournalError, Result};
use crate::transaction::Shard;
use uext4_sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Blocks reserved for a CPU at a time.
const CREDIT_BATCH: i64 = 128;

/// What every start of a handle reads and hardly anything writes.
#[derive(Debug)]
pub(super) struct Gate {
    /// The running transaction is being closed: no handle may start.
    closing: AtomicBool,
    pub(super) aborted: AtomicBool,
    /// The running transaction; 64 bits, of which the log has the low 32.
    running: AtomicU64,
    /// Blocks that the running transaction may reserve.
    room: AtomicI64,
    /// When this many are reserved, commit starts on its own.
    commit_at: AtomicI64,
}

impl Gate {
    pub(super) fn new(running: u64, room: i64) -> Gate {
        Gate {
            closing: AtomicBool::new(false),
            aborted: AtomicBool::new(false),
            running: AtomicU64::new(running),
            room: AtomicI64::new(room),
            commit_at: AtomicI64::new(room / 2),
        }
    }
}

impl Journal {
    /// Counts a handle as active that may attach `credits` blocks: the CPU that it counts on, and its transaction.
    ///
    /// # Errors
    /// As [`Journal::start`].
    #[inline]
    pub(crate) fn enter(&self, credits: u32) -> Result<(usize, u64)> {
        let wanted = i64::from(credits);
        let mut asked = None;
        loop {
            let index = self.shards.index();
            let shard = self.shards.at(index);
            shard.active.fetch_add(1, Ordering::SeqCst);
            if !self.gate.closing.load(Ordering::SeqCst) {
                // The running transaction cannot change while this handle counts as active.
                let tid = self.gate.running.load(Ordering::Relaxed);
                if shard.take_credits(wanted) || self.reserve_batch(shard, wanted) {
                    if !self.gate.aborted.load(Ordering::Relaxed) {
                        return Ok((index, tid));
                    }
                    self.leave(shard);
                    return Err(self.abort_error());
                }
                self.leave(shard);
                self.wait_for_room(tid, credits, &mut asked)?;
            } else {
                self.leave(shard);
                self.wait_for_gate()?;
            }
        }
    }

    /// As [`Journal::enter`], but never waits.
    pub(crate) fn try_enter(&self, credits: u32) -> Result<Option<(usize, u64)>> {
        let wanted = i64::from(credits);
        let index = self.shards.index();
        let shard = self.shards.at(index);
        shard.active.fetch_add(1, Ordering::SeqCst);
        let open = !self.gate.closing.load(Ordering::SeqCst);
        let tid = self.gate.running.load(Ordering::Relaxed);
        let has_room = open && (shard.take_credits(wanted) || self.reserve_batch(shard, wanted));
        if has_room && !self.gate.aborted.load(Ordering::Relaxed) {
            return Ok(Some((index, tid)));
        }
        self.leave(shard);
        self.check_aborted()?;
        if open {
            self.state.lock().need_room = true;
            self.work.notify_all();
        }
        Ok(None)
    }

    /// Empties the log and keeps the gate closed, but for one handle, which is counted as active.
    pub(crate) fn empty_and_enter(&self) -> Result<(usize, u64)> {
        if self.on_commit_thread() {
            return Err(JournalError::OnCommitThread);
        }
        self.sync()?;
        self.empty_log(true)?;
        let index = self.shards.index();
        self.shards.at(index).active.fetch_add(1, Ordering::SeqCst);
        Ok((index, self.running_tid()))
    }

    /// Reserves a batch for the shard, or just what is wanted, and takes it.
    #[cold]
    fn reserve_batch(&self, shard: &Shard, wanted: i64) -> bool {
        let batch = CREDIT_BATCH.min(self.transaction_max / 32).max(wanted);
        if self.reserve_exact(batch) {
            shard.credits.fetch_add(batch - wanted, Ordering::Relaxed);
            return true;
        }
        self.reserve_exact(wanted)
    }

    fn reserve_exact(&self, n: i64) -> bool {
        let before = self.reserved.fetch_add(n, Ordering::Relaxed);
        if before + n > self.gate.room.load(Ordering::Relaxed) {
            self.reserved.fetch_sub(n, Ordering::Relaxed);
            return false;
        }
        let commit_at = self.gate.commit_at.load(Ordering::Relaxed);
        if before < commit_at && before + n >= commit_at {
            self.request_commit(self.running_tid());
        }
        true
    }

    pub(crate) fn reserve(&self, shard: usize, n: i64) -> bool {
        self.shards.at(shard).take_credits(n) || self.reserve_exact(n)
    }

    /// A handle attached more than it had asked for; the room keeps a margin for that.
    #[cold]
    pub(crate) fn overrun(&self, n: i64) {
        self.reserved.fetch_add(n, Ordering::Relaxed);
        self.counters
            .overruns
            .fetch_add(n.unsigned_abs(), Ordering::Relaxed);
    }

    pub(crate) fn shard(&self, index: usize) -> &Shard {
        self.shards.at(index)
    }

    pub(crate) fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter()
    }

    #[inline(always)]
    pub(crate) fn leave(&self, shard: &Shard) {
        if shard.active.fetch_sub(1, Ordering::SeqCst) == 1
            && self.gate.closing.load(Ordering::SeqCst)
        {
            self.notify_drained();
        }
    }

    #[cold]
    fn notify_drained(&self) {
        let _state = self.state.lock();
        self.drained.notify_all();
    }

    #[cold]
    fn wait_for_gate(&self) -> Result<()> {
        let mut state = self.state.lock();
        while self.gate.closing.load(Ordering::SeqCst) {
            if state.stopped {
                return Err(self.abort_error());
            }
            if state.keep_closed && !state.need_empty {
                return Err(JournalError::Closed);
            }
            self.done.wait(&mut state);
        }
        Ok(())
    }

    /// Waits until another attempt may find room. `asked`: the commit thread's round at the first call.
    #[cold]
    fn wait_for_room(&self, tid: u64, credits: u32, asked: &mut Option<u64>) -> Result<()> {
        self.check_aborted()?;
        if i64::from(credits) > self.transaction_max {
            return Err(JournalError::TooLarge {
                wanted: credits,
                limit: u32::try_from(self.transaction_max).unwrap_or(u32::MAX),
            });
        }
        let mut state = self.state.lock();
        if self.running_tid() != tid {
            return Ok(());
        }
        let asked = *asked.get_or_insert(state.round);
        let epoch = state.epoch;
        state.need_room = true;
        self.work.notify_all();
        while state.epoch == epoch {
            if state.stopped {
                return Err(self.abort_error());
            }
            self.done.wait(&mut state);
        }
        // A round that began before the call found what the host was like then. What is known of the room is exact
        // after a round, and it may suffice even if nothing was written in place.
        let lacks = self.reserved() + i64::from(credits) > self.gate.room.load(Ordering::Relaxed);
        match state.room_refused {
            Some(round) if round > asked && lacks => Err(JournalError::HostFull),
            _ => Ok(()),
        }
    }

    /// The most blocks that a handle may ask for.
    pub fn credits_max(&self) -> u32 {
        u32::try_from(self.transaction_max).unwrap_or(u32::MAX)
    }

    /// The running transaction.
    #[inline(always)]
    pub fn running_tid(&self) -> u64 {
        self.gate.running.load(Ordering::Acquire)
    }

    /// Blocks reserved in the running transaction.
    pub(crate) fn reserved(&self) -> i64 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Says how many blocks the running transaction may reserve from now on.
    pub(crate) fn set_room(&self, room: i64) {
        let room = room.clamp(0, self.transaction_max);
        self.gate.room.store(room, Ordering::Relaxed);
        self.gate
            .commit_at
            .store((room / 2).max(1), Ordering::Relaxed);
    }

    /// Closes the running transaction: no handle starts, those that run end. Returns it.
    pub(crate) fn close_gate(&self) -> u64 {
        self.gate.closing.store(true, Ordering::SeqCst);
        let mut state = self.state.lock();
        while self
            .shards
            .iter()
            .any(|s| s.active.load(Ordering::SeqCst) != 0)
        {
            self.drained.wait(&mut state);
        }
        self.running_tid()
    }

    /// Starts the transaction after the closed one, whose credits are void; the gate stays closed.
    pub(crate) fn next_transaction(&self) {
        for shard in self.shards.iter() {
            shard.credits.store(0, Ordering::Relaxed);
        }
        // In this order: a thread that reads no reservation reads the next transaction.
        self.gate.running.fetch_add(1, Ordering::SeqCst);
        self.reserved.store(0, Ordering::SeqCst);
    }

    /// Lets handles start again, unless the journal is being closed for good.
    pub(crate) fn open_gate(&self, room: i64) {
        self.set_room(room);
        self.open_gate_locked(&mut self.state.lock());
    }

    /// Lets handles of the transaction that was closed start again.
    pub(crate) fn open_gate_again(&self) {
        self.open_gate_locked(&mut self.state.lock());
    }

    /// As [`Journal::open_gate`], after a round that was to empty the log: ends the wait for that before the gate opens.
    /// `done`: the log is empty.
    pub(crate) fn end_emptying(&self, room: i64, done: bool) {
        self.set_room(room);
        let mut state = self.state.lock();
        state.need_empty = false;
        state.empty_refused = (!done).then_some(state.round);
        self.open_gate_locked(&mut state);
    }

    fn open_gate_locked(&self, state: &mut State) {
        if !state.keep_closed {
            self.gate.closing.store(false, Ordering::SeqCst);
        }
        state.epoch += 1;
        self.done.notify_all();
    }
}

impl Shard {
    #[inline(always)]
    pub(crate) fn take_credits(&self, wanted: i64) -> bool {
        if self.credits.fetch_sub(wanted, Ordering::Relaxed) >= wanted {
            return true;
        }
        self.credits.fetch_add(wanted, Ordering::Relaxed);
        false
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::JournalOptions;
    use crate::buffer::BufferCache;
    use std::sync::Arc;
    use uext4_block::MemoryDevice;

    const FIRST: u64 = 1 << 32;

    /// Without a thread that commits.
    fn journal(room: i64) -> Journal {
        let cache = BufferCache::new(Arc::new(MemoryDevice::new(1 << 20)), 4096, 16);
        let options = JournalOptions::default();
        Journal::new(Arc::new(cache), FIRST, room, room, (true, false), &options)
    }

    fn is_requested(journal: &Journal) -> bool {
        journal.state.lock().requested >= journal.running_tid()
    }

    fn enter(journal: &Journal, credits: u32) -> bool {
        let entered = journal.try_enter(credits).expect("not aborted");
        if let Some((shard, tid)) = entered {
            assert_eq!(tid, FIRST);
            journal.leave(journal.shard(shard));
        }
        entered.is_some()
    }

    #[test]
    fn all_the_room_can_be_reserved_and_no_more() {
        let journal = journal(256);
        assert!(!enter(&journal, 257));
        // Eight are reserved at a time where there is room for them.
        assert!(enter(&journal, 250) && enter(&journal, 6));
        assert_eq!(journal.reserved(), 256);
        assert!(!enter(&journal, 1));
        assert_eq!(journal.reserved(), 256);
    }

    /// What a call for eight credits returns that finds room for four: the commit thread then has rounds, each of which
    /// begins after so many that the call saw, is refused or not, and finds so much room.
    fn entered(rounds: &[(u64, bool, i64)]) -> Result<(usize, u64)> {
        let journal = Arc::new(journal(256));
        journal.set_room(4);
        let entering = std::thread::spawn({
            let journal = Arc::clone(&journal);
            move || journal.enter(8)
        });
        for &(round, is_refused, room) in rounds {
            while !std::mem::take(&mut journal.state.lock().need_room) {
                if entering.is_finished() {
                    return entering.join().expect("no panic");
                }
                std::thread::yield_now();
            }
            journal.set_room(room);
            let mut state = journal.state.lock();
            state.round = round;
            state.room_refused = is_refused.then_some(round);
            state.epoch += 1;
            journal.done.notify_all();
        }
        entering.join().expect("no panic")
    }

    #[test]
    fn a_refused_round_that_shows_room_for_the_caller_refuses_nothing() {
        entered(&[(1, true, 8)]).expect("there is room");
        let refused = entered(&[(1, true, 7)]);
        assert!(matches!(refused, Err(JournalError::HostFull)));
    }

    #[test]
    fn a_round_that_began_before_the_call_refuses_nothing() {
        entered(&[(0, true, 4), (1, false, 8)]).expect("there is room");
    }

    #[test]
    fn half_of_the_room_requests_a_commit() {
        for (first, then) in [(128, None), (200, None), (127, Some(100))] {
            let journal = journal(256);
            assert!(!is_requested(&journal));
            assert!(enter(&journal, first));
            assert_eq!(is_requested(&journal), then.is_none(), "{first}");
            assert!(then.is_none_or(|more| enter(&journal, more)));
            assert!(is_requested(&journal), "{first}");
        }
        // Where the log has less room left, half of that.
        for (credits, requests) in [(49, false), (50, true)] {
            let journal = journal(256);
            journal.set_room(100);
            assert!(enter(&journal, credits));
            assert_eq!(is_requested(&journal), requests, "{credits}");
            assert!(!enter(&journal, 90));
        }
    }

    #[test]
    fn no_handle_starts_while_a_transaction_closes() {
        let journal = journal(256);
        assert_eq!(journal.close_gate(), FIRST);
        assert!(!enter(&journal, 1));
        journal.open_gate(256);
        assert!(enter(&journal, 1));
        journal.abort(JournalError::HostFull);
        assert!(matches!(
            journal.try_enter(1),
            Err(JournalError::Aborted(_))
        ));
    }

    #[test]
    fn the_next_transaction_begins_with_nothing_reserved() {
        let journal = journal(256);
        assert!(enter(&journal, 200));
        journal.close_gate();
        journal.next_transaction();
        journal.open_gate(1000);
        assert_eq!((journal.running_tid(), journal.reserved()), (FIRST + 1, 0));
        let entered = journal.try_enter(256).expect("not aborted");
        assert_eq!(entered.map(|(_, tid)| tid), Some(FIRST + 1));
        assert!(
            matches!(journal.try_enter(1), Ok(None)),
            "the room of a transaction"
        );
    }
}
