//! The journal: handles start here, and threads wait here for room and for commits.

use crate::buffer::BufferCache;
use crate::client::JournalClient;
use crate::error::{JournalError, Result};
use crate::options::JournalOptions;
use crate::settings::Settings;
use crate::stats::{Counters, JournalStats};
use crate::transaction::Shard;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use uext4_sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use uext4_sync::{CachePadded, Condvar, Mutex, PerCpu, class, order, thread};

/// Blocks reserved for a CPU at a time.
const CREDIT_BATCH: i64 = 128;

/// What threads wait for, under `journal_state`.
#[derive(Debug)]
pub(crate) struct State {
    /// The last transaction that is durable.
    pub committed: u64,
    /// Newest transaction that a caller is waiting on.
    pub requested: u64,
    /// A caller waits for room in the log.
    pub need_room: bool,
    /// A caller waits for everything to be in place and the log to be empty.
    pub need_empty: bool,
    /// Set by [`Journal::close`]: once the log is empty the gate stays closed.
    pub keep_closed: bool,
    /// What was last to be written in place found no space on the host.
    pub host_full: bool,
    /// Counts the moments at which waiting for room may be over.
    pub epoch: u64,
    /// The commit thread shall end.
    pub stop: bool,
    /// The commit thread has ended.
    pub stopped: bool,
}

/// What every start of a handle reads and hardly anything writes.
#[derive(Debug)]
struct Gate {
    /// The running transaction is being closed: no handle may start.
    closing: AtomicBool,
    aborted: AtomicBool,
    /// The running transaction; 64 bits, of which the log has the low 32.
    running: AtomicU64,
    /// Blocks that the running transaction may reserve.
    room: AtomicI64,
    /// When this many are reserved, commit starts on its own.
    commit_at: AtomicI64,
}

