//! Failures that a command survives: each is reported when it happens, the rest is done, and the exit code says that there were some.

use crate::{diagnostics, interrupt, show};
use anyhow::Result;
use std::sync::atomic::{AtomicBool, Ordering};

static ANY: AtomicBool = AtomicBool::new(false);

/// Reports the failure of one operand, or of one file below it, so that the command can go on with the next.
///
/// # Errors
/// The error itself, where nothing after it can be done: a signal, or output that can not be written.
pub fn report(e: anyhow::Error) -> Result<()> {
    if e.is::<interrupt::Interrupted>() || diagnostics::is_of_output(&e) {
        return Err(e);
    }
    count();
    show::warn(diagnostics::one_line(&e));
    Ok(())
}

/// Counts one that is not reported, because the user wants it so.
pub fn count() {
    ANY.store(true, Ordering::Relaxed);
}

/// Whether there was one.
pub fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}
