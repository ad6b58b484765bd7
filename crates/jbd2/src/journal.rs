//! The journal: threads wait here for commits and for an empty log.
//!
//! | module | holds |
//! | --- | --- |
//! | `fast_commit` | rounds of calls that wait for fast commits |
//! | `gate` | starting handles and reserving blocks |

mod fast_commit;
mod gate;

use crate::buffer::BufferCache;
use crate::client::JournalClient;
use crate::copies::Copies;
use crate::error::{JournalError, Result};
use crate::options::JournalOptions;
use crate::settings::Settings;
use crate::stats::{Counters, JournalStats};
use crate::transaction::Shard;
use fast_commit::{FastRounds, ROUNDS};
use gate::Gate;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use uext4_sync::atomic::{AtomicI64, AtomicU64, Ordering};
use uext4_sync::{CachePadded, Condvar, Mutex, PerCpu, class, order, thread};

/// What threads wait for, under `journal_state`.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Newest transaction that a caller is waiting on.
    pub requested: u64,
    /// Calls that wait for fast commits.
    pub fast: FastRounds,
    /// A caller waits for room in the log. That does not request a commit: of an empty transaction it would only take room.
    pub need_room: bool,
    /// A caller waits for everything to be in place and the log to be empty.
    pub need_empty: bool,
    /// Set by [`Journal::close`]: once the log is empty the gate stays closed.
    pub keep_closed: bool,
    /// Number of the commit thread's current or latest round of work. What a round reports concerns only calls
    /// that were made before it began.
    pub round: u64,
    /// The latest round that was to make room, if it found no space on the host.
    pub room_refused: Option<u64>,
    /// The latest round that was to empty the log, if it found no space on the host.
    pub empty_refused: Option<u64>,
    /// Counts the moments at which waiting for room may be over.
    pub epoch: u64,
    /// What is being copied for the log, if threads that wait for its transaction may help.
    copies: Option<Arc<Copies>>,
    /// The commit thread shall end.
    pub stop: bool,
    /// The commit thread has ended.
    pub stopped: bool,
}

impl State {
    /// Of `copies` everything is taken.
    fn withdraw(&mut self, copies: &Arc<Copies>) {
        let is_that = |own: &Arc<Copies>| Arc::ptr_eq(own, copies);
        if self.copies.as_ref().is_some_and(is_that) {
            self.copies = None;
        }
    }
}

/// A journal that is open for writing.
pub struct Journal {
    gate: CachePadded<Gate>,
    shards: PerCpu<Shard>,
    /// Blocks reserved in the running transaction.
    reserved: CachePadded<AtomicI64>,
    pub(crate) state: Mutex<State>,
    /// The last transaction that is durable. Changed with `state` held, as threads wait for it with that lock; read
    /// without it.
    committed: CachePadded<AtomicU64>,
    /// Wakes the commit thread.
    pub(crate) work: Condvar,
    /// Wakes the threads that wait for a commit, for room, or for the gate to open.
    pub(crate) done: Condvar,
    /// Wakes the threads that wait for the fast commit of a round, of three.
    fast_done: [Condvar; ROUNDS],
    /// Wakes the commit thread when the last handle leaves a closing transaction.
    drained: Condvar,
    why_aborted: OnceLock<JournalError>,
    cache: Arc<BufferCache>,
    client: OnceLock<Arc<dyn JournalClient>>,
    /// The most blocks one transaction may hold.
    transaction_max: i64,
    has_log: bool,
    has_fast_commits: bool,
    /// The last transaction with a handle that did not describe what it changed.
    pub(crate) not_described: CachePadded<AtomicU64>,
    pub(crate) settings: Settings,
    pub(crate) counters: Counters,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal")
            .field("running", &self.running_tid())
            .field("has_log", &self.has_log)
            .finish_non_exhaustive()
    }
}

impl Journal {
    /// With `first` as the running transaction, which may hold `room` blocks; no thread commits yet.
    pub(crate) fn new(
        cache: Arc<BufferCache>,
        first: u64,
        transaction_max: i64,
        room: i64,
        (has_log, has_fast_commits): (bool, bool),
        options: &JournalOptions,
    ) -> Journal {
        Journal {
            gate: CachePadded::new(Gate::new(first, room)),
            shards: PerCpu::new(|_| Shard::new()),
            reserved: CachePadded::new(AtomicI64::new(0)),
            state: Mutex::new(
                &class::JOURNAL_STATE,
                State {
                    requested: first - 1,
                    ..State::default()
                },
            ),
            committed: CachePadded::new(AtomicU64::new(first - 1)),
            work: Condvar::new(),
            done: Condvar::new(),
            fast_done: [const { Condvar::new() }; ROUNDS],
            drained: Condvar::new(),
            why_aborted: OnceLock::new(),
            cache,
            client: OnceLock::new(),
            transaction_max,
            has_log,
            has_fast_commits,
            not_described: CachePadded::new(AtomicU64::new(0)),
            settings: Settings::new(options),
            counters: Counters::default(),
            thread: Mutex::new(&class::JOURNAL_STATE, None),
        }
    }

