//! How long a thread spins, and how long it sleeps before it is handed the lock.

/// A thread that waits for longer is handed the lock.
#[cfg(not(shuttle))]
const STARVED: std::time::Duration = std::time::Duration::from_micros(100);

/// How long a thread waits for the gate.
pub(super) struct Waiting {
    #[cfg(not(shuttle))]
    since: std::time::Instant,
}

impl Waiting {
    pub fn now() -> Waiting {
        Waiting {
            #[cfg(not(shuttle))]
            since: std::time::Instant::now(),
        }
    }

    #[cfg(not(shuttle))]
    pub fn for_too_long(&self) -> bool {
        self.since.elapsed() >= STARVED
    }

    /// Shuttle has no time: one in four does.
    #[cfg(shuttle)]
    pub fn for_too_long(&self) -> bool {
        crate::imp::times_out()
    }
}

/// A bounded wait for a holder that is expected to be quick.
pub(super) struct Spin {
    round: u32,
}

impl Spin {
    pub fn new() -> Spin {
        Spin { round: 0 }
    }

    /// Waits a little; false when that has been done often enough.
    pub fn again(&mut self) -> bool {
        if cfg!(shuttle) || self.round == 10 {
            return false;
        }
        self.round += 1;
        if self.round <= 3 {
            (0..1 << self.round).for_each(|_| std::hint::spin_loop());
        } else {
            crate::thread::yield_now();
        }
        true
    }
}
