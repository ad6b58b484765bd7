//! Signals that end a command: at the end of a step, so that what it has open is closed.

use crate::show;
use crate::system::signals;
use anyhow::Result;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The signal that came, or zero.
static SIGNAL: AtomicUsize = AtomicUsize::new(0);

/// Whether what was done is forgotten when the command ends early.
static IS_FORGOTTEN: AtomicBool = AtomicBool::new(false);

/// Whether a signal ends the process at once.
static AT_ONCE: AtomicBool = AtomicBool::new(false);

/// A signal within this time of the first one is the same one.
const REPEATED: Duration = Duration::from_secs(1);

/// The work was given up for a signal.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted {
    signal: usize,
}

impl Interrupted {
    /// What the process exits with, as the shell has it for what a signal ended.
    pub fn exit_code(self) -> u8 {
        u8::try_from(128 + self.signal).unwrap_or(u8::MAX)
    }
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match IS_FORGOTTEN.load(Ordering::Relaxed) {
            true => "interrupted; nothing was changed",
            false => "interrupted; what was done before is kept",
        })
    }
}

impl std::error::Error for Interrupted {}

/// From now on the first of these signals is for [`check`] to find, unless it is ignored; one that follows later than
/// [`REPEATED`] ends the process. A signal that is sent to a process and to its group arrives twice.
///
/// # Errors
/// The host refuses.
pub fn catch() -> Result<()> {
    catch_after(|| Ok(()))
}

/// As [`catch`]; `confine` runs when all that takes rights is done and the process has no other thread yet.
///
/// # Errors
/// The host refuses, or as `confine`.
pub fn catch_after<T>(confine: impl FnOnce() -> Result<T>) -> Result<T> {
    static CAUGHT: OnceLock<()> = OnceLock::new();
    if CAUGHT.set(()).is_err() {
        return confine();
    }
    let caught = signals::catch()?;
    let confined = confine()?;
    let mut first: Option<Instant> = None;
    caught.each(move |signal| {
        match first {
            None => {
                let number = signal.unsigned_abs() as usize;
                SIGNAL.store(number, Ordering::SeqCst);
                // `opening` says so before it checks for a signal.
                if AT_ONCE.load(Ordering::SeqCst) {
                    show::warn(Interrupted { signal: number });
                    std::process::exit(128 + signal)
                }
            }
            Some(at) if at.elapsed() < REPEATED => {}
            Some(_) => std::process::exit(128 + signal),
        }
        first.get_or_insert_with(Instant::now);
    })?;
    Ok(confined)
}

/// What was done is forgotten when the command ends early.
pub fn keeps_nothing() {
    IS_FORGOTTEN.store(true, Ordering::Relaxed);
}

/// Opens an image that another host left behind, which waits: a signal ends the process at once, and leaves the image as it was
/// found, not closed.
///
/// # Errors
/// [`Interrupted`]; those of `open`.
pub fn opening<T>(open: impl FnOnce() -> Result<T>) -> Result<T> {
    AT_ONCE.store(true, Ordering::SeqCst);
    // One that came before.
    let opened = check().and_then(|()| open());
    AT_ONCE.store(false, Ordering::SeqCst);
    opened
}

/// The signal that came, if one did.
pub fn signal() -> Option<i32> {
    match SIGNAL.load(Ordering::SeqCst) {
        0 => None,
        signal => i32::try_from(signal).ok(),
    }
}

/// Fails once a signal came. To be called between steps of work.
///
/// # Errors
/// [`Interrupted`].
pub fn check() -> Result<()> {
    match SIGNAL.load(Ordering::SeqCst) {
        0 => Ok(()),
        signal => Err(Interrupted { signal }.into()),
    }
}
