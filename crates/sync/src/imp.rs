//! The primitives underneath: parking_lot's, or Shuttle's under `--cfg shuttle`. Under `--cfg loom`
//! atomics are loom's, and all else is what it is. With Shuttle and virtual CPUs, atomics count how their lines move.

#[cfg(not(shuttle))]
mod real {
    pub use parking_lot::{
        Condvar as RawCondvar, Mutex as RawMutex, MutexGuard as RawMutexGuard, RwLock as RawRwLock,
        RwLockReadGuard as RawReadGuard, RwLockWriteGuard as RawWriteGuard,
    };
    pub use std::{thread, thread_local};

    /// What locks are made of, under loom too.
    pub use std::sync::atomic as lock_atomic;

    #[cfg(loom)]
    pub use loom::sync::atomic;
    #[cfg(not(loom))]
    pub use std::sync::atomic;

    pub fn lock<T: ?Sized>(m: &RawMutex<T>) -> RawMutexGuard<'_, T> {
        m.lock()
    }
    pub fn try_lock<T: ?Sized>(m: &RawMutex<T>) -> Option<RawMutexGuard<'_, T>> {
        m.try_lock()
    }
    pub fn read<T: ?Sized>(l: &RawRwLock<T>) -> RawReadGuard<'_, T> {
        l.read()
    }
    pub fn write<T: ?Sized>(l: &RawRwLock<T>) -> RawWriteGuard<'_, T> {
        l.write()
    }
    pub fn try_read<T: ?Sized>(l: &RawRwLock<T>) -> Option<RawReadGuard<'_, T>> {
        l.try_read()
    }
    pub fn try_write<T: ?Sized>(l: &RawRwLock<T>) -> Option<RawWriteGuard<'_, T>> {
        l.try_write()
    }
    pub fn wait<'a, T>(c: &RawCondvar, mut g: RawMutexGuard<'a, T>) -> RawMutexGuard<'a, T> {
        c.wait(&mut g);
        g
    }
    pub fn wait_for<'a, T>(
        c: &RawCondvar,
        mut g: RawMutexGuard<'a, T>,
        timeout: std::time::Duration,
    ) -> (RawMutexGuard<'a, T>, bool) {
        let timed_out = c.wait_for(&mut g, timeout).timed_out();
        (g, timed_out)
    }
}

#[cfg(shuttle)]
mod real {
    pub use shuttle::sync::{
        Condvar as RawCondvar, Mutex as RawMutex, MutexGuard as RawMutexGuard, RwLock as RawRwLock,
        RwLockReadGuard as RawReadGuard, RwLockWriteGuard as RawWriteGuard,
    };
    pub use shuttle::{thread, thread_local};

    #[cfg(virtual_cpus)]
    pub use crate::counted_atomic as atomic;
    #[cfg(not(virtual_cpus))]
    pub use shuttle::sync::atomic;

    /// What locks are made of.
    pub use atomic as lock_atomic;

    pub fn lock<T>(m: &RawMutex<T>) -> RawMutexGuard<'_, T> {
        m.lock().unwrap_or_else(|e| e.into_inner())
    }
    pub fn try_lock<T>(m: &RawMutex<T>) -> Option<RawMutexGuard<'_, T>> {
        m.try_lock().ok()
    }
    pub fn read<T>(l: &RawRwLock<T>) -> RawReadGuard<'_, T> {
        l.read().unwrap_or_else(|e| e.into_inner())
    }
    pub fn write<T>(l: &RawRwLock<T>) -> RawWriteGuard<'_, T> {
        l.write().unwrap_or_else(|e| e.into_inner())
    }
    pub fn try_read<T>(l: &RawRwLock<T>) -> Option<RawReadGuard<'_, T>> {
        l.try_read().ok()
    }
    pub fn try_write<T>(l: &RawRwLock<T>) -> Option<RawWriteGuard<'_, T>> {
        l.try_write().ok()
    }
    pub fn wait<'a, T>(c: &RawCondvar, g: RawMutexGuard<'a, T>) -> RawMutexGuard<'a, T> {
        c.wait(g).unwrap_or_else(|e| e.into_inner())
    }
    /// Whether a timed wait ends by its time: Shuttle has none, so one wait in four does.
    pub fn times_out() -> bool {
        shuttle::rand::RngCore::next_u32(&mut shuttle::rand::thread_rng()).is_multiple_of(4)
    }
}

pub use real::*;

/// A lock's line is accessed: the lock is tried, was taken or is released. Counted where lines are, and nothing elsewhere.
#[inline(always)]
pub fn lock_accessed(_address: usize, _class: &crate::LockClass) {
    #[cfg(all(shuttle, virtual_cpus))]
    crate::transfers::lock(_address, _class);
}