/// A journal that is open for writing.
pub struct Journal {
    gate: CachePadded<Gate>,
    shards: PerCpu<Shard>,
    /// Blocks reserved in the running transaction.
    reserved: CachePadded<AtomicI64>,
    state: Mutex<State>,
    /// Wakes the commit thread.
    work: Condvar,
    /// Wakes the threads that wait for a commit, for room, or for the gate to open.
    done: Condvar,
    /// Wakes the commit thread when the last handle leaves a closing transaction.
    drained: Condvar,
    why_aborted: OnceLock<JournalError>,
    cache: Arc<BufferCache>,
    client: OnceLock<Arc<dyn JournalClient>>,
    /// The most blocks one transaction may hold.
    transaction_max: i64,
    has_log: bool,
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
        has_log: bool,
        options: &JournalOptions,
    ) -> Journal {
        Journal {
            gate: CachePadded::new(Gate {
                closing: AtomicBool::new(false),
                aborted: AtomicBool::new(false),
                running: AtomicU64::new(first),
                room: AtomicI64::new(room),
                commit_at: AtomicI64::new(room / 2),
            }),
            shards: PerCpu::new(|_| Shard::new()),
            reserved: CachePadded::new(AtomicI64::new(0)),
            state: Mutex::new(
                &class::JOURNAL_STATE,
                State {
                    committed: first - 1,
                    requested: first - 1,
                    need_room: false,
                    need_empty: false,
                    keep_closed: false,
                    host_full: false,
                    epoch: 0,
                    stop: false,
                    stopped: false,
                },
            ),
            work: Condvar::new(),
            done: Condvar::new(),
            drained: Condvar::new(),
            why_aborted: OnceLock::new(),
            cache,
            client: OnceLock::new(),
            transaction_max,
            has_log,
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

    /// Counts a handle as active that may attach `credits` blocks: the CPU that it counts on, and its transaction.
    ///
    /// # Errors
    /// As [`Journal::start`].
    #[inline]
    pub(crate) fn enter(&self, credits: u32) -> Result<(usize, u64)> {
        let wanted = i64::from(credits);
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
                self.wait_for_room(tid, credits)?;
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
            let mut state = self.state.lock();
            state.requested = state.requested.max(tid);
            state.need_room = true;
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
        self.check_aborted()?;
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
        batch > wanted && self.reserve_exact(wanted)
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

    #[cold]
    fn wait_for_room(&self, tid: u64, credits: u32) -> Result<()> {
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
        let epoch = state.epoch;
        state.requested = state.requested.max(tid);
        state.need_room = true;
        self.work.notify_all();
        while state.epoch == epoch {
            if state.stopped {
                return Err(self.abort_error());
            }
            self.done.wait(&mut state);
        }
        match state.host_full {
            true => Err(JournalError::HostFull),
            false => Ok(()),
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
        if tid > state.requested && tid > state.committed {
            state.requested = tid;
            self.work.notify_all();
        }
        while state.committed < tid {
            if state.stopped || self.gate.aborted.load(Ordering::Relaxed) {
                return Err(self.abort_error());
            }
            self.done.wait(&mut state);
        }
        Ok(())
    }

    /// Whether transaction `tid` is durable.
    pub fn is_committed(&self, tid: u64) -> bool {
        self.state.lock().committed >= tid
    }

    /// Makes everything durable that was done before the call, data included.
    ///
    /// # Locks
    /// Waits; nothing of rank `handle` or below may be held.
    ///
    /// # Errors
    /// The device's, or [`JournalError::Aborted`].
    pub fn sync(&self) -> Result<()> {
        self.check_aborted()?;
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
        state.need_empty = true;
        state.keep_closed |= keep_closed;
        self.work.notify_all();
        while state.need_empty {
            if state.stopped || self.gate.aborted.load(Ordering::Relaxed) {
                return Err(self.abort_error());
            }
            self.done.wait(&mut state);
        }
        match state.host_full {
            true => Err(JournalError::HostFull),
            false => Ok(()),
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
        self.done.notify_all();
        self.drained.notify_all();
        drop(state);
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
    fn abort_error(&self) -> JournalError {
        match self.why_aborted.get() {
            Some(why) => JournalError::Aborted(why.to_string().into()),
            None => JournalError::Aborted("it is shut down".into()),
        }
    }

    /// The most blocks one transaction may hold, which bounds the credits of a handle.
    pub fn transaction_max(&self) -> u32 {
        u32::try_from(self.transaction_max).unwrap_or(u32::MAX)
    }

    /// Whether there is a log.
    pub fn has_log(&self) -> bool {
        self.has_log
    }

    /// The cache that the journal writes from.
    pub fn cache(&self) -> &Arc<BufferCache> {
        &self.cache
    }

    /// What the journal did since it was opened.
    pub fn stats(&self) -> JournalStats {
        JournalStats {
            commits: self.counters.commits.load(Ordering::Relaxed),
            journal_bytes: self.counters.journal_bytes.load(Ordering::Relaxed),
            checkpoint_bytes: self.counters.checkpoint_bytes.load(Ordering::Relaxed),
            overruns: self.counters.overruns.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn state(&self) -> &Mutex<State> {
        &self.state
    }

    pub(crate) fn work(&self) -> &Condvar {
        &self.work
    }

    pub(crate) fn done(&self) -> &Condvar {
        &self.done
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

    /// Lets handles start again, unless the journal is being closed for good. `emptied`: the log is empty,
    /// which ends the wait of those that asked for it before the gate opens.
    pub(crate) fn open_gate(&self, room: i64, emptied: bool) {
        self.set_room(room);
        let mut state = self.state.lock();
        if emptied {
            state.need_empty = false;
        }
        if !state.keep_closed {
            self.gate.closing.store(false, Ordering::SeqCst);
        }
        state.epoch += 1;
        self.done.notify_all();
    }

    /// Sets how long the commit thread sleeps before it commits the running transaction. A new interval counts from
    /// this call.
    ///
    /// # Locks
    /// Takes the journal's state lock.
    pub fn set_commit_interval(&self, interval: Duration) {
        if !self.settings.set_commit_interval(interval) {
            return;
        }
        // The commit thread sleeps for the time computed last.
        let _state = self.state().lock();
        self.work().notify_all();
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
    use crate::transaction::Freed;
    use std::sync::mpsc;
    use uext4_block::MemoryDevice;

    /// Asks for what only another thread can have.
    struct Impatient(Arc<Journal>, mpsc::Sender<Result<()>>);

    impl JournalClient for Impatient {
        fn committed(&self, _tid: u64, _freed: &[Freed]) {
            let _ = self.1.send(self.0.flush_log());
        }
        fn aborted(&self, _why: &JournalError) {}
    }

    fn journal() -> Arc<Journal> {
        let device = Arc::new(MemoryDevice::new(1 << 20));
        let cache = Arc::new(BufferCache::new(device, 4096, 16));
        Journal::without_log(cache, JournalOptions::default())
    }

    #[test]
    fn a_panic_in_a_handle_aborts_the_journal() {
        let journal = journal();
        let buffer = journal.cache().get(3).expect("block 3");
        let half = || {
            let handle = journal.start(1).expect("start");
            handle.modify(&buffer).expect("modify").data_mut().fill(1);
            panic!("in the middle of a change");
        };
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(half));
        assert!(panicked.is_err());
        assert!(matches!(journal.sync(), Err(JournalError::Aborted(_))));
        journal.stop();
        let mut block = [0; 4096];
        let device = journal.cache().device();
        device.read_at(3 * 4096, &mut block).expect("read");
        assert_eq!(block, [0; 4096], "half of a change was written");
    }

    #[test]
    fn the_commit_thread_does_not_wait_for_itself() {
        let journal = journal();
        let (told, hears) = mpsc::channel();
        journal.set_client(Arc::new(Impatient(Arc::clone(&journal), told)));
        drop(journal.start(1).expect("start"));
        journal.sync().expect("sync");
        let flushed = hears.recv().expect("a notice");
        assert!(matches!(flushed, Err(JournalError::OnCommitThread)));
        journal.stop();
    }
}
