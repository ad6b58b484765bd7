//! A count that many CPUs change and few need exactly.

use crate::atomic::{
    AtomicBool, AtomicIsize, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use crate::{CachePadded, PerCpu};

/// A count to which each CPU adds on a line of its own, and then to one that all share, many at a time.
#[derive(Debug)]
pub struct BatchedCount {
    /// What is not in `shared` yet. Only the sum of all means anything.
    cpus: PerCpu<Part>,
    shared: CachePadded<Shared>,
    batch: isize,
}

#[derive(Debug)]
struct Shared {
    count: AtomicIsize,
    /// Moves from a part to `count` that began, and that ended: meanwhile what is moved is in neither or in both.
    begun: AtomicUsize,
    ended: AtomicUsize,
}

/// So often a sum is taken again because something was moved meanwhile.
const SUMS_MAX: usize = 1000;

#[derive(Debug)]
struct Part {
    count: AtomicIsize,
    /// Whether `shared` changed here since the caller last asked.
    added: AtomicBool,
}

impl BatchedCount {
    /// One that starts at `count`. Its estimate is to differ by at most `error_max` while nothing changes it, and a CPU adds
    /// `batch_max` (at least 1) to the number that all share at a time, or one change if that is more.
    pub fn new(count: isize, error_max: usize, batch_max: usize) -> BatchedCount {
        let cpus = PerCpu::new(|_| Part {
            count: AtomicIsize::new(0),
            added: AtomicBool::new(false),
        });
        let each = error_max / cpus.iter().count();
        BatchedCount {
            cpus,
            shared: CachePadded::new(Shared {
                count: AtomicIsize::new(count),
                begun: AtomicUsize::new(0),
                ended: AtomicUsize::new(0),
            }),
            batch: each.clamp(1, batch_max).cast_signed(),
        }
    }

    /// Changes the count.
    #[inline(always)]
    pub fn add(&self, change: isize) {
        let part = self.cpus.get();
        let count = part.count.fetch_add(change, Relaxed) + change;
        if count.abs() >= self.batch {
            self.shared.begun.fetch_add(1, SeqCst);
            let all = part.count.swap(0, SeqCst);
            self.shared.count.fetch_add(all, SeqCst);
            self.shared.ended.fetch_add(1, SeqCst);
            part.added.store(true, Relaxed);
        }
    }

    /// The count, off by what CPUs move meanwhile, a batch of each at most, in either direction: it may be negative. Accesses a
    /// line of every CPU.
    pub fn sum(&self) -> isize {
        let parts: isize = self.cpus.iter().map(|part| part.count.load(SeqCst)).sum();
        self.shared.count.load(SeqCst) + parts
    }

    /// The count, but for changes made during the call: takes sums until nothing was moved beside one. After 1,000 it gives
    /// the last, which can be off as [`BatchedCount::sum`] is.
    pub fn exact(&self) -> isize {
        let mut tries = 0;
        loop {
            let ended = self.shared.ended.load(SeqCst);
            let begun = self.shared.begun.load(SeqCst);
            let count = self.sum();
            let was_moved = begun != ended || self.shared.begun.load(SeqCst) != begun;
            tries += 1;
            if !was_moved || tries == SUMS_MAX {
                return count;
            }
            crate::thread::yield_now();
        }
    }

    /// The count without what CPUs have not added yet; `None` if this CPU added nothing to the shared count since its last call
    /// of this, whatever others added.
    pub fn estimate(&self) -> Option<isize> {
        let added = &self.cpus.get().added;
        if !added.load(Relaxed) {
            return None;
        }
        added.store(false, Relaxed);
        Some(self.shared.count.load(Relaxed))
    }

    /// Whether the count is above `limit`, but for what changes it meanwhile. Accesses a line of every CPU only
    /// where the estimate is near the limit.
    pub fn is_above(&self, limit: isize) -> bool {
        let error_max = self
            .batch
            .saturating_mul(self.cpus.iter().count().cast_signed());
        let shared = self.shared.count.load(Relaxed);
        match shared {
            _ if shared > limit.saturating_add(error_max) => true,
            _ if shared <= limit.saturating_sub(error_max) => false,
            _ => self.exact() > limit,
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_small_count_is_kept_one_by_one() {
        let count = BatchedCount::new(0, 1, 64);
        assert_eq!(count.estimate(), None);
        count.add(1);
        assert_eq!(count.estimate(), Some(1));
        assert_eq!(count.estimate(), None, "nothing changed");
        count.add(-1);
        assert_eq!((count.estimate(), count.exact()), (Some(0), 0));
    }

    #[test]
    fn a_large_count_is_kept_in_batches() {
        let count = BatchedCount::new(0, 1 << 16, 64);
        for n in 1..=1000 {
            count.add(1);
            assert_eq!(count.exact(), n);
            if let Some(estimate) = count.estimate() {
                assert!(estimate <= n && estimate + 128 > n, "{estimate}, {n}");
            }
        }
    }

    /// What is moved while others sum is neither missed nor counted twice.
    #[test]
    fn an_exact_count_misses_no_move() {
        let count = BatchedCount::new(1000, 1 << 16, 64);
        let ended = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let changers: Vec<_> = [1, -1]
                .into_iter()
                .map(|one| {
                    let count = &count;
                    scope.spawn(move || {
                        for _ in 0..if cfg!(miri) { 1000 } else { 200_000 } {
                            count.add(-one);
                            count.add(one);
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !ended.load(SeqCst) {
                    let sum = count.exact();
                    assert!((900..1100).contains(&sum), "{sum}");
                }
            });
            for changer in changers {
                changer.join().expect("it ends");
            }
            ended.store(true, SeqCst);
        });
        assert_eq!(count.exact(), 1000);
    }

    /// Near the limit as far from it.
    #[test]
    fn a_count_is_compared_exactly() {
        let count = BatchedCount::new(10_000, 1 << 16, 64);
        for n in (0..10_000).rev() {
            count.add(-1);
            for limit in [n - 1, n, n + 1, 5_000] {
                assert_eq!(count.is_above(limit), n > limit, "{n}, {limit}");
            }
        }
    }
}
