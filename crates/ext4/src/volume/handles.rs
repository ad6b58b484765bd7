//! How operations end their journal handles.
//!
//! # Invariants
//! - Whatever can fail precedes a handle's first change: blocks are read, verified and pinned, space is
//!   reserved. What still fails in the middle aborts the journal, so that half of a change is never committed.
//! - An error that is not a fault of the file system (no space, a name that exists) is returned only where
//!   nothing is changed, or where what was changed was taken back.

use crate::prelude::*;
use crate::volume::Volume;
use std::cell::OnceCell;

/// Ends a handle whose work ended as `done` says. A fault leaves a change that began unfinished, which aborts
/// the journal.
#[inline]
pub(crate) fn end<T>(handle: Handle<'_>, done: Result<T>) -> Result<T> {
    settle(&handle, &done);
    done
}

/// Says that what was changed under a handle is complete, unless a fault ended it.
#[inline]
fn settle<T>(handle: &Handle<'_>, done: &Result<T>) {
    if done.as_ref().err().is_none_or(|why| !why.is_fault()) {
        handle.complete();
    }
}

impl Volume {
    /// Does `work` under a handle of its own.
    ///
    /// # Locks
    /// As `Journal::start`.
    ///
    /// # Errors
    /// Those of `Journal::start`, and of `work`.
    #[inline]
    pub(crate) fn with_handle<T>(
        &self,
        credits: u32,
        work: impl FnOnce(&Handle<'_>) -> Result<T>,
    ) -> Result<T> {
        let handle = self.journal().start(credits)?;
        let done = work(&handle);
        end(handle, done)
    }
}

/// A handle that starts when it is first needed, so that the preceding steps may search and wait without holding a
/// transaction open.
#[derive(Debug)]
pub(crate) struct LazyHandle<'j> {
    journal: &'j Journal,
    credits: u32,
    handle: OnceCell<Handle<'j>>,
}

impl<'j> LazyHandle<'j> {
    /// No handle yet.
    pub fn new(journal: &'j Journal, credits: u32) -> LazyHandle<'j> {
        LazyHandle {
            journal,
            credits,
            handle: OnceCell::new(),
        }
    }

    /// The handle, started now unless it was.
    ///
    /// # Locks
    /// As `Journal::start` the first time.
    ///
    /// # Errors
    /// As `Journal::start`.
    #[inline]
    pub fn get(&self) -> Result<&Handle<'j>> {
        if let Some(handle) = self.handle.get() {
            return Ok(handle);
        }
        let started = self.journal.start(self.credits)?;
        Ok(self.handle.get_or_init(|| started))
    }

    /// Says that nothing was changed under the handle so far, although it got write access.
    pub fn nothing_changed(&self) {
        if let Some(handle) = self.handle.get() {
            handle.complete();
        }
    }

    /// The handle, if it was started.
    pub fn into_handle(self) -> Option<Handle<'j>> {
        self.handle.into_inner()
    }

    /// Ends the handle, if it was started, as [`end`] does.
    #[inline]
    pub fn end<T>(self, done: Result<T>) -> Result<T> {
        if let Some(handle) = self.handle.get() {
            settle(handle, &done);
        }
        done
    }
}

impl Volume {
    /// As [`Volume::sync_tid`], of what a fast commit makes durable if there can be one.
    pub(crate) fn sync_file(&self, tid: u64, unflushed: bool) -> Result<()> {
        self.sync_by(Journal::wait_fast_commit, tid, unflushed)
    }

    pub(crate) fn sync_tid(&self, tid: u64, unflushed: bool) -> Result<()> {
        self.sync_by(Journal::wait_commit, tid, unflushed)
    }

    fn sync_by(
        &self,
        wait: fn(&Journal, u64) -> std::result::Result<(), JournalError>,
        tid: u64,
        unflushed: bool,
    ) -> Result<()> {
        self.journal().check_aborted()?;
        // Of an inode that was never changed `tid` is 0, which counts as committed.
        if !self.journal().is_committed(tid) {
            // The commit flushes the device; but it may have done so before the last overwrite.
            wait(self.journal(), tid)?;
        }
        if unflushed {
            self.journal().flush_device()?;
        }
        Ok(())
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;
    use crate::fixture::*;
    use uext4_block::BlockOp;

    #[test]
    fn a_sync_of_data_fails_with_the_flush() {
        let (fs, device) = small_fs();
        device.fail(BlockOp::Flush, 0..u64::MAX, Errno::EIO);
        fs.volume.sync_tid(0, false).expect("nothing to flush");
        let done = fs.volume.sync_tid(0, true);
        assert_eq!(done.expect_err("a flush that fails").errno(), Errno::EIO);
    }

    #[test]
    fn a_fault_in_a_change_aborts_the_journal() {
        let in_change = |why: Ext4Error| {
            let (fs, _device) = small_fs();
            let done = fs.volume.with_handle(1, |handle| {
                handle.access(&fs.volume.super_buffer)?;
                Err::<(), _>(why)
            });
            assert!(done.is_err());
            fs.volume.journal().is_aborted()
        };
        assert!(in_change(CorruptKind::BlockRange.into()));
        assert!(in_change(Ext4Error::Stale));
        assert!(!in_change(Ext4Error::NoSpace));
        assert!(!in_change(Ext4Error::NotFound));
    }

    #[test]
    fn nothing_is_durable_any_more_once_the_journal_is_aborted() {
        let (fs, _device) = small_fs();
        abort(&fs);
        let done = fs.volume.sync_tid(0, false);
        assert!(matches!(done, Err(Ext4Error::Journal(_))), "{done:?}");
    }
}
