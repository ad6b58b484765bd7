//! Options that change while a file system is in use, read-only and back among them.
//!
//! # Data model
//! `Volume::options` is what it was mounted with; `volume::Settings` has the current values of those that can change.
//!
//! # Locking
//! One remount runs at a time.

use crate::fs::Ext4;
use crate::options::MountOptions;
use crate::prelude::*;

impl Ext4 {
    /// What damage does at present.
    pub fn errors_behaviour(&self) -> ErrorsBehaviour {
        self.volume.settings.errors()
    }

    /// Changes the options of the mount to `wanted`: `read_only`, `atime`, `nodiratime`, `lazytime`, `errors`,
    /// `commit_interval`, `barrier` and `discard`; the others must be as they are. An option without a value that
    /// says so (`errors`) stays as it is.
    ///
    /// After a successful change to read-only the image is as clean as after an unmount; no journal handle starts until it
    /// becomes writable again. Files that are open for writing stay open, and writing to them is `EROFS`: a front end that
    /// is to refuse with `EBUSY` must find them itself.
    ///
    /// # Locks
    /// Takes every inode's `ilock` in turn; waits for commits.
    ///
    /// # Errors
    /// `EINVAL`: another option would change. `EBUSY`: files without a name are open and the mount is to be read-only, or
    /// another remount runs, or it is frozen. `EROFS`: it was mounted read-only, so that nothing was opened for writing, or became
    /// read-only when it met damage. `EIO`: the device failed, or the journal was aborted. `ENOSPC`: the host is full, and the
    /// log cannot be emptied. After an error on the way to read-only no option has changed, and the mount is writable again
    /// unless its journal cannot be reopened (logged); after one on the way to writable the other options have their new values.
    ///
    /// # Crash
    /// As at any other moment; once the image is clean, as unmounted.
    pub fn remount(&self, wanted: &MountOptions) -> Result<()> {
        let settings = &*self.volume.settings;
        let Some(_changing) = settings.begin_change() else {
            return Err(Ext4Error::Busy("another remount runs"));
        };
        self.check_only_changeable(wanted)?;
        let alone = self.volume.freeze.stop_changes();
        if self.volume.freeze.is_frozen() {
            return Err(Ext4Error::Busy("frozen"));
        }
        let changed = self.remount_locked(wanted);
        drop(alone);
        self.delete_what_was_put_off();
        changed
    }

    fn remount_locked(&self, wanted: &MountOptions) -> Result<()> {
        let settings = &*self.volume.settings;
        if wanted.read_only && !self.volume.is_read_only() {
            self.become_read_only()?;
        }
        settings.set_atime(wanted.atime);
        settings.set_nodiratime(wanted.nodiratime);
        settings.set_discard(wanted.discard);
        if let Some(errors) = wanted.errors {
            settings.set_errors(errors);
        }
        self.volume
            .journal()
            .set_commit_interval(wanted.commit_interval);
        self.volume.journal().set_barrier(wanted.barrier)?;
        if !wanted.read_only && self.volume.is_read_only() {
            self.become_writable()?;
        }
        self.set_lazytime(wanted.lazytime)
    }

    fn check_only_changeable(&self, wanted: &MountOptions) -> Result<()> {
        let before = &self.volume.options;
        let fixed = MountOptions {
            read_only: before.read_only,
            atime: before.atime,
            nodiratime: before.nodiratime,
            lazytime: before.lazytime,
            errors: before.errors,
            commit_interval: before.commit_interval,
            barrier: before.barrier,
            discard: before.discard,
            ..wanted.clone()
        };
        match fixed == *before {
            true => Ok(()),
            false => Err(Ext4Error::Invalid("an option that a remount cannot change")),
        }
    }

    fn become_read_only(&self) -> Result<()> {
        if self.orphans.any_left() {
            return Err(Ext4Error::Busy("files without a name are open"));
        }
        match self.finish() {
            Ok(()) => {
                self.volume.set_mounted(false);
            }
            Err(why) => {
                // The host may be full. What was done is in the log, and continues.
                let _ = self.volume.journal().reopen();
                if let Err(why) = self.mark_mounted() {
                    tracing::error!("stays read-only: {why}");
                } else {
                    self.volume.allow_changes();
                }
                return Err(why);
            }
        }
        Ok(())
    }

    /// From where [`Ext4::become_read_only`] left it.
    fn become_writable(&self) -> Result<()> {
        if self.volume.options.read_only || self.volume.is_mounted() {
            return Err(Ext4Error::ReadOnly);
        }
        self.volume.journal().reopen()?;
        let marked = self.mark_mounted();
        if marked.is_err() {
            self.volume.set_mounted(false);
        }
        marked?;
        self.volume.allow_changes();
        Ok(())
    }

    fn set_lazytime(&self, wanted: bool) -> Result<()> {
        let before = self.volume.settings.set_lazytime(wanted);
        if wanted && !self.volume.is_read_only() {
            self.table.start_writeback();
        }
        match before && !wanted && !self.volume.is_read_only() {
            true => self.table.write_pending_times(Duration::ZERO),
            false => Ok(()),
        }
    }
}
