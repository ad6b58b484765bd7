//! `percpu-range`: the generations divided between CPUs, all from one random base on.
//!
//! # Data model
//! There are 2^bits generations and C CPUs, so that a range has L = 2^bits / C. CPU k gives the generations from
//! `base + k L` to `base + (k + 1) L - 1`, modulo 2^bits, in turn. When one CPU has given all of its range, one new base is
//! drawn, and every CPU begins its range of that base.
//!
//! A base has an epoch, and the count of a CPU has the epoch to which it belongs: a CPU whose count has another epoch than
//! the base gave nothing of this base yet.
//!
//! # Invariants
//! - No generation is given twice of one base.
//! - A base is replaced only when a CPU has fewer generations left in its range than a draw wants. Of several threads that draw a new one, one installs it.
//! - A count gets the epoch of a base that was loaded after the count was, and only if the count has not changed since. So
//!   it never gets the epoch of a base that was replaced before its own.
//!
//! Epochs wrap after 2^24 bases. A count that is left from an epoch with the same number continues where it was, in a range of
//! which this CPU gave nothing: generations are skipped and none is repeated. Only a thread that stops between two instructions
//! for 2^24 bases could set an older epoch.
//!
//! # Locking
//! None. An epoch is stored with release and loaded with acquire: a thread that sees a count of an epoch loads the
//! base of that epoch or a later one. Nothing else depends on the order of memory.

use crate::prelude::*;
use std::array;
use uext4_sync::atomic::Ordering::{Acquire, Release};

/// The epochs there are.
const EPOCH_MASK: u64 = (1 << 24) - 1;
/// The bits of a count: a range has up to 2^32 generations, and every thread that finds it used up adds to it.
const COUNT_BITS: u32 = 40;

/// A base and its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Base(u64);

impl Base {
    fn new(epoch: u64, base: u32) -> Base {
        Base((epoch & EPOCH_MASK) << 32 | u64::from(base))
    }

    fn epoch(self) -> u64 {
        self.0 >> 32
    }

    fn base(self) -> u32 {
        self.0 as u32
    }
}

/// How many generations of its range a CPU gave, and of which epoch's base.
#[derive(Clone, Copy, Debug)]
struct Given(u64);

impl Given {
    fn new(epoch: u64, count: u64) -> Given {
        Given(epoch << COUNT_BITS | count)
    }

    fn epoch(self) -> u64 {
        self.0 >> COUNT_BITS
    }

    fn count(self) -> u64 {
        self.0 & ((1 << COUNT_BITS) - 1)
    }
}

/// What all CPUs share: it is written only when a range is used up.
#[derive(Debug)]
pub(super) struct Bases {
    current: AtomicU64,
    /// Generations of a range; immutable.
    len: u64,
    /// The bits that generations have; immutable.
    mask: u32,
}

impl Bases {
    /// Ranges of `cpus`, a power of two, in generations with the bits in `mask`, from `base` on.
    pub(super) fn new(cpus: usize, mask: u32, base: u32) -> Bases {
        Bases {
            current: AtomicU64::new(Base::new(0, base).0),
            len: (u64::from(mask) + 1) / cpus as u64,
            mask,
        }
    }

    fn load(&self) -> Base {
        Base(self.current.load(Relaxed))
    }

    /// Replaces `old` unless another thread did.
    fn replace(&self, old: Base, base: u32) {
        let new = Base::new(old.epoch() + 1, base);
        let _ = self
            .current
            .compare_exchange(old.0, new.0, Relaxed, Relaxed);
    }
}

/// A CPU's part of it.
#[derive(Debug)]
pub(super) struct CpuRange {
    /// Where the range begins, counted from the base; immutable.
    offset: u32,
    given: AtomicU64,
}

impl CpuRange {
    pub(super) fn new(cpu: usize, bases: &Bases) -> CpuRange {
        CpuRange {
            offset: (cpu as u64 * bases.len) as u32,
            given: AtomicU64::new(Given::new(0, 0).0),
        }
    }

    /// The next `N` generations of this range, at most as many as it has; those of which one is 0 are skipped. `draw`
    /// draws a base.
    #[inline]
    pub(super) fn take<const N: usize>(
        &self,
        bases: &Bases,
        mut draw: impl FnMut() -> u32,
    ) -> [u32; N] {
        loop {
            let (base, count) = self.claim(bases, N as u64, &mut draw);
            let first = base.base().wrapping_add(self.offset).wrapping_add(count);
            let values = array::from_fn(|i| first.wrapping_add(i as u32) & bases.mask);
            if !values.contains(&0) {
                return values;
            }
        }
    }

    /// Claims `n` places in a row; the first of them, and the base that they belong to.
    #[inline]
    fn claim(&self, bases: &Bases, n: u64, draw: impl FnMut() -> u32) -> (Base, u32) {
        let base = bases.load();
        let given = Given(self.given.fetch_add(n, Acquire));
        if given.epoch() == base.epoch() && given.count() + n <= bases.len {
            return (base, given.count() as u32);
        }
        self.claim_late(bases, n, given, draw)
    }

    /// The same when `given` was found of another epoch, or used up.
    #[cold]
    fn claim_late(
        &self,
        bases: &Bases,
        n: u64,
        given: Given,
        mut draw: impl FnMut() -> u32,
    ) -> (Base, u32) {
        // Another thread may have replaced the base after it was loaded and before the count was.
        let base = bases.load();
        if given.epoch() == base.epoch() && given.count() + n <= bases.len {
            return (base, given.count() as u32);
        }
        loop {
            let given = Given(self.given.load(Acquire));
            let base = bases.load();
            let count = match given.epoch() == base.epoch() {
                true => given.count(),
                false => 0,
            };
            if count + n > bases.len {
                bases.replace(base, draw() & bases.mask);
                continue;
            }
            let claimed = Given::new(base.epoch(), count + n);
            let done = self
                .given
                .compare_exchange(given.0, claimed.0, Release, Relaxed);
            if done.is_ok() {
                return (base, count as u32);
            }
        }
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