    pub(crate) fn set_thread(&self, thread: thread::JoinHandle<()>) {
        *self.thread.lock() = Some(thread);
    }

    /// Sets the receiver of commit notices; at most once, before the first handle.
    pub fn set_client(&self, client: Arc<dyn JournalClient>) {
        let _ = self.client.set(client);
    }

    pub(crate) fn client(&self) -> Option<&Arc<dyn JournalClient>> {
        self.client.get()
    }

    /// Asks for a commit of `tid` without waiting for it.
    pub fn request_commit(&self, tid: u64) {
        let mut state = self.state.lock();
        if tid > state.requested {
            state.requested = tid;
            self.work.notify_all();
        }
    }

    /// Waits until transaction `tid` is durable, committing it if it runs. The data that its handles
    /// published is durable with it.
    ///
    /// # Locks
    /// Waits; nothing of rank `handle` or below may be held.
    ///
    /// # Errors
    /// [`JournalError::Aborted`], and then it may not be durable.
    pub fn wait_commit(&self, tid: u64) -> Result<()> {
        order::Held::check(&class::HANDLE);
        let mut state = self.state.lock();
        if tid > state.requested && !self.is_committed(tid) {
            state.requested = tid;
            self.work.notify_all();
        }
        while !self.is_committed(tid) {
            if state.stopped || self.gate.aborted.load(Ordering::Relaxed) {
                return Err(self.abort_error());
            }
            match state.copies.clone() {
                None => self.done.wait(&mut state),
                Some(copies) => {
                    drop(state);
                    copies.help();
                    state = self.state.lock();
                    state.withdraw(&copies);
                }
            }
        }
        Ok(())
    }

    /// Has `copies` written by `write`, with the help of threads that wait for a commit.
    pub(crate) fn with_helpers<R>(&self, copies: Copies, write: impl FnOnce(&Copies) -> R) -> R {
        if !copies.want_help() {
            return write(&copies);
        }
        let copies = Arc::new(copies);
        self.state.lock().copies = Some(Arc::clone(&copies));
        self.done.notify_all();
        let result = write(&copies);
        self.state.lock().withdraw(&copies);
        result
    }

    /// Says that transaction `tid` is durable, to the threads that wait for it, too.
    pub(crate) fn set_committed(&self, tid: u64) {
        let state = self.state.lock();
        self.committed.store(tid, Ordering::Release);
        drop(state);
        self.wake_all();
    }

    /// Wakes all threads that wait for the commit thread.
    pub(crate) fn wake_all(&self) {
        self.done.notify_all();
        self.fast_done.iter().for_each(Condvar::notify_all);
    }

    /// Whether transaction `tid` is durable.
    pub fn is_committed(&self, tid: u64) -> bool {
        self.committed.load(Ordering::Acquire) >= tid
    }

    /// Makes everything durable that was done before the call, data included.
    ///
    /// # Locks
    /// Waits; nothing of rank `handle` or below may be held.
    ///
    /// # Errors
    /// The device's, or [`JournalError::Aborted`].
    pub fn sync(&self) -> Result<()> {
        loop {
            let running = self.running_tid();
            if self.reserved.load(Ordering::SeqCst) > 0 {
                return self.wait_commit(running);
            }
            // Nothing is reserved in the running transaction, if it is still the one that runs.
            if self.running_tid() == running {
                self.wait_commit(running - 1)?;
                return self.flush_device();
            }
        }
    }

    /// Flushes the device. If that fails, data that the device had accepted may be lost, and no later flush
    /// would report it: the journal is aborted.
    ///
    /// # Errors
    /// The device's, or [`JournalError::Aborted`].
    pub fn flush_device(&self) -> Result<()> {
        self.check_aborted()?;
        let flushed = self.cache.device().flush().map_err(JournalError::from);
        // Another thread may have been given the error of data that this call covers.
        match flushed {
            Ok(()) => self.check_aborted(),
            Err(why) => {
                self.abort(why.clone());
                Err(why)
            }
        }
    }

    /// Commits, writes everything in place and empties the log. Handles wait meanwhile, so there is a moment
    /// at which the log holds nothing: no copy of a block that was journaled before the call is in it when
    /// the call returns.
    ///
    /// # Locks
    /// Waits; nothing of rank `handle` or below may be held.
    ///
    /// # Errors
    /// The device's, [`JournalError::Aborted`], [`JournalError::OnCommitThread`]; [`JournalError::HostFull`], and then
    /// the log keeps what it has.
    pub fn flush_log(&self) -> Result<()> {
        if self.on_commit_thread() {
            return Err(JournalError::OnCommitThread);
        }
        // Most of the work, while handles may start.
        self.sync()?;
        self.empty_log(false)
    }

