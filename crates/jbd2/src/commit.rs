//! The commit thread: closes the running transaction, copies it to the log, makes it durable.
//!
//! | module | holds |
//! | --- | --- |
//! | `fast_commit` | fast commits |

mod fast_commit;

use crate::buffer::Buffer;
use crate::copies::{Copies, copy_out};
use crate::error::{JournalError, Result};
use crate::in_place::InPlace;
use crate::journal::Journal;
use crate::log::{Chunk, Log};
use crate::transaction::{Committed, Lists};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uext4_sync::atomic::Ordering;
use uext4_sync::clock;

/// The commit thread's own state.
pub(crate) struct Committer {
    pub journal: Arc<Journal>,
    /// None: commit writes in place.
    pub log: Option<Log>,
    /// Committed transactions that still need their log, oldest first.
    pub committed: VecDeque<Committed>,
    /// When the interval began after which the running transaction is committed, since 1970; never later than now.
    pub since: Duration,
    /// Memory for copies of blocks.
    spare: Vec<Chunk>,
}

/// What the commit thread found to do.
struct Work {
    commit: bool,
    fast: bool,
    room: bool,
    empty: bool,
    stop: bool,
}

/// Marks the thread as ended, also when it panics, so that no caller waits for it.
struct EndOfThread(Arc<Journal>);

impl Drop for EndOfThread {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0
                .abort(JournalError::Aborted("the commit thread panicked".into()));
        }
        let mut state = self.0.state.lock();
        state.stopped = true;
        state.epoch += 1;
        self.0.wake_all();
    }
}

impl Committer {
    pub fn new(journal: Arc<Journal>, log: Option<Log>) -> Committer {
        Committer {
            journal,
            log,
            committed: VecDeque::new(),
            since: clock::since_epoch(),
            spare: Vec::new(),
        }
    }

    /// The thread's loop, until it is asked to stop or something fails.
    pub fn run(mut self) {
        let _end = EndOfThread(Arc::clone(&self.journal));
        loop {
            let work = self.wait_for_work();
            if work.stop || self.journal.is_aborted() {
                return;
            }
            if let Err(why) = self.work(&work) {
                self.journal.abort(why);
                return;
            }
        }
    }

    fn wait_for_work(&mut self) -> Work {
        let journal = Arc::clone(&self.journal);
        let mut state = journal.state.lock();
        loop {
            let now = clock::since_epoch();
            // The clock may have been set back.
            self.since = self.since.min(now);
            let interval = journal.settings.commit_interval();
            let left = interval.saturating_sub(now - self.since);
            let fast = state.fast.has_calls();
            let running = journal.running_tid();
            let mut work = Work {
                // Fast commits do not postpone the commit of an old transaction.
                commit: state.requested >= running || fast && left.is_zero(),
                fast,
                room: std::mem::take(&mut state.need_room),
                empty: state.need_empty,
                stop: state.stop,
            };
            let is_any = work.commit || work.fast || work.room || work.empty || work.stop;
            if is_any || journal.is_aborted() {
                state.round += 1;
                return work;
            }
            if !journal.work.wait_for(&mut state, left) {
                continue;
            }
            self.since = clock::since_epoch();
            if journal.reserved() > 0 {
                state.round += 1;
                work.commit = true;
                return work;
            }
        }
    }

    fn work(&mut self, work: &Work) -> Result<()> {
        if work.empty {
            return self.empty();
        }
        if work.commit || (work.room && self.journal.reserved() > 0) {
            self.commit()?;
        } else if work.fast {
            self.fast_commit()?;
        }
        let low = self.log.as_ref().is_some_and(Log::is_low);
        if work.room || low {
            let done = self.try_checkpoint(work.room)?;
            self.journal.set_room(self.room());
            let mut state = self.journal.state.lock();
            state.room_refused = (!done).then_some(state.round);
        }
        self.journal.state.lock().epoch += 1;
        self.journal.done.notify_all();
        Ok(())
    }

    fn room(&self) -> i64 {
        self.log.as_ref().map_or(i64::MAX, Log::room)
    }

    /// Commits the running transaction.
    pub(crate) fn commit(&mut self) -> Result<()> {
        let start = Instant::now();
        let round = self.journal.begin_fast_commit();
        let (tid, lists) = self.close_transaction()?;
        self.since = clock::since_epoch();
        let blocks = lists.buffers.len() as i64 + (lists.revoked.len() / 64) as i64;
        let room = self
            .log
            .as_ref()
            .map_or(i64::MAX, |log| log.room_after(blocks));
        self.journal.next_transaction();
        self.journal.open_gate(room);
        self.write(start, tid, lists)?;
        self.journal.end_fast_commit(round);
        Ok(())
    }

