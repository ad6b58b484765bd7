//! Spinning before a thread sleeps.
//!
//! Waking a thread on another CPU takes tens of microseconds, in which many messages or requests could pass. So a caller that
//! finds nothing to do first spins, without a lock and before it counts as a waiter, as if it had arrived that much later.
//!
//! # Invariants
//! The length of spinning adapts: it stays while spinning succeeds and is halved by each failure, down to none, because the
//! awaited thread may need this CPU. A short sleep enables spinning again, less often the more often spinning failed.
//!
//! # Locking
//! Atomics only. Their values are estimates: a lost update does no harm.

use crate::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Spinning would have been worthwhile for a wait shorter than this.
const SHORT: Duration = Duration::from_micros(100);

/// The number of short waits after which spinning is tried again: at first, and at most.
const RETRY_MIN: u32 = 8;
const RETRY_MAX: u32 = 1 << 8;

/// How long to spin before sleeping.
#[derive(Debug)]
pub struct AdaptiveSpin {
    /// As many checks as take about the time of going to sleep and being woken; immutable.
    checks_max: u32,
    checks: AtomicU32,
    /// Short waits until the next attempt.
    until_retry: AtomicU32,
    /// Short waits between the last two attempts.
    retry: AtomicU32,
}

impl AdaptiveSpin {
    /// At most `checks_max` checks; 0 disables spinning.
    pub fn new(checks_max: u32) -> AdaptiveSpin {
        AdaptiveSpin {
            checks_max,
            checks: AtomicU32::new(checks_max),
            until_retry: AtomicU32::new(RETRY_MIN),
            retry: AtomicU32::new(RETRY_MIN),
        }
    }

    /// Whether spinning is enabled now.
    pub fn is_enabled(&self) -> bool {
        self.checks.load(Relaxed) > 0
    }

    /// Spins until `is_ready`, and calls `pause` between two checks. If that takes long because other threads have the CPU, it
    /// counts as a failure: a sleeping thread would be scheduled before them.
    pub fn spin(&self, mut is_ready: impl FnMut() -> bool, pause: impl Fn()) {
        let checks = self.checks.load(Relaxed);
        let since = Instant::now();
        for _ in 0..checks {
            // Explored schedules have no clock.
            if !cfg!(shuttle) && since.elapsed() > SHORT {
                break;
            }
            if is_ready() {
                if checks < self.checks_max {
                    self.checks.store(self.checks_max, Relaxed);
                    self.retry.store(RETRY_MIN, Relaxed);
                }
                return;
            }
            pause();
        }
        if checks > 0 {
            self.checks.store(checks / 2, Relaxed);
        }
    }

    /// Notes the end of a sleep that began at `since`.
    pub fn note_sleep(&self, since: Instant) {
        if self.checks.load(Relaxed) > 0 || since.elapsed() > SHORT {
            return;
        }
        let left = self.until_retry.load(Relaxed);
        if left > 0 {
            self.until_retry.store(left - 1, Relaxed);
            return;
        }
        let retry = self.retry.load(Relaxed);
        self.retry.store((retry * 2).min(RETRY_MAX), Relaxed);
        self.until_retry.store(retry, Relaxed);
        self.checks.store(self.checks_max, Relaxed);
    }
}

/// Lets a moment pass on this CPU.
pub fn pause() {
    #[cfg(not(shuttle))]
    std::hint::spin_loop();
    #[cfg(shuttle)]
    crate::thread::yield_now();
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const CHECKS_MAX: u32 = 1000;

    #[test]
    #[cfg_attr(miri, ignore = "under Miri no wait is short")]
    fn what_is_of_no_use_is_given_up_and_tried_again() {
        let spin = AdaptiveSpin::new(CHECKS_MAX);
        for _ in 0..CHECKS_MAX.ilog2() + 1 {
            spin.spin(|| false, pause);
        }
        assert!(!spin.is_enabled());
        let long_ago = Instant::now()
            .checked_sub(2 * SHORT)
            .expect("the machine ran");
        for _ in 0..100 {
            spin.note_sleep(long_ago);
        }
        assert!(!spin.is_enabled(), "long waits");
        for _ in 0..=RETRY_MIN {
            spin.note_sleep(Instant::now() + SHORT);
        }
        assert_eq!(spin.checks.load(Relaxed), CHECKS_MAX);
    }

    #[test]
    #[cfg_attr(miri, ignore = "under Miri no wait is short")]
    fn what_was_of_use_is_kept() {
        let spin = AdaptiveSpin::new(CHECKS_MAX);
        spin.spin(|| false, pause);
        spin.spin(|| true, pause);
        assert_eq!(spin.checks.load(Relaxed), CHECKS_MAX);
    }

    #[test]
    fn none_is_never_found() {
        let spin = AdaptiveSpin::new(0);
        for _ in 0..1000 {
            spin.note_sleep(Instant::now() + SHORT);
        }
        assert!(!spin.is_enabled());
    }
}
