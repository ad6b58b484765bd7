//! A mutex with a class.

use crate::class::LockClass;
use crate::imp;
use crate::order;
use crate::stat::{self, Mode};
use std::ops::{Deref, DerefMut};

/// A mutual exclusion lock with a rank and statistics; no poisoning.
#[derive(Debug)]
pub struct Mutex<T> {
    class: &'static LockClass,
    raw: imp::RawMutex<T>,
}

/// Holds a [`Mutex`] until dropped.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    lock: &'a Mutex<T>,
    /// None only while a condition variable has the lock.
    raw: Option<imp::RawMutexGuard<'a, T>>,
    /// When it was taken; 0 when statistics were off then.
    since_ns: u64,
}

impl<T> Mutex<T> {
    /// An unlocked mutex of `class`.
    pub const fn new(class: &'static LockClass, value: T) -> Mutex<T> {
        Mutex {
            class,
            raw: imp::RawMutex::new(value),
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Takes the lock, waiting for it.
    ///
    /// # Locks
    /// Panics in debug builds when the lock order forbids it here.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.lock_keyed(0)
    }

    /// Takes the lock as one of several of its rank; `key` must be larger than theirs.
    #[inline]
    pub fn lock_keyed(&self, key: u64) -> MutexGuard<'_, T> {
        self.lock_by(key, || self.wait())
    }

    /// Takes the lock, trying `tries` times, `pauses` apart, before it sleeps for it: for a lock that is
    /// held for less time than going to sleep takes.
    ///
    /// # Locks
    /// As [`Mutex::lock`].
    #[inline]
    pub fn lock_trying(&self, tries: u32, pauses: u32) -> MutexGuard<'_, T> {
        self.lock_by(0, || {
            for _ in 0..tries {
                if let Some(raw) = self.try_now() {
                    return raw;
                }
                (0..pauses).for_each(|_| std::hint::spin_loop());
            }
            self.wait()
        })
    }

    #[inline(always)]
    fn wait(&self) -> imp::RawMutexGuard<'_, T> {
        #[cfg(not(all(shuttle, virtual_cpus)))]
        return imp::lock(&self.raw);
        #[cfg(all(shuttle, virtual_cpus))]
        return crate::transfers::in_turn(self.address(), || imp::try_lock(&self.raw));
    }

    /// The lock, if that needs no waiting.
    #[inline(always)]
    fn try_now(&self) -> Option<imp::RawMutexGuard<'_, T>> {
        #[cfg(all(shuttle, virtual_cpus))]
        if crate::transfers::has_queue(self.address()) {
            return None;
        }
        imp::try_lock(&self.raw)
    }

    /// Takes the lock as `take` does.
    #[inline(always)]
    fn lock_by<'a>(
        &'a self,
        key: u64,
        take: impl FnOnce() -> imp::RawMutexGuard<'a, T>,
    ) -> MutexGuard<'a, T> {
        order::before_wait(self.class, key);
        imp::lock_accessed(self.address(), self.class);
        let (raw, since_ns) = if stat::is_enabled() {
            self.lock_counted(take)
        } else {
            (take(), 0)
        };
        order::acquired(self.class, key, self.address());
        imp::lock_accessed(self.address(), self.class);
        MutexGuard {
            lock: self,
            raw: Some(raw),
            since_ns,
        }
    }

    #[cold]
    fn lock_counted<'a>(
        &'a self,
        wait: impl FnOnce() -> imp::RawMutexGuard<'a, T>,
    ) -> (imp::RawMutexGuard<'a, T>, u64) {
        if let Some(raw) = self.try_now() {
            self.class.stats.acquired(Mode::Exclusive, false, 0);
            return (raw, stat::now_ns());
        }
        let start = stat::now_ns();
        let raw = wait();
        let now = stat::now_ns();
        self.class
            .stats
            .acquired(Mode::Exclusive, true, now - start);
        (raw, now)
    }

    /// Takes the lock if it is free. Never waits, so the lock order does not apply.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        imp::lock_accessed(self.address(), self.class);
        let raw = imp::try_lock(&self.raw)?;
        let mut since_ns = 0;
        if stat::is_enabled() {
            self.class.stats.acquired(Mode::Exclusive, false, 0);
            since_ns = stat::now_ns();
        }
        order::acquired(self.class, u64::MAX, self.address());
        Some(MutexGuard {
            lock: self,
            raw: Some(raw),
            since_ns,
        })
    }

    /// The value, when no other thread can have it.
    pub fn into_inner(self) -> T {
        #[cfg(not(shuttle))]
        return self.raw.into_inner();
        #[cfg(shuttle)]
        return self.raw.into_inner().unwrap_or_else(|e| e.into_inner());
    }
}

impl<'a, T> MutexGuard<'a, T> {
    #[inline(always)]
    fn release_bookkeeping(&mut self) {
        imp::lock_accessed(self.lock.address(), self.lock.class);
        if self.since_ns != 0 {
            let held = stat::now_ns() - self.since_ns;
            self.lock.class.stats.released(Mode::Exclusive, held);
            self.since_ns = 0;
        }
        order::released(self.lock.class, self.lock.address());
    }

    /// Gives the raw guard to `wait` and takes it back; for [`crate::Condvar`].
    pub(crate) fn unlocked_while<R>(
        &mut self,
        wait: impl FnOnce(imp::RawMutexGuard<'a, T>) -> (imp::RawMutexGuard<'a, T>, R),
    ) -> R {
        self.release_bookkeeping();
        order::assert_may_block("waiting on a condition variable");
        let Some(raw) = self.raw.take() else {
            unreachable!("a guard in use holds its lock")
        };
        let (raw, result) = wait(raw);
        self.raw = Some(raw);
        if stat::is_enabled() {
            self.since_ns = stat::now_ns();
        }
        order::acquired(self.lock.class, 0, self.lock.address());
        result
    }

    /// Releases the lock, yields, and takes it again: a wait without a notification.
    #[cfg(shuttle)]
    pub(crate) fn relock(&mut self) {
        let lock = self.lock;
        self.unlocked_while(|raw| {
            drop(raw);
            imp::thread::yield_now();
            (imp::lock(&lock.raw), ())
        });
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        match &self.raw {
            Some(raw) => raw,
            None => unreachable!("a guard in use holds its lock"),
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.raw {
            Some(raw) => raw,
            None => unreachable!("a guard in use holds its lock"),
        }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.release_bookkeeping();
    }
}
