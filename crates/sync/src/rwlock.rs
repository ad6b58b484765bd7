//! A readers-writer lock with a class.

use crate::class::LockClass;
use crate::imp;
use crate::order;
use crate::stat::{self, Mode};
use std::ops::{Deref, DerefMut};

/// A readers-writer lock with a rank and statistics; no poisoning. What it protects follows its state.
#[derive(Debug)]
#[repr(C)]
pub struct RwLock<T> {
    class: &'static LockClass,
    raw: imp::RawRwLock<T>,
}

/// Holds a [`RwLock`] shared until dropped.
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T> {
    raw: imp::RawReadGuard<'a, T>,
    held: HeldRw,
}

/// Holds a [`RwLock`] alone until dropped.
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T> {
    raw: imp::RawWriteGuard<'a, T>,
    held: HeldRw,
}

/// The bookkeeping of one acquisition, undone when dropped.
#[derive(Debug)]
struct HeldRw {
    class: &'static LockClass,
    address: usize,
    mode: Mode,
    since_ns: u64,
}

impl HeldRw {
    #[inline(always)]
    fn new(class: &'static LockClass, address: usize, mode: Mode, key: u64, since_ns: u64) -> Self {
        order::acquired(class, key, address);
        imp::lock_accessed(address, class);
        HeldRw {
            class,
            address,
            mode,
            since_ns,
        }
    }
}

impl Drop for HeldRw {
    #[inline(always)]
    fn drop(&mut self) {
        imp::lock_accessed(self.address, self.class);
        if self.since_ns != 0 {
            self.class
                .stats
                .released(self.mode, stat::now_ns() - self.since_ns);
        }
        order::released(self.class, self.address);
    }
}

impl<T> RwLock<T> {
    /// An unlocked lock of `class`.
    pub const fn new(class: &'static LockClass, value: T) -> RwLock<T> {
        RwLock {
            class,
            raw: imp::RawRwLock::new(value),
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Takes the lock shared, waiting for it.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.read_keyed(0)
    }

    /// Takes the lock alone, waiting for it.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.write_keyed(0)
    }

    /// As [`RwLock::read`], as one of several of its rank; `key` must be larger than theirs.
    #[inline]
    pub fn read_keyed(&self, key: u64) -> RwLockReadGuard<'_, T> {
        order::before_wait(self.class, key);
        imp::lock_accessed(self.address(), self.class);
        let (raw, since_ns) = if stat::is_enabled() {
            counted(
                self.class,
                Mode::Shared,
                || imp::try_read(&self.raw),
                || imp::read(&self.raw),
            )
        } else {
            (imp::read(&self.raw), 0)
        };
        RwLockReadGuard {
            raw,
            held: HeldRw::new(self.class, self.address(), Mode::Shared, key, since_ns),
        }
    }

    /// As [`RwLock::write`], as one of several of its rank; `key` must be larger than theirs.
    #[inline]
    pub fn write_keyed(&self, key: u64) -> RwLockWriteGuard<'_, T> {
        order::before_wait(self.class, key);
        imp::lock_accessed(self.address(), self.class);
        let (raw, since_ns) = if stat::is_enabled() {
            counted(
                self.class,
                Mode::Exclusive,
                || imp::try_write(&self.raw),
                || imp::write(&self.raw),
            )
        } else {
            (imp::write(&self.raw), 0)
        };
        RwLockWriteGuard {
            raw,
            held: HeldRw::new(self.class, self.address(), Mode::Exclusive, key, since_ns),
        }
    }

    /// Takes the lock shared if that needs no waiting.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        imp::lock_accessed(self.address(), self.class);
        let raw = imp::try_read(&self.raw)?;
        Some(RwLockReadGuard {
            raw,
            held: self.tried(Mode::Shared),
        })
    }

    /// Takes the lock alone if that needs no waiting.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        imp::lock_accessed(self.address(), self.class);
        let raw = imp::try_write(&self.raw)?;
        Some(RwLockWriteGuard {
            raw,
            held: self.tried(Mode::Exclusive),
        })
    }

    fn tried(&self, mode: Mode) -> HeldRw {
        let mut since_ns = 0;
        if stat::is_enabled() {
            self.class.stats.acquired(mode, false, 0);
            since_ns = stat::now_ns();
        }
        HeldRw::new(self.class, self.address(), mode, u64::MAX, since_ns)
    }

    /// The value, when no other thread can have it.
    pub fn get_mut(&mut self) -> &mut T {
        #[cfg(not(shuttle))]
        return self.raw.get_mut();
        #[cfg(shuttle)]
        return self.raw.get_mut().unwrap_or_else(|e| e.into_inner());
    }
}

#[cold]
fn counted<G>(
    class: &'static LockClass,
    mode: Mode,
    fast: impl FnOnce() -> Option<G>,
    slow: impl FnOnce() -> G,
) -> (G, u64) {
    if let Some(raw) = fast() {
        class.stats.acquired(mode, false, 0);
        return (raw, stat::now_ns());
    }
    let start = stat::now_ns();
    let raw = slow();
    let now = stat::now_ns();
    class.stats.acquired(mode, true, now - start);
    (raw, now)
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        let _ = &self.held;
        &self.raw
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        let _ = &self.held;
        &self.raw
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.raw
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::class;

    #[test]
    fn shared_and_exclusive_exclude_each_other() {
        let lock = RwLock::new(&class::TEST_LEAF, 1);
        {
            let mut writer = lock.write();
            *writer = 2;
            assert!(lock.try_read().is_none());
        }
        let reader = lock.read();
        assert_eq!(*reader, 2);
        assert!(lock.try_read().is_some());
        assert!(lock.try_write().is_none());
    }
}
