//! Failures that a command survives: each is reported when it happens, the rest is done, and the exit code says that there were some.

use crate::{diagnostics, interrupt, show};
use anyhow::Result;
use std::sync::atomic::{AtomicBool, Ordering};

static ANY: AtomicBool = AtomicBool::new(false);
static IS_FIRST_LAST: AtomicBool = AtomicBool::new(false);

/// From now on the first failure ends the command.
pub fn end_at_first() {
    IS_FIRST_LAST.store(true, Ordering::Relaxed);
}

/// Reports the failure of one operand, or of one file below it, so that the command can go on with the next.
///
/// # Errors
/// The error itself, where nothing after it can be done: a signal, output that can not be written, or
/// after [`end_at_first`].
pub fn report(e: anyhow::Error) -> Result<()> {
    let is_last = IS_FIRST_LAST.load(Ordering::Relaxed);
    if is_last || e.is::<interrupt::Interrupted>() || diagnostics::is_of_output(&e) {
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
