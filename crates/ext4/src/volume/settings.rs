//! The current values of the mount options that a remount can change.
//!
//! # Locking
//! Each setting is an atomic of its own: an operation uses the value that it reads.

use crate::options::{AtimeUpdate, MountOptions};
use uext4_ondisk::ErrorsBehaviour;
use uext4_sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The current values of options that can change.
#[derive(Debug)]
pub(crate) struct Settings {
    /// An [`AtimeUpdate`].
    atime: AtomicU8,
    nodiratime: AtomicBool,
    lazytime: AtomicBool,
    /// Whether timestamps may be pending: `lazytime` was in force at some time.
    may_have_pending: AtomicBool,
    discard: AtomicBool,
    /// An [`ErrorsBehaviour`].
    errors: AtomicU8,
    is_changing: AtomicBool,
}

/// A remount that runs; ends it when dropped.
pub(crate) struct Change<'s>(&'s Settings);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0.is_changing.store(false, Ordering::Release);
    }
}

impl Settings {
    pub fn new(options: &MountOptions, errors: ErrorsBehaviour) -> Settings {
        Settings {
            atime: AtomicU8::new(options.atime as u8),
            nodiratime: AtomicBool::new(options.nodiratime),
            lazytime: AtomicBool::new(options.lazytime),
            may_have_pending: AtomicBool::new(options.lazytime),
            discard: AtomicBool::new(options.discard),
            errors: AtomicU8::new(errors as u8),
            is_changing: AtomicBool::new(false),
        }
    }

    /// Begins a remount; none if another runs.
    pub fn begin_change(&self) -> Option<Change<'_>> {
        let running = self.is_changing.swap(true, Ordering::Acquire);
        (!running).then_some(Change(self))
    }

    #[inline]
    pub fn atime(&self) -> AtimeUpdate {
        const STRICT: u8 = AtimeUpdate::Strict as u8;
        const NEVER: u8 = AtimeUpdate::Never as u8;
        match self.atime.load(Ordering::Relaxed) {
            STRICT => AtimeUpdate::Strict,
            NEVER => AtimeUpdate::Never,
            _ => AtimeUpdate::Relative,
        }
    }

    pub fn set_atime(&self, atime: AtimeUpdate) {
        self.atime.store(atime as u8, Ordering::Relaxed);
    }

    #[inline]
    pub fn nodiratime(&self) -> bool {
        self.nodiratime.load(Ordering::Relaxed)
    }

    pub fn set_nodiratime(&self, nodiratime: bool) {
        self.nodiratime.store(nodiratime, Ordering::Relaxed);
    }

    #[inline]
    pub fn lazytime(&self) -> bool {
        self.lazytime.load(Ordering::Relaxed)
    }

    /// Returns the value before.
    pub fn set_lazytime(&self, lazytime: bool) -> bool {
        if lazytime {
            self.may_have_pending.store(true, Ordering::SeqCst);
        }
        self.lazytime.swap(lazytime, Ordering::SeqCst)
    }

    #[inline]
    pub fn may_have_pending(&self) -> bool {
        self.may_have_pending.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn discard(&self) -> bool {
        self.discard.load(Ordering::Relaxed)
    }

    pub fn set_discard(&self, discard: bool) {
        self.discard.store(discard, Ordering::Relaxed);
    }

    pub fn errors(&self) -> ErrorsBehaviour {
        const CONTINUE: u8 = ErrorsBehaviour::Continue as u8;
        const PANIC: u8 = ErrorsBehaviour::Panic as u8;
        match self.errors.load(Ordering::Relaxed) {
            CONTINUE => ErrorsBehaviour::Continue,
            PANIC => ErrorsBehaviour::Panic,
            _ => ErrorsBehaviour::RemountRo,
        }
    }

    pub fn set_errors(&self, errors: ErrorsBehaviour) {
        self.errors.store(errors as u8, Ordering::Relaxed);
    }
}
