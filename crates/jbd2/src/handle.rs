//! A handle: the changes that one operation makes, in one transaction.

use crate::buffer::{Buffer, BufferWrite};
use crate::error::{JournalError, Result};
use crate::journal::Journal;
use std::cell::Cell;
use std::sync::Arc;
use uext4_sync::atomic::Ordering;
use uext4_sync::probe::{self, Stage};
use uext4_sync::{class, order};

/// An operation's part in the running transaction, which cannot close before the handle is dropped.
///
/// # Crash
/// With a log, all changes made under a handle survive or none, and a later handle's never without an earlier
/// one's; without a log, a crash may tear a transaction. A handle that is dropped after a change that neither
/// [`Handle::complete`] nor [`Handle::finish`] followed, by an error or a panic, aborts the journal: half of a change is
/// never committed. Getting write access, [`Handle::access`] included, counts as a change.
#[derive(Debug)]
pub struct Handle<'j> {
    journal: &'j Journal,
    shard: usize,
    tid: u64,
    /// Blocks that may still be attached without asking.
    credits: Cell<i64>,
    /// Something may have changed since the handle started, or since what was done was last complete.
    changed: Cell<bool>,
    /// Whether a fast commit can say what it changed.
    described: Cell<Described>,
    _held: order::Held,
}

/// Whether a fast commit can say what a handle changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Described {
    No,
    Yes,
    /// Nor will it.
    Never,
}

impl<'j> Handle<'j> {
    pub(crate) fn new(journal: &'j Journal, shard: usize, tid: u64, credits: i64) -> Handle<'j> {
        Handle {
            journal,
            shard,
            tid,
            credits: Cell::new(credits),
            changed: Cell::new(false),
            described: Cell::new(Described::No),
            _held: order::Held::new(&class::HANDLE),
        }
    }

    /// The transaction that the handle is part of; never 0.
    #[inline(always)]
    pub fn tid(&self) -> u64 {
        self.tid
    }

    /// The journal.
    pub fn journal(&self) -> &'j Journal {
        self.journal
    }

