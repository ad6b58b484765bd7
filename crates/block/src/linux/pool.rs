//! Things that calls check out and put back: rings, bounce buffers.
//!
//! # Invariants
//! A thing is with one caller or in the pool. There are never more than were out at the same moment.
//!
//! # Locking
//! One lock of class `device` per CPU, held to push or pop.

use uext4_sync::{Mutex, PerCpu, class};

/// Things to check out and put back, kept per CPU.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    free: PerCpu<Mutex<Vec<T>>>,
}

impl<T> Pool<T> {
    /// An empty pool.
    pub fn new() -> Pool<T> {
        Pool {
            free: PerCpu::new(|_| Mutex::new(&class::DEVICE, Vec::new())),
        }
    }

    /// An unused one, preferably of the caller's CPU: another's is dearer, but less so than a new one.
    pub fn take(&self) -> Option<T> {
        let own = self.free.get().lock().pop();
        own.or_else(|| self.free.iter().find_map(|free| free.lock().pop()))
    }

    /// Puts one back, or a new one in.
    pub fn put(&self, thing: T) {
        self.free.get().lock().push(thing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_back_is_taken_again() {
        let pool = Pool::new();
        assert!(pool.take().is_none());
        pool.put(1);
        pool.put(2);
        assert_eq!(pool.take().zip(pool.take()).map(|(a, b)| a + b), Some(3));
        assert!(pool.take().is_none());
    }
}
