//! The clock that files, superblocks and logs take their times from. With `--cfg shuttle` it is simulated: a timed wait that
//! ends by its time takes that long, and all else takes a moment.

/// The time since 1970, by the clock of the machine; zero where that is set before 1970.
#[cfg(not(shuttle))]
pub fn since_epoch() -> std::time::Duration {
    use std::time::{SystemTime, UNIX_EPOCH};
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(shuttle)]
mod simulated {
    use std::cell::Cell;
    use std::time::Duration;

    /// What reading the clock takes.
    const READING: Duration = Duration::from_micros(20);

    // Of all tasks of an execution: they run in one thread of the machine.
    std::thread_local! {
        static NOW: Cell<Duration> = const { Cell::new(Duration::from_secs(1_700_000_000)) };
    }

    /// The time since 1970, by the simulated clock.
    pub fn since_epoch() -> Duration {
        advance(READING);
        NOW.get()
    }

    /// Lets time pass.
    pub fn advance(time: Duration) {
        NOW.set(NOW.get().saturating_add(time));
    }

    /// Sets the clock, to what is later or earlier.
    pub fn set(now: Duration) {
        NOW.set(now);
    }
}

#[cfg(shuttle)]
pub use simulated::{advance, set, since_epoch};