    /// Attaches `buffer` to the transaction and gives its content to be changed.
    ///
    /// # Locks
    /// Takes the buffer's lock, which the guard keeps; may sleep.
    ///
    /// # Errors
    /// [`JournalError::Aborted`].
    #[inline]
    pub fn modify<'b>(&self, buffer: &'b Arc<Buffer>) -> Result<BufferWrite<'b>> {
        let _timed = probe::time(Stage::WriteAccess);
        let mut content = buffer.write();
        if buffer.tid() != self.tid {
            self.attach(buffer, &mut content, true)?;
        }
        self.changed.set(true);
        Ok(content)
    }

    /// As [`Handle::modify`], but `None` if another thread has the buffer's lock.
    ///
    /// # Errors
    /// [`JournalError::Aborted`].
    pub fn try_modify<'b>(&self, buffer: &'b Arc<Buffer>) -> Result<Option<BufferWrite<'b>>> {
        let _timed = probe::time(Stage::WriteAccess);
        let Some(mut content) = buffer.try_write() else {
            return Ok(None);
        };
        if buffer.tid() != self.tid {
            self.attach(buffer, &mut content, true)?;
        }
        self.changed.set(true);
        Ok(Some(content))
    }

    /// Attaches `buffer` without changing it yet.
    ///
    /// # Locks
    /// Takes the buffer's lock for a moment unless the transaction has the block already.
    ///
    /// # Errors
    /// [`JournalError::Aborted`].
    #[inline]
    pub fn access(&self, buffer: &Arc<Buffer>) -> Result<()> {
        if buffer.tid() != self.tid {
            drop(self.modify(buffer)?);
            return Ok(());
        }
        drop(probe::time(Stage::WriteAccess));
        Ok(())
    }

    /// Attaches `buffer`, whose owner keeps its content natively and encodes it when frozen.
    ///
    /// # Locks
    /// Takes the buffer's lock for a moment unless the transaction has the block already.
    ///
    /// # Errors
    /// [`JournalError::Aborted`].
    #[inline]
    pub fn access_native(&self, buffer: &Arc<Buffer>) -> Result<()> {
        let _timed = probe::time(Stage::WriteAccess);
        self.changed.set(true);
        if buffer.tid() == self.tid {
            return Ok(());
        }
        let mut content = buffer.write();
        if buffer.tid() != self.tid {
            self.attach(buffer, &mut content, false)?;
        }
        Ok(())
    }

    /// Attaches a block that was just allocated: zeroed, not read, nothing to check.
    ///
    /// # Locks
    /// Takes the buffer's lock, which the guard keeps; may sleep.
    ///
    /// # Errors
    /// [`JournalError::Aborted`].
    pub fn create<'b>(&self, buffer: &'b Arc<Buffer>) -> Result<BufferWrite<'b>> {
        let mut content = self.modify(buffer)?;
        content.data_mut().fill(0);
        content.journaled().forgotten = 0;
        buffer.take_dirty(|_| ());
        buffer.set_hint(0);
        buffer.set_uptodate(&mut content);
        buffer.set_verified(&mut content);
        Ok(content)
    }

    /// The slow part of getting write access. `copies`: the content is changed in the buffer itself,
    /// so what an earlier transaction still has to commit must be copied out.
    fn attach(
        &self,
        buffer: &Arc<Buffer>,
        content: &mut BufferWrite<'_>,
        copies: bool,
    ) -> Result<()> {
        self.journal.check_aborted()?;
        debug_assert!(buffer.tid() < self.tid, "a handle of a closed transaction");
        let (data, journaled) = content.parts();
        if journaled.pending != 0 {
            self.journal.cache().freeze(buffer, data);
            // A native buffer's bytes are only written by freezing, and this transaction is frozen
            // after commit has copied them.
            if copies {
                journaled.frozen = Some(data.into());
            }
        }
        journaled.pending = self.tid;
        buffer.set_tid(content, self.tid);
        self.spend(1);
        self.journal
            .shard(self.shard)
            .lists
            .lock()
            .buffers
            .push(Arc::clone(buffer));
        Ok(())
    }

    fn spend(&self, n: i64) {
        let left = self.credits.get() - n;
        if left < 0 {
            self.journal.overrun(-left);
            self.credits.set(0);
        } else {
            self.credits.set(left);
        }
    }

    /// Blocks that may still be attached without asking.
    pub fn credits(&self) -> u32 {
        u32::try_from(self.credits.get()).unwrap_or(0)
    }

    /// Makes sure that `wanted` more blocks may be attached; false if the transaction has no room,
    /// and then [`Handle::restart`] is due.
    pub fn extend(&self, wanted: u32) -> bool {
        let missing = i64::from(wanted) - self.credits.get();
        if missing <= 0 {
            return true;
        }
        if self.journal.reserve(self.shard, missing) {
            self.credits.set(self.credits.get() + missing);
            return true;
        }
        false
    }

    /// Ends this handle and starts another, perhaps in the next transaction. What was done so far
    /// must be consistent by itself.
    ///
    /// # Errors
    /// As [`Journal::start`].
    pub fn restart(self, credits: u32) -> Result<Handle<'j>> {
        let journal = self.journal;
        self.finish();
        journal.start(credits)
    }

    /// As [`Handle::extend`], and [`Handle::restart`] if the transaction has no room.
    ///
    /// # Errors
    /// As [`Journal::start`].
    pub fn extend_or_restart(self, wanted: u32) -> Result<Handle<'j>> {
        match self.extend(wanted) {
            true => Ok(self),
            false => self.restart(wanted),
        }
    }

    /// Ends the handle: what was changed under it is complete.
    #[inline]
    pub fn finish(self) {
        self.complete();
    }

    /// Says that what was changed so far is right by itself, although more is to come.
    #[inline]
    pub fn complete(&self) {
        self.changed.set(false);
    }

    /// Says that the client has noted all that the handle changed, for a fast commit.
    #[inline]
    pub fn describe(&self) {
        if self.described.get() == Described::No {
            self.described.set(Described::Yes);
        }
    }

    /// Says that the handle changed something that no fast commit can say, whatever [`Handle::describe`] said or says.
    pub fn never_describe(&self) {
        self.described.set(Described::Never);
    }

    /// Says that the metadata block in `buffer` is being freed in this transaction: it need not be
    /// journaled, and no earlier copy of it may be replayed.
    ///
    /// # Errors
    /// [`JournalError::Aborted`].
    pub fn forget(&self, buffer: &Arc<Buffer>) -> Result<()> {
        let mut content = self.modify(buffer)?;
        content.journaled().forgotten = self.tid;
        buffer.take_dirty(|_| ());
        buffer.set_kind(0, 0);
        buffer.clear_uptodate(&mut content);
        drop(content);
        self.revoke(buffer.block());
        Ok(())
    }

    /// Records that no earlier copy of `block`, which is not in memory, may be replayed.
    pub fn revoke(&self, block: u64) {
        self.changed.set(true);
        let mut lists = self.journal.shard(self.shard).lists.lock();
        lists.revoked.push(block);
        let charge = lists.revoked.len().is_multiple_of(64);
        drop(lists);
        if charge {
            self.spend(1);
        }
    }

    /// Says that `len` blocks from `block` on are free once this transaction is durable.
    pub fn free(&self, block: u64, len: u32) {
        self.changed.set(true);
        self.journal
            .shard(self.shard)
            .lists
            .lock()
            .freed
            .push((block, len));
    }
}

