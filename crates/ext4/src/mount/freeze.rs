//! Freezing: the image on its own is as clean as after an unmount, and stays as it is while the mount exists.
//!
//! # Locking
//! The gate of changes alone (`volume::freeze`), so that one freeze, thaw, remount or unmount runs at a time.

use crate::fs::Ext4;
use crate::prelude::*;

impl Ext4 {
    /// Waits for the changes that run, writes everything in place and empties the log. From then on changes wait until
    /// [`Ext4::thaw`] and the image is not written, but for the block of multi-mount protection: a copy of it is one
    /// of an unmounted file system, in which files that are open without a name are on the list of orphans.
    ///
    /// Reads continue, without new access times in the image; a sync returns at once. The end of the thread or process that
    /// froze it changes nothing; an unmount thaws.
    ///
    /// # Locks
    /// Waits for changes that run and for commits; starts handles.
    ///
    /// # Errors
    /// `EBUSY`: it is frozen. `EIO`: the device failed, or the journal was aborted. `ENOSPC`: the host is full, and the log
    /// cannot be emptied. After an error it is not frozen.
    ///
    /// # Crash
    /// As at any other moment; once it is frozen, as unmounted.
    pub fn freeze(&self) -> Result<()> {
        let alone = self.volume.freeze.stop_changes();
        if self.volume.freeze.is_frozen() {
            return Err(Ext4Error::Busy("frozen"));
        }
        let cleaned = self.clean();
        if cleaned.is_ok() {
            self.volume.freeze.set_frozen(true);
        } else if self.volume.is_mounted()
            && let Err(why) = self.use_again()
        {
            tracing::error!("read-only from now on: {why}");
        }
        drop(alone);
        if cleaned.is_err() {
            self.delete_what_was_put_off();
        }
        cleaned
    }

    /// Ends a freeze: says in the superblock that the journal needs recovery, and lets changes continue.
    ///
    /// # Locks
    /// Waits for a commit; starts handles.
    ///
    /// # Errors
    /// `EINVAL`: it is not frozen. `EIO`: the device failed, or the journal was aborted; then it is not frozen any more, but
    /// read-only.
    pub fn thaw(&self) -> Result<()> {
        let alone = self.volume.freeze.stop_changes();
        if !self.volume.freeze.is_frozen() {
            return Err(Ext4Error::Invalid("it is not frozen"));
        }
        let thawed = self.thaw_locked();
        drop(alone);
        self.delete_what_was_put_off();
        self.volume.record_errors();
        thawed
    }

    /// Whether it is frozen.
    pub fn is_frozen(&self) -> bool {
        self.volume.freeze.is_frozen()
    }

    /// Ends a freeze if there is one; the caller holds the gate alone.
    pub(crate) fn thaw_locked(&self) -> Result<()> {
        if !self.volume.freeze.is_frozen() {
            return Ok(());
        }
        let thawed = match self.volume.is_mounted() {
            true => self.use_again(),
            false => Ok(()),
        };
        self.volume.freeze.set_frozen(false);
        thawed
    }

    /// Deletes what lost its last reference while changes were stopped, unless they are again.
    pub(crate) fn delete_what_was_put_off(&self) {
        if let Some(_change) = self.volume.freeze.try_change() {
            self.deletion.delete_put_off();
        }
    }

    fn clean(&self) -> Result<()> {
        if !self.volume.is_mounted() {
            return Ok(());
        }
        self.blocks.release_ahead();
        self.table.write_pending_times(Duration::ZERO)?;
        self.deletion.delete_put_off();
        self.volume.record_errors_now();
        self.close_journal()?;
        // A device may keep more in memory than what the journal orders.
        Ok(self.volume.journal().flush_device()?)
    }

    /// Opens the journal that [`Ext4::clean`] has closed.
    fn use_again(&self) -> Result<()> {
        // If the host is full, the gate is open all the same; otherwise the first handle fails as well.
        let _ = self.volume.journal().reopen();
        self.mark_in_use(|_| {})
            .inspect_err(|_| self.volume.set_read_only())
    }
}
