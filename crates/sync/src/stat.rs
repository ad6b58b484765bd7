//! Lock statistics: what each class of locks cost.
//!
//! Each CPU has counters of its own. They are for the whole process; [`reset`] before and [`snapshot`]
//! after the work to be measured.

use crate::class::LockClass;
pub(crate) use crate::counters::now_ns;
pub use crate::counters::{Mode, enable, is_enabled};
use std::sync::atomic::Ordering::Relaxed;

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

/// Sets every counter to zero, those of [`crate::probe`] too.
pub fn reset() {
    for class in crate::class::all() {
        class.stats.reset();
    }
    crate::probe::reset();
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
