//! Signals that end a command.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::thread;

/// Signals that are caught, until [`Caught::each`] takes them.
pub struct Caught(Signals);

/// Catches the signals that end a command, unless they are ignored.
///
/// # Errors
/// The host refuses.
pub fn catch() -> io::Result<Caught> {
    let ignored = ignored();
    let wanted = [SIGINT, SIGTERM, SIGHUP];
    let wanted = wanted
        .into_iter()
        .filter(|signal| ignored & (1 << (signal - 1)) == 0);
    Ok(Caught(Signals::new(wanted)?))
}

impl Caught {
    /// Calls `receive` with each signal, in a thread.
    ///
    /// # Errors
    /// The host refuses.
    pub fn each(mut self, mut receive: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
        let work = move || self.0.forever().for_each(&mut receive);
        let thread = thread::Builder::new().name("signals".to_owned());
        thread.spawn(work).map(drop)
    }
}

/// The signals that are ignored, as nohup(1) and a shell's background do, a bit for each. Known on Linux alone; elsewhere they are
/// caught.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
