//! The primitives underneath: parking_lot's, or Shuttle's under `--cfg shuttle`.

#[cfg(not(shuttle))]
mod real {
    pub use parking_lot::{
        Condvar as RawCondvar, Mutex as RawMutex, MutexGuard as RawMutexGuard, RwLock as RawRwLock,
        RwLockReadGuard as RawReadGuard, RwLockWriteGuard as RawWriteGuard,
    };
    pub use std::sync::atomic;
    pub use std::thread;

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
        RwLockReadGuard as RawReadGuard, RwLockWriteGuard as RawWriteGuard, atomic,
    };
    pub use shuttle::thread;

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
    /// Shuttle has no time: the wait ends when notified, or at once as if timed out.
    pub fn wait_for<'a, T>(
        _c: &RawCondvar,
        g: RawMutexGuard<'a, T>,
        _timeout: std::time::Duration,
    ) -> (RawMutexGuard<'a, T>, bool) {
        (g, true)
    }
}

pub use real::*;
