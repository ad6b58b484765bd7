//! How far the making of an image is.

use crate::error::{MkfsError, Result};

/// Receives what is being done and how far it is, and can cancel it; called from many threads.
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
/// use uext4_build::Progress;
///
/// #[derive(Default)]
/// struct Units {
///     done: AtomicU64,
///     cancelled: AtomicBool,
/// }
///
/// impl Progress for Units {
///     fn phase(&self, _name: &str, _total: u64) {
///         self.done.store(0, Ordering::Relaxed);
///     }
///
///     fn advance(&self, n: u64) {
///         self.done.fetch_add(n, Ordering::Relaxed);
///     }
///
///     fn is_cancelled(&self) -> bool {
///         self.cancelled.load(Ordering::Relaxed)
///     }
/// }
/// ```
pub trait Progress: Sync {
    /// A phase begins: `scan` counts entries of the tree (its total is not known, 0), `data`, `verity` and
    /// `fsverity` bytes, `metadata` groups, `digest` bytes, `flush` nothing.
    fn phase(&self, name: &str, total: u64);

    /// `n` more of the phase's units are done.
    fn advance(&self, n: u64);

    /// Whether to cancel, which is asked between pieces of work: then making the image fails with [`MkfsError::Cancelled`], and a file that it
    /// would replace stays as it was.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// `n` more units are done, and more are to be.
pub(crate) fn go_on(progress: &dyn Progress, n: u64) -> Result<()> {
    progress.advance(n);
    match progress.is_cancelled() {
        true => Err(MkfsError::Cancelled),
        false => Ok(()),
    }
}

/// Discards every report.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn phase(&self, _name: &str, _total: u64) {}
    fn advance(&self, _n: u64) {}
}
