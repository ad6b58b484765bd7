//! A condition variable for [`crate::Mutex`].

use crate::imp;
use crate::mutex::MutexGuard;
use std::time::Duration;

/// Waits for a condition under a mutex.
#[derive(Debug, Default)]
pub struct Condvar {
    raw: imp::RawCondvar,
}

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Condvar {
        Condvar {
            raw: imp::RawCondvar::new(),
        }
    }

    /// Gives the lock back, sleeps until notified, and takes the lock again.
    ///
    /// # Locks
    /// Panics in debug builds when another lock of rank `group` or below is held.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.unlocked_while(|raw| (imp::wait(&self.raw, raw), ()));
    }

    /// As [`Condvar::wait`], for at most `timeout`; true when that passed.
    #[cfg(not(shuttle))]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        guard.unlocked_while(|raw| imp::wait_for(&self.raw, raw, timeout))
    }

    /// As [`Condvar::wait`]; now and then the time has passed when others have run for a while. So
    /// a thread that waits in a loop blocks in the end, and needs a notification to go on.
    #[cfg(shuttle)]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        let timed_out = imp::times_out();
        if timed_out {
            crate::clock::advance(timeout);
            guard.relock();
        } else {
            self.wait(guard);
        }
        timed_out
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.raw.notify_one();
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        self.raw.notify_all();
    }
}
