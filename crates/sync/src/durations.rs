//! How long something took each time: count, sum, maximum and a histogram.

use crate::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of buckets with an upper bound.
const BUCKETS: usize = 11;
/// Logarithm of the first bucket's upper bound in microseconds; each further bound is four times as long.
const FIRST_LOG2_US: u32 = 4;

/// The durations of one kind of work so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Number of durations.
    pub count: u64,
    /// Their sum.
    pub total: Duration,
    /// The longest.
    pub max: Duration,
    buckets: [u64; BUCKETS],
}

impl Durations {
    /// The histogram: upper bounds, from 16 us to 16.8 s, and the number of durations above the previous bound and
    /// not above this one. Longer durations are in no bucket.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let bound = |i: usize| Duration::from_micros(1 << (FIRST_LOG2_US as usize + 2 * i));
        let buckets = self.buckets.iter().enumerate();
        buckets.map(move |(i, n)| (bound(i), *n))
    }
}

/// Counts durations of work that is rare: each writes a cache line that all share.
#[derive(Debug, Default)]
pub struct DurationCounter {
    total_ns: AtomicU64,
    max_ns: AtomicU64,
    /// The last bucket has no bound.
    buckets: [AtomicU64; BUCKETS + 1],
}

impl DurationCounter {
    /// Counts one.
    pub fn add(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        // The least k with ns <= 2^k us.
        let log2_us = ns.div_ceil(1000).max(1).next_power_of_two().ilog2();
        let index = log2_us.saturating_sub(FIRST_LOG2_US).div_ceil(2) as usize;
        let [bounded @ .., longer] = &self.buckets;
        let bucket = bounded.get(index).unwrap_or(longer);
        bucket.fetch_add(1, Relaxed);
        self.total_ns.fetch_add(ns, Relaxed);
        self.max_ns.fetch_max(ns, Relaxed);
    }

    /// What was counted.
    pub fn snapshot(&self) -> Durations {
        let counts = self.buckets.each_ref().map(|n| n.load(Relaxed));
        let [buckets @ .., _] = counts;
        Durations {
            count: counts.iter().sum(),
            total: Duration::from_nanos(self.total_ns.load(Relaxed)),
            max: Duration::from_nanos(self.max_ns.load(Relaxed)),
            buckets,
        }
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_at_its_bound() {
        let counter = DurationCounter::default();
        for ns in [0, 16_000, 16_001, 64_000, 64_001, 16_777_216_000] {
            counter.add(Duration::from_nanos(ns));
        }
        counter.add(Duration::from_secs(17));
        let durations = counter.snapshot();
        assert_eq!((durations.count, durations.max.as_secs()), (7, 17));
        let buckets: Vec<_> = durations.buckets().filter(|(_, n)| *n > 0).collect();
        let us = Duration::from_micros;
        assert_eq!(
            buckets,
            [(us(16), 2), (us(64), 2), (us(256), 1), (us(1 << 24), 1)]
        );
    }
}
