//! Options of a mount that change while it is in use, and the ioctl that changes them.

use serde_json::Value;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use uext4_vfs::Errno;

/// The ioctl of a mounted directory for requests to the mount itself: [`SETTINGS_BYTES`] in and out, text up to the first
/// zero byte. In C: `_IOWR('u', 'x', char[4096])`.
pub const SETTINGS_IOCTL: u32 = 3 << 30 | (SETTINGS_BYTES as u32) << 16 | 0x75 << 8 | 0x78;

/// Bytes of the request and of the answer, with the zero byte at the end.
pub const SETTINGS_BYTES: usize = 4096;

/// Which changes are durable when they return.
#[derive(Debug, Default)]
pub struct Synchronous {
    all: AtomicBool,
    directories: AtomicBool,
}

impl Synchronous {
    /// Every change if `all`, else those of directories if `directories`.
    pub fn new(all: bool, directories: bool) -> Synchronous {
        Synchronous {
            all: AtomicBool::new(all),
            directories: AtomicBool::new(directories),
        }
    }

    /// Sets both, from the next request on.
    pub fn set(&self, all: bool, directories: bool) {
        self.all.store(all, Relaxed);
        self.directories.store(directories, Relaxed);
    }

    /// Whether a change of a file is durable when it returns.
    #[inline]
    pub fn all(&self) -> bool {
        self.all.load(Relaxed)
    }

    /// Whether a change of a directory is durable when it returns.
    #[inline]
    pub fn directories(&self) -> bool {
        self.directories.load(Relaxed) || self.all()
    }
}

/// What the server of a mount does with its requests and with the kernel's cache.
pub trait Requests {
    /// Begins to make the kernel send what programs have written to files and it keeps. Returns a ticket to wait with.
    fn begin_write_back(&self) -> u64;

    /// Begins to make the kernel drop all that it keeps of files, and what it knows of their targets and of the entries of directories. Returns a
    /// ticket to wait with.
    fn begin_drop_cached(&self) -> u64;

    /// Whether all that a ticket stands for was sent and answered. Waits for that, but not for long: the kernel may need this
    /// thread to answer it.
    ///
    /// # Locks
    /// May sleep.
    fn is_written_back(&self, ticket: u64) -> bool;

    /// How many writes were answered since the mount.
    fn writes(&self) -> u64;

    /// Waits for those that run, and lets later ones wait until [`Requests::resume`]; others are answered.
    ///
    /// # Locks
    /// Waits; none of those that such a request takes may be held.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: a request that waits would occupy what other requests need.
    fn pause(&self) -> Result<(), Errno>;

    /// Executes what waits, before the current request is answered.
    fn resume(&self);
}

/// Executes requests for the mount itself.
pub trait Settings: fmt::Debug + Send + Sync {
    /// Executes a request of user `uid`, if that user may change the mount and its `requests`. Returns the answer, which is shorter than
    /// [`SETTINGS_BYTES`].
    ///
    /// # Locks
    /// May sleep for commits.
    fn change(&self, uid: u32, question: &[u8], requests: &dyn Requests) -> Vec<u8>;

    /// The current values of the options, for the statistics.
    fn describe(&self) -> Value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ioctl_has_the_number_that_c_gives_it() {
        assert_eq!(SETTINGS_IOCTL, 0xd000_7578);
    }

    #[test]
    fn what_holds_for_all_holds_for_directories() {
        let synchronous = Synchronous::new(false, true);
        assert!(synchronous.directories() && !synchronous.all());
        synchronous.set(true, false);
        assert!(synchronous.directories() && synchronous.all());
    }
}
