//! Looking for a moment before going to sleep.
//!
//! Whoever sleeps takes tens of microseconds to be woken on another CPU, which is many messages. So a
//! caller who finds the queue full, or empty, first looks for a while whether that changes, without the
//! lock and before he counts as one who waits: as if he had come that much later.
//!
//! # Invariants
//! How long he looks is learned from how it went: for as long as it has been of use, and for less each
//! time it was not, down to nothing, for then whoever he waits for may be waiting for this CPU. A wait
//! that was short after all is a reason to try again, the less often the more often that failed.
//!
//! # Locking
//! Atomics only, and what they hold is a guess: a lost update does no harm.

use std::time::{Duration, Instant};
use uext4_sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The most looks: about as long as going to sleep and being woken takes.
const LOOKS_MAX: u32 = if cfg!(shuttle) { 1 } else { 1000 };

/// A wait shorter than this would have been worth looking for.
const SHORT: Duration = Duration::from_micros(100);

/// Of so many short waits one is a reason to look again, at first.
const RETRY_MIN: u32 = 8;
const RETRY_MAX: u32 = 1 << 8;

/// How long it is worth looking, for the senders or the receivers of a queue.
#[derive(Debug)]
pub(crate) struct Patience {
    looks: AtomicU32,
    /// Short waits until the next try.
    until_retry: AtomicU32,
    /// Short waits between the last two.
    retry: AtomicU32,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            looks: AtomicU32::new(if has_other_cpus() { LOOKS_MAX } else { 0 }),
            until_retry: AtomicU32::new(RETRY_MIN),
            retry: AtomicU32::new(RETRY_MIN),
        }
    }
}

impl Patience {
    /// Looks for a while whether `is_ready`.
    pub fn look(&self, is_ready: impl Fn() -> bool) {
        let looks = self.looks.load(Relaxed);
        for _ in 0..looks {
            if is_ready() {
                if looks < LOOKS_MAX {
                    self.looks.store(LOOKS_MAX, Relaxed);
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
        if has_other_cpus() {
            self.looks.store(LOOKS_MAX, Relaxed);
        }
    }
}

fn pause() {
    #[cfg(not(shuttle))]
    std::hint::spin_loop();
    #[cfg(shuttle)]
    uext4_sync::thread::yield_now();
}

/// Whether somebody can change anything while this thread looks.
fn has_other_cpus() -> bool {
    uext4_sync::percpu::cpu_shards() > 1
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_no_use_is_given_up_and_tried_again() {
        let patience = Patience {
            looks: AtomicU32::new(LOOKS_MAX),
            ..Patience::default()
        };
        for _ in 0..LOOKS_MAX.ilog2() + 1 {
            patience.look(|| false);
        }
        assert_eq!(patience.looks.load(Relaxed), 0);
        let long_ago = Instant::now()
            .checked_sub(2 * SHORT)
            .expect("the machine ran");
        for _ in 0..100 {
            patience.slept(long_ago);
        }
        assert_eq!(patience.looks.load(Relaxed), 0, "long waits");
        if has_other_cpus() {
            for _ in 0..=RETRY_MIN {
                patience.slept(Instant::now() + SHORT);
            }
            assert_eq!(patience.looks.load(Relaxed), LOOKS_MAX);
        }
    }

    #[test]
    fn what_was_of_use_is_kept() {
        let patience = Patience {
            looks: AtomicU32::new(4),
            ..Patience::default()
        };
        patience.look(|| true);
        assert_eq!(patience.looks.load(Relaxed), LOOKS_MAX);
    }
}
