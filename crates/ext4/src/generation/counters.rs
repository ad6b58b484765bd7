//! Counters of generations that threads share. Each gives one generation, or several in one step.
//!
//! # Invariants
//! - A [`Counter`] gives one value to one thread, until it wraps.
//!
//! # Locking
//! None but [`take_locked`]'s. The order of memory is relaxed: a generation says nothing of other memory.

use crate::prelude::*;
use std::array;

/// A counter that threads add to. It wraps.
#[derive(Debug)]
pub(super) struct Counter(AtomicU32);

impl Counter {
    /// A counter whose first generation is `start`, but for 0.
    pub(super) fn new(start: u32) -> Counter {
        Counter(AtomicU32::new(start))
    }

    /// The bits in `mask` of the next `N` values, `step` apart, in one addition; values of which one has none of
    /// these bits are skipped.
    #[inline]
    pub(super) fn take<const N: usize>(&self, step: u32, mask: u32) -> [u32; N] {
        loop {
            let first = self.0.fetch_add(step * N as u32, Relaxed);
            let values = array::from_fn(|i| first.wrapping_add(step * i as u32) & mask);
            if !values.contains(&0) {
                return values;
            }
        }
    }
}

/// As [`Counter::take`] by steps of 1, under a lock that is acquired once.
///
/// # Locks
/// Takes `counter`, a leaf.
#[inline]
pub(super) fn take_locked<const N: usize>(counter: &Mutex<u32>, mask: u32) -> [u32; N] {
    let mut next = counter.lock();
    loop {
        let values = array::from_fn(|_| {
            *next = next.wrapping_add(1);
            *next & mask
        });
        if !values.contains(&0) {
            return values;
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
