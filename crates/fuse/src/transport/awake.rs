//! How long threads that wait for requests stay awake.
//!
//! While one CPU gets requests, a thread of each stays awake and yields: the kernel moves a caller that it wakes to an idle CPU, away from the thread
//! that answers it, and each request then wakes a CPU twice.

use rustix::thread::{CpuSet, sched_getaffinity};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// The most CPUs that are kept awake.
const CPUS_MAX: usize = 4;

/// How long a thread stays awake for each request since it woke, and at most.
const FOR_EACH: Duration = Duration::from_micros(30);
const MAX: Duration = Duration::from_micros(300);

/// The CPUs that are kept awake: none where there are more, or where the process may not use all of their time.
///
/// # Errors
/// As the host says.
pub(super) fn cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect();
    let time = thread::available_parallelism().map_or(1, usize::from);
    let fits = cpus.len() <= CPUS_MAX.min(time);
    Ok(if fits { cpus } else { Vec::new() })
}

/// The time that a thread stays awake.
pub(super) struct Vigil {
    /// How many requests there had been when the thread woke, and until now.
    at_wake: u64,
    requests: u64,
    /// When the last one came.
    since: Instant,
}

impl Vigil {
    /// Begins now, with `requests`, of a thread that woke when there had been `at_wake`.
    pub fn new(at_wake: u64, requests: u64) -> Vigil {
        Vigil {
            at_wake,
            requests,
            since: Instant::now(),
        }
    }

    /// Whether no request came for too long; there were `requests` until now.
    pub fn is_over(&mut self, requests: u64) -> bool {
        if requests != self.requests {
            (self.requests, self.since) = (requests, Instant::now());
            return false;
        }
        self.since.elapsed() > self.patience()
    }

    fn patience(&self) -> Duration {
        let requests = u32::try_from(self.requests.saturating_sub(self.at_wake));
        let requests = requests.unwrap_or(u32::MAX);
        FOR_EACH.saturating_mul(requests).min(MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_requests_came_the_longer_a_thread_waits_for_another() {
        let patience = |requests| Vigil::new(7, requests).patience();
        assert_eq!(patience(7), Duration::ZERO);
        assert_eq!(patience(8), FOR_EACH);
        assert_eq!(patience(10), 3 * FOR_EACH);
        assert_eq!(patience(u64::MAX), MAX);
    }

    #[test]
    fn each_request_begins_the_time_anew() {
        let mut vigil = Vigil::new(0, 1_000);
        let long_ago = Instant::now().checked_sub(2 * MAX);
        vigil.since = long_ago.expect("the machine ran");
        assert!(!vigil.is_over(1_001));
        assert!(vigil.since > long_ago.expect("the machine ran"));
        vigil.since = long_ago.expect("the machine ran");
        assert!(vigil.is_over(1_001));
    }
}
