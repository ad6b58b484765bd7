//! Options that change while a file system is in use, read-only and back among them.
//!
//! # Data model
//! [`Ext4::options`] is what it was mounted with; [`Settings`] has the current values of those that can change.
//!
//! # Locking
//! Each setting is an atomic of its own: an operation goes by the value that it reads. One remount runs at a time.

use crate::error::{Ext4Error, Result};
use crate::fs::Ext4;
use crate::options::{AtimeUpdate, MountOptions};
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;
use uext4_ondisk::ErrorsBehaviour;

const ATIMES: [AtimeUpdate; 3] = [
    AtimeUpdate::Relative,
    AtimeUpdate::Strict,
    AtimeUpdate::Never,
];
const ERRORS: [ErrorsBehaviour; 3] = [
    ErrorsBehaviour::Continue,
    ErrorsBehaviour::RemountRo,
    ErrorsBehaviour::Panic,
];

/// The current values of options that can change.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Where in [`ATIMES`] it is.
    atime: AtomicU8,
    nodiratime: AtomicBool,
    lazytime: AtomicBool,
    /// Whether times may be pending: `lazytime` was in force at some time.
    may_have_pending: AtomicBool,
    discard: AtomicBool,
    /// Where in [`ERRORS`] it is.
    errors: AtomicU8,
    /// A remount runs.
    is_changing: AtomicBool,
}

fn place<T: PartialEq>(all: &[T], value: &T) -> u8 {
    let place = all.iter().position(|one| one == value);
    place.and_then(|at| u8::try_from(at).ok()).unwrap_or(0)
}

impl Settings {
    pub fn new(options: &MountOptions, errors: ErrorsBehaviour) -> Settings {
        Settings {
            atime: AtomicU8::new(place(&ATIMES, &options.atime)),
            nodiratime: AtomicBool::new(options.nodiratime),
            lazytime: AtomicBool::new(options.lazytime),
            may_have_pending: AtomicBool::new(options.lazytime),
            discard: AtomicBool::new(options.discard),
            errors: AtomicU8::new(place(&ERRORS, &errors)),
            is_changing: AtomicBool::new(false),
        }
    }

    #[inline]
    pub fn atime(&self) -> AtimeUpdate {
        let at = usize::from(self.atime.load(Ordering::Relaxed));
        ATIMES.get(at).copied().unwrap_or_default()
    }

    #[inline]
    pub fn nodiratime(&self) -> bool {
        self.nodiratime.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn lazytime(&self) -> bool {
        self.lazytime.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn may_have_pending(&self) -> bool {
        self.may_have_pending.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn discard(&self) -> bool {
        self.discard.load(Ordering::Relaxed)
    }

    pub fn errors(&self) -> ErrorsBehaviour {
        let at = usize::from(self.errors.load(Ordering::Relaxed));
        ERRORS
            .get(at)
            .copied()
            .unwrap_or(ErrorsBehaviour::RemountRo)
    }
}

/// Ends a remount.
struct Changing<'a>(&'a AtomicBool);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Ext4 {
    /// What damage does at present.
    pub fn errors_behaviour(&self) -> ErrorsBehaviour {
        self.settings.errors()
    }

    /// Changes the options of the mount to `wanted`: `read_only`, `atime`, `nodiratime`, `lazytime`, `errors`,
    /// `commit_interval`, `barrier` and `discard`; the others must be as they are. An option without a value that
    /// says so (`errors`) stays as it is.
    ///
    /// After a successful change to read-only the image is as clean as after an unmount; no journal handle starts until it
    /// becomes writable again. Files that are open for writing stay open, and writing to them is `EROFS`: a front end that
    /// is to refuse with `EBUSY` must look for them itself.
    ///
    /// # Locks
    /// Takes every inode's `ilock` in turn; waits for commits.
    ///
    /// # Errors
    /// `EINVAL`: another option would change. `EBUSY`: files without a name are open and the mount is to be read-only, or
    /// another remount runs. `EROFS`: it was mounted read-only, so that nothing was opened for writing, or became
    /// read-only when it met damage. `EIO`: the device failed, or the journal was aborted. `ENOSPC`: the host is full, and the
    /// log cannot be emptied. After an error on the way to read-only no option has changed, and the mount is writable again
    /// unless its journal cannot be reopened (logged); after one on the way to writable the other options have their new values.
    ///
    /// # Crash
    /// As at any other moment; once the image is clean, as unmounted.
    pub fn remount(&self, wanted: &MountOptions) -> Result<()> {
        let settings = &self.settings;
        if settings.is_changing.swap(true, Ordering::Acquire) {
            return Err(Ext4Error::Busy("another remount runs"));
        }
        let _changing = Changing(&settings.is_changing);
        self.check_only_changeable(wanted)?;
        if wanted.read_only && !self.is_read_only() {
            self.become_read_only()?;
        }
        settings
            .atime
            .store(place(&ATIMES, &wanted.atime), Ordering::Relaxed);
        settings
            .nodiratime
            .store(wanted.nodiratime, Ordering::Relaxed);
        settings.discard.store(wanted.discard, Ordering::Relaxed);
        if let Some(errors) = wanted.errors {
            settings
                .errors
                .store(place(&ERRORS, &errors), Ordering::Relaxed);
        }
        self.journal().set_commit_interval(wanted.commit_interval);
        self.journal().set_barrier(wanted.barrier)?;
        if !wanted.read_only && self.is_read_only() {
            self.become_writable()?;
        }
        self.set_lazytime(wanted.lazytime)
    }

    fn check_only_changeable(&self, wanted: &MountOptions) -> Result<()> {
        let before = &self.options;
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
            Ok(()) => self.set_mounted(false),
            Err(why) => {
                // The host may be full. What was done is in the log, and goes on.
                let _ = self.journal().reopen();
                if let Err(why) = self.mark_mounted() {
                    tracing::error!("stays read-only: {why}");
                } else {
                    self.allow_changes();
                }
                return Err(why);
            }
        }
        Ok(())
    }

    /// From where [`Ext4::become_read_only`] left it.
    fn become_writable(&self) -> Result<()> {
        if self.options.read_only || self.is_mounted() {
            return Err(Ext4Error::ReadOnly);
        }
        self.journal().check_aborted()?;
        self.journal().reopen()?;
        let marked = self.mark_mounted();
        if marked.is_err() {
            self.set_mounted(false);
        }
        marked?;
        self.allow_changes();
        Ok(())
    }

    fn set_lazytime(&self, wanted: bool) -> Result<()> {
        let settings = &self.settings;
        if wanted {
            settings.may_have_pending.store(true, Ordering::SeqCst);
        }
        let before = settings.lazytime.swap(wanted, Ordering::SeqCst);
        if wanted && !self.is_read_only() {
            self.lazytime
                .start(Weak::clone(&self.me()), self.options.lazytime_max_age);
        }
        match before && !wanted && !self.is_read_only() {
            true => self.write_pending_times(Duration::ZERO),
            false => Ok(()),
        }
    }
}
