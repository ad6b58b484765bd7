//! How far the making of an image is.

use crate::error::{MkfsError, Result};

/// Receives what is being done and how far it is; called from many threads.
pub trait Progress: Sync {
    /// A phase begins: `scan` counts entries of the tree (its total is not known, 0), `data`, `verity` and
    /// `fsverity` bytes, `metadata` groups, `flush` nothing.
    fn phase(&self, name: &str, total: u64);

    /// `n` more of the phase's units are done.
    fn advance(&self, n: u64);

    /// Whether to give up, which is asked between pieces of work.
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
