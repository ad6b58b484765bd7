//! Counters of generations that threads share.
//!
//! # Invariants
//! - A [`Counter`] gives one value to one thread, until it wraps.
//! - A [`Slice`] gives only what it owns. When it runs out, one thread of those that see it starts it
//!   again at a new base; a base that another drew at the same time is dropped, and no value that the
//!   slice gave between two bases is given twice.
//!
//! # Locking
//! None but [`take_locked`]'s. The order of memory is relaxed: a generation says nothing of other memory.

use crate::prelude::*;

/// A counter that threads add to. It wraps.
#[derive(Debug)]
pub(super) struct Counter(AtomicU32);

impl Counter {
    /// A counter whose first generation is `start`, but for 0.
    pub(super) fn new(start: u32) -> Counter {
        Counter(AtomicU32::new(start))
    }

    /// The bits in `mask` of the next value that are not all clear; the one after is `step` further.
    #[inline]
    pub(super) fn take(&self, step: u32, mask: u32) -> u32 {
        loop {
            let value = self.0.fetch_add(step, Relaxed) & mask;
            if value != 0 {
                return value;
            }
        }
    }
}

/// A CPU's share of the generations, given in turn from a base to the end, then from another base.
#[derive(Debug)]
pub(super) struct Slice {
    /// The smallest generation of the slice.
    first: u32,
    /// Generations in it.
    len: u64,
    /// Generations from the first on to the next one; `len` or more when it has run out. It cannot wrap.
    next: AtomicU64,
}

impl Slice {
    /// The share of one CPU of `cpus`, a power of two, in generations of `bits` bits. `below` draws a
    /// number less than its argument.
    pub(super) fn new(cpu: usize, cpus: usize, bits: u32, below: impl FnOnce(u64) -> u64) -> Slice {
        let span = (1u64 << bits) / cpus as u64;
        // The first slice lacks the generation 0.
        let first = (cpu as u64 * span).max(1);
        let len = (cpu as u64 + 1) * span - first;
        Slice {
            first: first as u32,
            len,
            next: AtomicU64::new(below(len)),
        }
    }

    /// The next generation of the slice. `below` draws a number less than its argument.
    #[inline]
    pub(super) fn take(&self, below: impl FnMut(u64) -> u64) -> u32 {
        let at = self.next.fetch_add(1, Relaxed);
        let at = if at < self.len {
            at
        } else {
            self.take_anew(below)
        };
        self.first + at as u32
    }

    /// Starts a slice that ran out at a new base, unless another thread does.
    #[cold]
    fn take_anew(&self, mut below: impl FnMut(u64) -> u64) -> u64 {
        loop {
            let base = below(self.len);
            let anew = |next| (next >= self.len).then_some(base + 1);
            if self.next.fetch_update(Relaxed, Relaxed, anew).is_ok() {
                return base;
            }
            let at = self.next.fetch_add(1, Relaxed);
            if at < self.len {
                return at;
            }
        }
    }
}

/// As [`Counter::take`] by steps of 1, under a lock.
///
/// # Locks
/// Takes `counter`, a leaf.
#[inline]
pub(super) fn take_locked(counter: &Mutex<u32>, mask: u32) -> u32 {
    let mut next = counter.lock();
    loop {
        *next = next.wrapping_add(1);
        let value = *next & mask;
        if value != 0 {
            return value;
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
