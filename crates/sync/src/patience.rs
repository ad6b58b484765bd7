//! Looking for a moment before going to sleep.
//!
//! Whoever sleeps takes tens of microseconds to be woken on another CPU, which is many messages, or requests. So a
//! caller who finds nothing to do first looks for a while whether that changes, without a lock and before he
//! counts as one who waits: as if he had come that much later.
//!
//! # Invariants
//! How long he looks is learned from how it went: for as long as it has been of use, and for less each
//! time it was not, down to nothing, for then whoever he waits for may be waiting for this CPU. A wait
//! that was short after all is a reason to try again, the less often the more often that failed.
//!
//! # Locking
//! Atomics only, and what they hold is a guess: a lost update does no harm.

use crate::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A wait shorter than this would have been worth looking for.
const SHORT: Duration = Duration::from_micros(100);

/// Of so many short waits one is a reason to look again, at first.
const RETRY_MIN: u32 = 8;
const RETRY_MAX: u32 = 1 << 8;

/// How long it is worth looking.
#[derive(Debug)]
pub struct Patience {
    /// About as many looks as going to sleep and being woken takes; immutable.
    looks_max: u32,
    looks: AtomicU32,
    /// Short waits until the next try.
    until_retry: AtomicU32,
    /// Short waits between the last two.
    retry: AtomicU32,
}

impl Patience {
    /// At most `looks_max` looks; 0 for none ever.
    pub fn new(looks_max: u32) -> Patience {
        Patience {
            looks_max,
            looks: AtomicU32::new(looks_max),
            until_retry: AtomicU32::new(RETRY_MIN),
            retry: AtomicU32::new(RETRY_MIN),
        }
    }

    /// Whether a look is worth it now.
    pub fn is_left(&self) -> bool {
        self.looks.load(Relaxed) > 0
    }

    /// Looks for a while whether `is_ready`; between two looks it calls `pause`. Where that takes long, as others have the
    /// CPU meanwhile, it was of no use: who sleeps is woken before them.
    pub fn look(&self, mut is_ready: impl FnMut() -> bool, pause: impl Fn()) {
        let looks = self.looks.load(Relaxed);
        let since = Instant::now();
        for _ in 0..looks {
            // Schedules that are explored know no time.
            if !cfg!(shuttle) && since.elapsed() > SHORT {
                break;
            }
            if is_ready() {
                if looks < self.looks_max {
                    self.looks.store(self.looks_max, Relaxed);
                    self.retry.store(RETRY_MIN, Relaxed);
                }
                return;
            }
            pause();
        }
        if looks > 0 {
            self.looks.store(looks / 2, Relaxed);
        }
    }

    /// Notes for how long somebody slept.
    pub fn slept(&self, since: Instant) {
        if self.looks.load(Relaxed) > 0 || since.elapsed() > SHORT {
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
        self.looks.store(self.looks_max, Relaxed);
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

    const LOOKS_MAX: u32 = 1000;

    #[test]
    fn what_is_of_no_use_is_given_up_and_tried_again() {
        let patience = Patience::new(LOOKS_MAX);
        for _ in 0..LOOKS_MAX.ilog2() + 1 {
            patience.look(|| false, pause);
        }
        assert!(!patience.is_left());
        let long_ago = Instant::now()
            .checked_sub(2 * SHORT)
            .expect("the machine ran");
        for _ in 0..100 {
            patience.slept(long_ago);
        }
        assert!(!patience.is_left(), "long waits");
        for _ in 0..=RETRY_MIN {
            patience.slept(Instant::now() + SHORT);
        }
        assert_eq!(patience.looks.load(Relaxed), LOOKS_MAX);
    }

    #[test]
    fn what_was_of_use_is_kept() {
        let patience = Patience::new(LOOKS_MAX);
        patience.look(|| false, pause);
        patience.look(|| true, pause);
        assert_eq!(patience.looks.load(Relaxed), LOOKS_MAX);
    }

    #[test]
    fn none_is_never_found() {
        let patience = Patience::new(0);
        for _ in 0..1000 {
            patience.slept(Instant::now() + SHORT);
        }
        assert!(!patience.is_left());
    }
}
