//! Signals that end a command: Ctrl-C, and SIGTERM of the C library.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How soon a signal is seen.
const INTERVAL: Duration = Duration::from_millis(50);

/// Signals that are caught, until [`Caught::each`] takes them: the last one, or zero.
pub struct Caught(Arc<AtomicUsize>);

/// Catches the signals that end a command.
///
/// # Errors
/// The host refuses.
pub fn catch() -> io::Result<Caught> {
    let last = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM] {
        flag::register_usize(signal, Arc::clone(&last), signal.unsigned_abs() as usize)?;
    }
    Ok(Caught(last))
}

impl Caught {
    /// Calls `receive` with each signal, in a thread.
    ///
    /// # Errors
    /// The host refuses.
    pub fn each(self, mut receive: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
        let work = move || {
            loop {
                match self.0.swap(0, Ordering::SeqCst) {
                    0 => thread::sleep(INTERVAL),
                    signal => receive(signal as i32),
                }
            }
        };
        let thread = thread::Builder::new().name("signals".to_owned());
        thread.spawn(work).map(drop)
    }
}
