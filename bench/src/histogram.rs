//! Latencies, counted in buckets that are at most 1.6 % wide.

use serde::{Deserialize, Serialize};

/// Values below this have a bucket each.
const LINEAR: u64 = 64;
/// Buckets for each power of two above that.
const STEPS: usize = 64;

/// How often each latency occurred, in nanoseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max_ns: u64,
}

/// The percentiles that results carry, in microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LatencyUs {
    /// Of ten, one is at most this.
    pub p10: f64,
    /// Half are at most this.
    pub p50: f64,
    /// Of ten, 9 are at most this.
    pub p90: f64,
    /// Of a hundred, 99 are at most this.
    pub p99: f64,
    /// Of a thousand, 999 are at most this.
    pub p999: f64,
    /// Of ten thousand, 9,999 are at most this.
    pub p9999: f64,
    /// The longest.
    pub max: f64,
}

fn bucket_of(ns: u64) -> usize {
    if ns < LINEAR {
        return ns as usize;
    }
    let power = ns.ilog2();
    let step = (ns >> (power - LINEAR.ilog2())) - LINEAR;
    (power - LINEAR.ilog2() + 1) as usize * STEPS + step as usize
}

/// The middle of a bucket.
fn value_of(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let shift = bucket / STEPS - 1;
    let low = (LINEAR + (bucket % STEPS) as u64) << shift;
    low + (1 << shift) / 2
}

impl Histogram {
    /// Counts one.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        let bucket = bucket_of(ns);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + STEPS, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// Counts everything that `other` counted.
    pub fn add(&mut self, other: &Histogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub fn count(&self) -> u64 {
        self.total
    }

    /// What `share` (0 to 1) of them do not exceed, in nanoseconds.
    pub fn percentile_ns(&self, share: f64) -> u64 {
        let wanted = (self.total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return value_of(bucket).min(self.max_ns);
            }
        }
        self.max_ns
    }

    /// `n` values that are spread as all of them are, ascending, in nanoseconds; none of nothing.
    pub fn spread_ns(&self, n: usize) -> Vec<u64> {
        let share = |i: usize| (i as f64 + 0.5) / n as f64;
        let n = if self.total > 0 { n } else { 0 };
        (0..n).map(|i| self.percentile_ns(share(i))).collect()
    }

    /// The longest, in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The percentiles, if anything was counted.
    pub fn latency(&self) -> Option<LatencyUs> {
        let us = |ns: u64| ns as f64 / 1000.0;
        let share = |share| us(self.percentile_ns(share));
        (self.total > 0).then(|| LatencyUs {
            p10: share(0.1),
            p50: share(0.5),
            p90: share(0.9),
            p99: share(0.99),
            p999: share(0.999),
            p9999: share(0.9999),
            max: us(self.max_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let mut last = 0;
        for ns in (0..100_000u64).chain((0..60).map(|p| 1 << p)) {
            let bucket = bucket_of(ns);
            let error = value_of(bucket).abs_diff(ns) as f64;
            assert!(error <= ns as f64 / 64.0, "{ns}: {}", value_of(bucket));
            assert!(bucket >= last || ns < 100_000);
            last = bucket;
        }
    }

    #[test]
    fn spread_as_counted() {
        let mut some = Histogram::default();
        (0..3).for_each(|_| some.record(10));
        some.record(20);
        assert_eq!(some.spread_ns(4), [10, 10, 10, 20]);
        assert!(Histogram::default().spread_ns(4).is_empty());
    }

    #[test]
    fn percentiles() {
        let mut all = Histogram::default();
        assert!(all.latency().is_none());
        for part in [1..=500u64, 501..=1000] {
            let mut half = Histogram::default();
            part.for_each(|ns| half.record(ns));
            all.add(&half);
        }
        assert_eq!(all.count(), 1000);
        assert!(all.percentile_ns(0.5).abs_diff(500) <= 8);
        assert!(all.percentile_ns(0.99).abs_diff(990) <= 16);
        assert_eq!(all.percentile_ns(1.0), 1000);
        assert_eq!(all.max_ns(), 1000);
    }

    #[test]
    fn results_carry_each_percentile() {
        let mut all = Histogram::default();
        // Each share ends at another power of two, so that no two of them are mistaken for each other.
        let parts = [
            (1_000, 1),
            (4_000, 2),
            (4_000, 4),
            (900, 8),
            (90, 16),
            (9, 32),
        ];
        for (count, us) in parts {
            (0..count).for_each(|_| all.record(us * 1000));
        }
        all.record(64_000);
        let us = serde_json::to_value(all.latency()).unwrap();
        let want = [
            ("p10", 1.0),
            ("p50", 2.0),
            ("p90", 4.0),
            ("p99", 8.0),
            ("p999", 16.0),
            ("p9999", 32.0),
            ("max", 64.0),
        ];
        for (key, want) in want {
            let got = us[key].as_f64().unwrap();
            assert!((got / want - 1.0).abs() < 0.02, "{key}: {got}");
        }
        assert_eq!(us.as_object().unwrap().len(), want.len());
    }
}
