//! Lock statistics: what each class of locks cost.
//!
//! Counters are sharded by CPU. They are for the whole process; [`reset`] before and [`snapshot`]
//! after the work to be measured.

use crate::class::LockClass;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

static ENABLED: AtomicBool = AtomicBool::new(false);
const SHARDS: usize = 8;

/// How a lock was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Shared with other readers.
    Shared,
    /// Alone.
    Exclusive,
}

#[derive(Debug)]
struct Counters {
    acquisitions: AtomicU64,
    contended: AtomicU64,
    wait_ns: AtomicU64,
    hold_ns: AtomicU64,
}

impl Counters {
    const fn new() -> Counters {
        Counters {
            acquisitions: AtomicU64::new(0),
            contended: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
            hold_ns: AtomicU64::new(0),
        }
    }
}

/// The counters of one class, both modes, per CPU shard.
#[derive(Debug)]
pub struct ClassStats {
    shards: [CachePadded<[Counters; 2]>; SHARDS],
}

impl ClassStats {
    pub(crate) const fn new() -> ClassStats {
        ClassStats {
            shards: [const { CachePadded::new([Counters::new(), Counters::new()]) }; SHARDS],
        }
    }

    fn cell(&self, mode: Mode) -> &Counters {
        &self.shards[crate::percpu::cpu() % SHARDS][mode as usize]
    }

    pub(crate) fn acquired(&self, mode: Mode, contended: bool, wait_ns: u64) {
        let c = self.cell(mode);
        c.acquisitions.fetch_add(1, Relaxed);
        if contended {
            c.contended.fetch_add(1, Relaxed);
            c.wait_ns.fetch_add(wait_ns, Relaxed);
        }
    }

    pub(crate) fn released(&self, mode: Mode, hold_ns: u64) {
        self.cell(mode).hold_ns.fetch_add(hold_ns, Relaxed);
    }

    fn sum(&self, mode: Mode) -> (u64, u64, u64, u64) {
        self.shards.iter().fold((0, 0, 0, 0), |s, shard| {
            let c = &shard[mode as usize];
            (
                s.0 + c.acquisitions.load(Relaxed),
                s.1 + c.contended.load(Relaxed),
                s.2 + c.wait_ns.load(Relaxed),
                s.3 + c.hold_ns.load(Relaxed),
            )
        })
    }

    fn reset(&self) {
        for shard in &self.shards {
            for c in shard.iter() {
                c.acquisitions.store(0, Relaxed);
                c.contended.store(0, Relaxed);
                c.wait_ns.store(0, Relaxed);
                c.hold_ns.store(0, Relaxed);
            }
        }
    }
}

/// One line of the lock table: a class in one mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockStat {
    /// The class's name.
    pub class: &'static str,
    /// Shared or exclusive.
    pub mode: Mode,
    /// How often it was taken, compare-exchange rounds included.
    pub acquisitions: u64,
    /// How often the first try failed.
    pub contended: u64,
    /// Total time spent waiting, in nanoseconds.
    pub wait_ns: u64,
    /// Total time held, in nanoseconds.
    pub hold_ns: u64,
}

impl LockStat {
    /// Average waiting time of a contended acquisition, in nanoseconds.
    pub fn wait_avg_ns(&self) -> u64 {
        self.wait_ns / self.contended.max(1)
    }

    /// Average time held, in nanoseconds.
    pub fn hold_avg_ns(&self) -> u64 {
        self.hold_ns / self.acquisitions.max(1)
    }
}

/// Starts (or stops) counting.
pub fn enable(on: bool) {
    ENABLED.store(on, Relaxed);
}

/// Whether locks are counted.
#[inline(always)]
pub fn is_enabled() -> bool {
    ENABLED.load(Relaxed)
}

/// Sets every counter to zero, those of [`crate::stage`] too.
pub fn reset() {
    for class in crate::class::all() {
        class.stats.reset();
    }
    crate::stage::reset();
}

/// Every class and mode that was used, the longest waiting time first.
pub fn snapshot() -> Vec<LockStat> {
    let mut rows = Vec::new();
    for class in crate::class::all() {
        for mode in [Mode::Shared, Mode::Exclusive] {
            let (acquisitions, contended, wait_ns, hold_ns) = class.stats.sum(mode);
            if acquisitions > 0 {
                rows.push(LockStat {
                    class: class.name,
                    mode,
                    acquisitions,
                    contended,
                    wait_ns,
                    hold_ns,
                });
            }
        }
    }
    rows.sort_by_key(|r| std::cmp::Reverse((r.wait_ns, r.acquisitions)));
    rows
}

/// Counts one lock-free claim of `class`, with the compare-exchange rounds that failed.
#[inline(always)]
pub fn count_atomic(class: &'static LockClass, retries: u64) {
    if is_enabled() {
        count_atomic_slow(class, retries);
    }
}

#[cold]
fn count_atomic_slow(class: &'static LockClass, retries: u64) {
    let c = class.stats.cell(Mode::Exclusive);
    c.acquisitions.fetch_add(1 + retries, Relaxed);
    c.contended.fetch_add(retries, Relaxed);
}

pub(crate) fn now_ns() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::{Mutex, class};

    #[test]
    fn counts_when_enabled() {
        let m = Mutex::new(&class::TEST_LEAF, 0);
        enable(true);
        let before = class::TEST_LEAF.stats.sum(Mode::Exclusive).0;
        *m.lock() += 1;
        *m.lock() += 1;
        assert!(class::TEST_LEAF.stats.sum(Mode::Exclusive).0 >= before + 2);
        enable(false);
        assert!(snapshot().iter().any(|r| r.class == "test_leaf"
            && r.acquisitions >= 2
            && r.wait_avg_ns() <= r.wait_ns
            && r.hold_avg_ns() <= r.hold_ns));
    }
}
