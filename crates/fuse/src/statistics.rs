//! Counts, failures and latencies of requests by opcode. Each thread has counters of its own; a reader adds them up.

use crate::abi::Opcode;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use uext4_sync::CachePadded;
use uext4_vfs::{Errno, Failures};

/// Opcodes are numbers below this.
const OPCODES: usize = 64;
/// Each power of two of nanoseconds is cut in this many classes.
const CLASSES_PER_OCTAVE: u32 = 4;
/// Latencies of 2^36 ns (69 s) and more are one class.
const CLASSES: usize = 37 * CLASSES_PER_OCTAVE as usize;

/// The counters of one kind of request.
struct Counter {
    /// Allocated by the first failure.
    failures: OnceLock<Box<Failures>>,
    total_ns: AtomicU64,
    /// The number of requests by latency class.
    latencies: [AtomicU64; CLASSES],
}

/// The counters of a thread.
struct Worker(Box<[Counter]>);

/// The counters of all threads.
pub struct Statistics {
    workers: Vec<CachePadded<Worker>>,
}

/// The statistics of one kind of request.
#[derive(Clone, Debug, Serialize)]
pub struct Operation {
    /// Number of requests.
    pub count: u64,
    /// Number of failed requests.
    pub errors: u64,
    /// Number of failed requests by the name of the error number.
    pub failures: BTreeMap<&'static str, u64>,
    /// Sum of latencies.
    pub total_us: f64,
    /// Percentiles of the latency.
    pub latency_us: Latency,
}

/// Percentiles of the latency, from the start to the end of the handler, within 20 percent.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Statistics {
    /// Counters for that many threads.
    pub fn new(workers: usize) -> Statistics {
        let counter = || Counter {
            failures: OnceLock::new(),
            total_ns: AtomicU64::new(0),
            latencies: [const { AtomicU64::new(0) }; CLASSES],
        };
        let worker = || CachePadded::new(Worker((0..OPCODES).map(|_| counter()).collect()));
        Statistics {
            workers: (0..workers).map(|_| worker()).collect(),
        }
    }

    /// Counts a request. Only thread `worker` may call with its number.
    pub fn count(&self, worker: usize, opcode: Opcode, took: Duration, failed: Option<Errno>) {
        let Some(worker) = self.workers.get(worker) else {
            return;
        };
        let Some(counter) = worker.0.get(opcode as usize) else {
            return;
        };
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // One thread writes; a load and a store are cheaper than an atomic addition.
        let add = |to: &AtomicU64, n: u64| to.store(to.load(Relaxed).wrapping_add(n), Relaxed);
        add(&counter.latencies[class_of(ns)], 1);
        add(&counter.total_ns, ns);
        if let Some(errno) = failed {
            counter.failures.get_or_init(Box::default).count(errno);
        }
    }

    /// What was counted of each kind of request that there was, by name.
    pub fn operations(&self) -> BTreeMap<String, Operation> {
        let mut found = BTreeMap::new();
        for &opcode in Opcode::ALL {
            if let Some(operation) = self.operation(opcode) {
                found.insert(name_of(opcode), operation);
            }
        }
        found
    }

    /// How many requests of a kind were answered.
    pub fn answered(&self, opcode: Opcode) -> u64 {
        self.operation(opcode).map_or(0, |found| found.count)
    }

    fn operation(&self, opcode: Opcode) -> Option<Operation> {
        let mut classes = [0u64; CLASSES];
        let (mut failures, mut total_ns) = (BTreeMap::new(), 0);
        for worker in &self.workers {
            let counter = worker.0.get(opcode as usize)?;
            for (errno, n) in counter.failures.get().into_iter().flat_map(|f| f.iter()) {
                *failures.entry(errno.name()).or_insert(0) += n;
            }
            total_ns += counter.total_ns.load(Relaxed);
            for (sum, class) in classes.iter_mut().zip(&counter.latencies) {
                *sum += class.load(Relaxed);
            }
        }
        let count: u64 = classes.iter().sum();
        if count == 0 {
            return None;
        }
        let last = classes.iter().rposition(|n| *n > 0).unwrap_or(0);
        Some(Operation {
            count,
            errors: failures.values().sum(),
            failures,
            total_us: total_ns as f64 / 1000.0,
            latency_us: Latency {
                p50: percentile(&classes, count / 2),
                p99: percentile(&classes, count - count.div_ceil(100)),
                max: class_end_us(last),
            },
        })
    }
}

/// The name of an opcode, as in `linux/fuse.h`, in lower case.
pub fn name_of(opcode: Opcode) -> String {
    format!("{opcode:?}").to_lowercase()
}

/// The class of a latency.
fn class_of(ns: u64) -> usize {
    let octave = ns.max(4).ilog2();
    let within = (ns.max(4) >> (octave - 2)) & 3;
    let class = (octave * CLASSES_PER_OCTAVE) as usize + within as usize;
    class.min(CLASSES - 1)
}

/// The end of a class, in microseconds.
fn class_end_us(class: usize) -> f64 {
    let (octave, within) = (
        class as u32 / CLASSES_PER_OCTAVE,
        class as u32 % CLASSES_PER_OCTAVE,
    );
    let start = f64::from(octave).exp2();
    start * (1.0 + f64::from(within + 1) / f64::from(CLASSES_PER_OCTAVE)) / 1000.0
}

/// The end of the class in which the request of that rank is.
fn percentile(classes: &[u64; CLASSES], rank: u64) -> f64 {
    let mut before = 0;
    for (class, n) in classes.iter().enumerate() {
        before += n;
        if before > rank {
            return class_end_us(class);
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_is_put_in_them() {
        for ns in [1, 5, 100, 999, 1000, 12_345, 1_000_000, 3_000_000_000] {
            let end = class_end_us(class_of(ns)) * 1000.0;
            let ns = ns.max(4) as f64;
            assert!(end >= ns && end <= ns * 1.26, "{ns} ends at {end}");
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn threads_are_added_up() {
        let statistics = Statistics::new(2);
        let failed = |i| match i % 20 {
            0 => Some(Errno::ENOENT),
            10 => Some(Errno(-1)),
            _ => None,
        };
        for i in 0..100 {
            statistics.count(i % 2, Opcode::Read, Duration::from_micros(10), failed(i));
        }
        statistics.count(0, Opcode::Read, Duration::from_millis(5), None);
        statistics.count(7, Opcode::Read, Duration::ZERO, None);
        let all = statistics.operations();
        let read = all.get("read").expect("counted");
        assert_eq!((read.count, read.errors), (101, 10));
        assert_eq!(read.failures, [("ENOENT", 5), ("EUNKNOWN", 5)].into());
        assert!((10.0..13.0).contains(&read.latency_us.p50));
        assert!(read.latency_us.max >= 5000.0);
        assert_eq!(all.len(), 1);
    }
}