    /// Commits the running transaction, writes everything in place and empties the log, all with the gate
    /// closed: no handle runs, so no block is busy and none stays behind.
    fn empty(&mut self) -> Result<()> {
        let start = Instant::now();
        let (tid, lists) = self.close_transaction()?;
        if !lists.is_empty() {
            self.journal.next_transaction();
            self.write(start, tid, lists)?;
        }
        if !self.try_checkpoint(true)? {
            self.journal.end_emptying(self.room(), false);
            return Ok(());
        }
        if !self.committed.is_empty() {
            return Err(JournalError::Aborted(
                "a block stayed in the log although no handle ran".into(),
            ));
        }
        let next = self.journal.running_tid();
        if let Some(log) = &mut self.log {
            log.set_tail(None, next)?;
        }
        self.journal.end_emptying(self.room(), true);
        Ok(())
    }

    /// Writes committed blocks in place; false if the host has no space for them. Then the log keeps them, and the
    /// next call tries again: callers that need room in the log meanwhile fail.
    fn try_checkpoint(&mut self, all: bool) -> Result<bool> {
        match self.checkpoint(all) {
            Err(why) if why.is_no_space() => {
                tracing::error!("what was committed stays in the log: {why}");
                Ok(false)
            }
            done => done.map(|()| true),
        }
    }

    /// Closes the gate and takes what the handles of the running transaction attached.
    fn close_transaction(&self) -> Result<(u64, Lists)> {
        let tid = self.journal.close_gate();
        // A handle that gave up half-way may have aborted the journal.
        self.journal.check_aborted()?;
        let mut lists = Lists::default();
        for shard in self.journal.shards() {
            lists.append(std::mem::take(&mut *shard.lists.lock()));
        }
        Ok((tid, lists))
    }

    /// Writes a closed transaction, which began to close at `start`, and makes it durable.
    fn write(&mut self, start: Instant, tid: u64, mut lists: Lists) -> Result<()> {
        lists.buffers.sort_unstable_by_key(|b| b.block());
        match &mut self.log {
            Some(_) => self.commit_to_log(tid, &mut lists)?,
            None => self.commit_in_place(tid, &lists)?,
        }
        let counters = &self.journal.counters;
        counters.commits.fetch_add(1, Ordering::Relaxed);
        counters.commit.add(start.elapsed());
        if let Some(client) = self.journal.client() {
            client.committed(tid, &lists.freed);
        }
        self.journal.set_committed(tid);
        Ok(())
    }

    fn commit_to_log(&mut self, tid: u64, lists: &mut Lists) -> Result<()> {
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        let journal = &self.journal;
        let start = log.begin(tid)?;
        log.revokes(&lists.revoked)?;
        let copies = Copies::new(
            Arc::clone(journal.cache()),
            tid,
            log.format(),
            std::mem::take(&mut lists.buffers),
            std::mem::take(&mut self.spare),
        );
        let (blocks, mut spare) = journal.with_helpers(copies, |copies| copies.write(log))?;
        // More are rarely needed.
        spare.truncate(1);
        self.spare = spare;
        // Ordered mode: the data that handles of this transaction published reaches the device
        // before the commit block does.
        if journal.settings.barrier() {
            log.flush_before_commit(journal.cache().device())?;
        }
        let bytes = log.commit(journal.settings.barrier())?;
        journal
            .counters
            .journal_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        log.clear_fast_commits(journal.settings.barrier())?;
        blocks.freed.iter().for_each(|b| drop_forgotten(b, tid));
        self.committed.push_back(Committed {
            tid,
            start,
            buffers: blocks.copied,
        });
        Ok(())
    }

    fn commit_in_place(&mut self, tid: u64, lists: &Lists) -> Result<()> {
        let journal = &self.journal;
        let mut out = InPlace::new(Arc::clone(journal.cache()));
        for buffer in &lists.buffers {
            let add = |block, data: &[u8]| out.block(block, data);
            copy_out(journal.cache(), buffer, tid, add).transpose()?;
            let mut content = buffer.write();
            content.journaled().checkpoint = 0;
            drop(content);
            drop_forgotten(buffer, tid);
        }
        let bytes = out.finish()?;
        journal
            .counters
            .checkpoint_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        if journal.settings.barrier() {
            journal.cache().device().flush()?;
        }
        Ok(())
    }
}

/// If transaction `tid`, durable now, freed the block, its old content must never be written.
fn drop_forgotten(buffer: &Arc<Buffer>, tid: u64) {
    let mut content = buffer.write();
    let journaled = content.journaled();
    if journaled.forgotten == tid {
        journaled.checkpoint = 0;
    }
}