    /// Waits until the commit thread has emptied the log with the gate closed.
    pub(crate) fn empty_log(&self, keep_closed: bool) -> Result<()> {
        let mut state = self.state.lock();
        state.keep_closed |= keep_closed;
        let asked = state.round;
        loop {
            state.need_empty = true;
            self.work.notify_all();
            while state.need_empty {
                if state.stopped || self.gate.aborted.load(Ordering::Relaxed) {
                    return Err(self.abort_error());
                }
                self.done.wait(&mut state);
            }
            match state.empty_refused {
                None => return Ok(()),
                Some(round) if round > asked => return Err(JournalError::HostFull),
                // That round began before the call, and the host may have space again.
                Some(_) => {}
            }
        }
    }

    /// Takes handles again, after [`Journal::close`].
    ///
    /// # Locks
    /// Waits; nothing of rank `handle` or below may be held.
    ///
    /// # Errors
    /// As [`Journal::flush_log`].
    pub fn reopen(&self) -> Result<()> {
        self.state.lock().keep_closed = false;
        // The commit thread opens the gate: it may be closing a transaction at this moment.
        self.empty_log(false)
    }

    /// Whether the caller is the commit thread, which cannot wait for a commit: its client may release
    /// the last reference to a file system there.
    fn on_commit_thread(&self) -> bool {
        let thread = self.thread.lock();
        thread
            .as_ref()
            .is_some_and(|t| t.thread().id() == thread::current().id())
    }

    /// Ends the commit thread without writing anything more, as a crash would.
    ///
    /// # Locks
    /// Waits for that thread: no lock that the client's callbacks take may be held.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.stop = true;
        self.work.notify_all();
        drop(state);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
        {
            // A panic of the commit thread has aborted the journal, which every caller sees.
            let _ = thread.join();
        }
    }

    /// Aborts the journal: no transaction is committed any more, and `start`, `sync` and `flush_device` fail. I/O under way
    /// may still complete; transactions that were committed stay so.
    pub fn abort(&self, why: JournalError) {
        let first = self.why_aborted.set(why.clone()).is_ok();
        self.gate.aborted.store(true, Ordering::SeqCst);
        let mut state = self.state.lock();
        state.epoch += 1;
        self.work.notify_all();
        self.wake_all();
        self.drained.notify_all();
        let copies = state.copies.take();
        drop(state);
        // The device may not answer, and threads may wait until a copy is written.
        if let Some(copies) = copies {
            copies.fail();
        }
        if first {
            tracing::error!("journal aborted: {why}");
            if let Some(client) = self.client() {
                client.aborted(&why);
            }
        }
    }

    /// A handle was dropped in the middle of a change.
    #[cold]
    pub(crate) fn abort_unfinished(&self) {
        let why = match std::thread::panicking() {
            true => "a panic left a change unfinished",
            false => "an error left a change unfinished",
        };
        self.abort(JournalError::Aborted(why.into()));
    }

    /// Whether the journal gave up.
    pub fn is_aborted(&self) -> bool {
        self.gate.aborted.load(Ordering::Relaxed)
    }

    /// Fails once the journal gave up: nothing that was not durable by then ever will be.
    ///
    /// # Errors
    /// [`JournalError::Aborted`].
    #[inline(always)]
    pub fn check_aborted(&self) -> Result<()> {
        if self.gate.aborted.load(Ordering::Relaxed) {
            return Err(self.abort_error());
        }
        Ok(())
    }

    #[cold]
    pub(crate) fn abort_error(&self) -> JournalError {
        match self.why_aborted.get() {
            Some(why) => JournalError::Aborted(why.to_string().into()),
            None => JournalError::Aborted("it is shut down".into()),
        }
    }

    /// Whether there is a log.
    pub fn has_log(&self) -> bool {
        self.has_log
    }

    /// Whether there can be fast commits.
    #[inline]
    pub fn has_fast_commits(&self) -> bool {
        self.has_fast_commits
    }

    /// The cache that the journal writes from.
    pub fn cache(&self) -> &Arc<BufferCache> {
        &self.cache
    }

    /// What the journal did since it was opened.
    pub fn stats(&self) -> JournalStats {
        self.counters.snapshot()
    }

    /// Sets how old the running transaction gets before the commit thread commits it: at once where it is older than that already.
    ///
    /// # Locks
    /// Takes the journal's state lock.
    pub fn set_commit_interval(&self, interval: Duration) {
        if !self.settings.set_commit_interval(interval) {
            return;
        }
        // The commit thread sleeps for the time computed last.
        let _state = self.state.lock();
        self.work.notify_all();
    }

    /// Gives each handle from now on so many credits more than its caller asks for: for blocks that any change may need.
    pub fn set_handle_extra(&self, credits: u32) {
        self.settings.set_handle_extra(credits);
    }

    /// Sets whether commit and checkpoint flush the device from now on. Where they begin to, what was committed before is
    /// flushed as well.
    ///
    /// # Locks
    /// May sleep in the device.
    ///
    /// # Errors
    /// As [`Journal::flush_device`].
    pub fn set_barrier(&self, barrier: bool) -> Result<()> {
        let before = self.settings.set_barrier(barrier);
        match barrier && !before {
            true => self.flush_device(),
            false => Ok(()),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
