//! Signals that end a command: at the end of a step, so that what it has open is closed.

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The signal that came, or zero.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

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
        f.write_str("interrupted; what was done before is kept")
    }
}

impl std::error::Error for Interrupted {}

/// From now on the first of these signals is for [`check`] to find, unless it is ignored; the second ends the process.
///
/// # Errors
/// The host refuses.
pub fn catch() -> Result<()> {
    let ignored = ignored();
    let again = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if ignored & (1 << (signal - 1)) != 0 {
            continue;
        }
        let (flag, number) = (Arc::clone(&again), usize::try_from(signal)?);
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&again))?;
        signal_hook::flag::register(signal, flag)?;
        signal_hook::flag::register_usize(signal, Arc::clone(&SIGNAL), number)?;
    }
    Ok(())
}

/// The signals that are ignored, as nohup(1) and a shell's background do, a bit for each.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Fails once a signal came. To be called between steps of work.
///
/// # Errors
/// [`Interrupted`].
pub fn check() -> Result<()> {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => Ok(()),
        signal => Err(Interrupted { signal }.into()),
    }
}