impl Journal {
    /// Starts a handle that may attach `credits` blocks to the running transaction.
    ///
    /// # Locks
    /// Rank `handle`: waits while the transaction closes or the log has no room, so nothing of that
    /// rank or below may be held.
    ///
    /// # Errors
    /// [`JournalError::Aborted`]; [`JournalError::Closed`] after [`Journal::close`]; [`JournalError::HostFull`]: the log has no
    /// room, and the host no space for the checkpoint; [`JournalError::TooLarge`]: more credits than
    /// [`Journal::credits_max`].
    #[inline]
    pub fn start(&self, credits: u32) -> Result<Handle<'_>> {
        order::Held::check(&class::HANDLE);
        let _timed = probe::time_start();
        let credits = credits.saturating_add(self.settings.handle_extra());
        let (shard, tid) = self.enter(credits)?;
        Ok(Handle::new(self, shard, tid, i64::from(credits)))
    }

    /// As [`Journal::start`], but never waits: `None` if the transaction is closing, the journal is closed, or the log
    /// has no room. In the last case a commit and a checkpoint are requested. `credits` must not exceed
    /// [`Journal::credits_max`], or the answer is always `None`.
    ///
    /// # Errors
    /// [`JournalError::Aborted`].
    pub fn try_start(&self, credits: u32) -> Result<Option<Handle<'_>>> {
        let credits = credits.saturating_add(self.settings.handle_extra());
        let entered = self.try_enter(credits)?;
        Ok(entered.map(|(shard, tid)| Handle::new(self, shard, tid, i64::from(credits))))
    }

    /// Ends the journal: empties the log, lets no handle start any more, runs `last` under one last handle of
    /// one credit, and writes that in place as well. Handles that wait then fail; so do later ones, until
    /// [`Journal::reopen`].
    ///
    /// # Crash
    /// What `last` changes is in place only when everything else is and the log holds nothing else.
    ///
    /// # Locks
    /// Waits; nothing of rank `handle` or below may be held.
    ///
    /// # Errors
    /// As [`Journal::flush_log`], or those of `last`. After [`JournalError::HostFull`] or an error of `last` the gate stays closed
    /// until [`Journal::reopen`]; an error of `last` after its first change aborts the journal.
    pub fn close<E: From<JournalError>>(
        &self,
        last: impl FnOnce(&Handle<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let (shard, tid) = self.empty_and_enter()?;
        let handle = Handle::new(self, shard, tid, 1);
        last(&handle)?;
        handle.finish();
        Ok(self.empty_log(true)?)
    }
}

