//! Ctrl-C, and a terminal that goes: the turn is given up, so that nothing stays mounted.

use anyhow::ensure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What a process ends with whose user asked twice.
const EXIT_CODE: i32 = 130;

/// Whether the user wants the run to end.
pub struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// From now on the first signal only asks, and the second ends the process.
    pub fn watch() -> std::io::Result<Interrupt> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_shutdown(signal, EXIT_CODE, Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Interrupt { asked })
    }

    /// No interrupt.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.asked.load(Relaxed), "interrupted");
        Ok(())
    }
}
