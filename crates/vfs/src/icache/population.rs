//! How many inodes are cached.

use uext4_sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};
use uext4_sync::{CachePadded, PerCpu};

/// A CPU adds so many to the number that all share at a time, at most.
const BATCH_MAX: isize = 64;

/// A count to which each CPU adds on a line of its own, and then to one that all share, many at a time.
pub(super) struct Population {
    /// What is not in `shared` yet. Only the sum of all means anything.
    cpus: PerCpu<Part>,
    shared: CachePadded<AtomicIsize>,
    batch: isize,
}

struct Part {
    count: AtomicIsize,
    /// Whether `shared` changed here since the caller last asked.
    added: AtomicBool,
}

impl Population {
    /// Of a cache that is limited to `capacity`, which [`Population::estimate`] is to meet within a sixteenth.
    pub(super) fn new(capacity: usize) -> Population {
        let cpus = PerCpu::new(|_| Part {
            count: AtomicIsize::new(0),
            added: AtomicBool::new(false),
        });
        let each = capacity / 16 / cpus.iter().count();
        Population {
            cpus,
            shared: CachePadded::new(AtomicIsize::new(0)),
            batch: isize::try_from(each)
                .unwrap_or(BATCH_MAX)
                .clamp(1, BATCH_MAX),
        }
    }

    #[inline(always)]
    pub(super) fn add(&self, change: isize) {
        let part = self.cpus.get();
        let count = part.count.fetch_add(change, Relaxed) + change;
        if count.abs() >= self.batch {
            let all = part.count.swap(0, Relaxed);
            self.shared.fetch_add(all, Relaxed);
            part.added.store(true, Relaxed);
        }
    }

    /// The count, exactly when nothing changes it meanwhile; accesses a line of every CPU.
    pub(super) fn exact(&self) -> usize {
        let parts: isize = self.cpus.iter().map(|part| part.count.load(Relaxed)).sum();
        usize::try_from(self.shared.load(Relaxed) + parts).unwrap_or(0)
    }

    /// The count without what CPUs have not added yet, if it changed on this CPU since this was last asked here.
    pub(super) fn estimate(&self) -> Option<usize> {
        let added = &self.cpus.get().added;
        if !added.load(Relaxed) {
            return None;
        }
        added.store(false, Relaxed);
        Some(usize::try_from(self.shared.load(Relaxed)).unwrap_or(0))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_small_cache_is_counted_one_by_one() {
        let population = Population::new(16);
        assert_eq!(population.estimate(), None);
        population.add(1);
        assert_eq!(population.estimate(), Some(1));
        assert_eq!(population.estimate(), None, "nothing changed");
        population.add(-1);
        assert_eq!((population.estimate(), population.exact()), (Some(0), 0));
    }

    #[test]
    fn a_large_cache_is_counted_in_batches() {
        let population = Population::new(1 << 20);
        for n in 1..=1000 {
            population.add(1);
            assert_eq!(population.exact(), n);
            if let Some(estimate) = population.estimate() {
                assert!(
                    estimate <= n && estimate + 2 * BATCH_MAX as usize > n,
                    "{estimate}, {n}"
                );
            }
        }
    }
}