impl Drop for Handle<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.changed.get() {
            self.journal.abort_unfinished();
        }
        if self.journal.has_fast_commits() && self.described.get() != Described::Yes {
            self.journal.note_not_described(self.tid);
        }
        let shard = self.journal.shard(self.shard);
        let left = self.credits.get();
        if left > 0 {
            shard.credits.fetch_add(left, Ordering::Relaxed);
        }
        self.journal.leave(shard);
    }
}

const _: () = {
    const fn send<T: Send>() {}
    send::<JournalError>();
};

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::JournalOptions;
    use crate::buffer::BufferCache;
    use uext4_block::MemoryDevice;

    fn journal() -> Arc<Journal> {
        let device = Arc::new(MemoryDevice::new(1 << 20));
        let cache = Arc::new(BufferCache::new(device, 4096, 16));
        Journal::without_log(cache, JournalOptions::default()).expect("a thread")
    }

    /// What is reserved and no handle has.
    fn left(journal: &Journal) -> i64 {
        let credits = |shard: &crate::transaction::Shard| shard.credits.load(Ordering::Relaxed);
        journal.shards().map(credits).sum()
    }

    #[test]
    fn credits_that_a_handle_does_not_use_are_there_for_others() {
        let journal = journal();
        for used in [0, 3, 200] {
            let handle = journal.start(200).expect("starts");
            let before = left(&journal);
            for block in 0..used {
                let buffer = journal.cache().get_unread(block);
                drop(handle.create(&buffer).expect("creates"));
            }
            assert_eq!(u64::from(handle.credits()), 200 - used);
            handle.finish();
            assert_eq!(left(&journal), before + 200 - used as i64);
            journal.sync().expect("commits");
        }
        assert_eq!(journal.stats().overruns, 0);
        journal.stop();
    }

    #[test]
    fn a_handle_that_uses_more_than_its_credits_is_counted() {
        let journal = journal();
        let handle = journal.start(1).expect("starts");
        let before = journal.reserved();
        for (block, overruns) in [(1, 0), (2, 1), (3, 2), (3, 2)] {
            let buffer = journal.cache().get(block).expect("reads");
            handle.access(&buffer).expect("attaches");
            assert_eq!(journal.stats().overruns, overruns, "{block}");
            assert_eq!(journal.reserved(), before + overruns as i64);
            assert_eq!(handle.credits(), 0);
        }
        handle.finish();
        journal.stop();
    }

    #[test]
    fn a_handle_is_extended_or_starts_again_in_the_next_transaction() {
        let journal = journal();
        let most = journal.credits_max();
        let handle = journal.start(10).expect("starts");
        let first = handle.tid();
        assert!(handle.extend(10) && handle.extend(5));
        assert_eq!(handle.credits(), 10, "it had them");
        assert!(handle.extend(30));
        assert_eq!(handle.credits(), 30);
        assert!(!handle.extend(most));
        let handle = handle.extend_or_restart(40).expect("is extended");
        assert_eq!((handle.tid(), handle.credits()), (first, 40));
        let buffer = journal.cache().get(3).expect("reads");
        handle.access(&buffer).expect("attaches");
        let handle = handle.extend_or_restart(most).expect("starts again");
        assert_eq!((handle.tid(), handle.credits()), (first + 1, most));
        drop(handle);
        journal.stop();
    }

    #[test]
    fn write_access_is_not_waited_for_by_try_modify() {
        let journal = journal();
        let handle = journal.start(2).expect("starts");
        let buffer = journal.cache().get(3).expect("reads");
        let held = buffer.read();
        assert!(matches!(handle.try_modify(&buffer), Ok(None)));
        drop(held);
        assert!(matches!(handle.try_modify(&buffer), Ok(Some(_))));
        handle.finish();
        journal.stop();
    }
}
