//! How long threads that wait for requests stay awake.
//!
//! While one CPU gets requests, a thread of each stays awake and yields: the kernel moves a caller that it wakes to an idle CPU, away from the thread
//! that answers it, and each request then wakes a CPU twice.

use rustix::thread::{CpuSet, sched_getaffinity, sched_yield};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// The most CPUs that are kept awake.
const CPUS_MAX: usize = 4;

/// How long a thread stays awake for each request since it woke, and at most.
const FOR_EACH: Duration = Duration::from_micros(30);
const MAX: Duration = Duration::from_micros(300);

/// A yield that takes longer gave the CPU to a thread that computes: a thread that sleeps would get it back earlier.
const LONG_YIELD: Duration = Duration::from_millis(1);

/// No thread stays awake on that CPU for this multiple of the yield.
const PAUSE_FACTOR: u32 = 20;

/// The CPUs that are kept awake: none where there are more, where the process may not use all of them or of their time, or
/// where `/sys` is not mounted.
///
/// # Errors
/// As the host says.
pub(super) fn cpus() -> io::Result<Vec<usize>> {
    let online = match std::fs::read_to_string("/sys/devices/system/cpu/online") {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        list => numbers(&list?)?,
    };
    let set = sched_getaffinity(None)?;
    let time = thread::available_parallelism().map_or(1, usize::from);
    let fits = online.len() <= CPUS_MAX.min(time);
    let may_use = |cpu: &usize| *cpu < CpuSet::MAX_CPU && set.is_set(*cpu);
    Ok(match fits && online.iter().all(may_use) {
        true => online,
        false => Vec::new(),
    })
}

/// The numbers of a list as `0-2,5`.
fn numbers(list: &str) -> io::Result<Vec<usize>> {
    let number = |text: &str| text.parse::<usize>().map_err(io::Error::other);
    let mut all = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        all.extend(number(first)?..=number(last)?);
    }
    Ok(all)
}

/// What a thread knows about staying awake.
pub(super) struct Awake {
    /// How many requests there had been when it woke.
    at_wake: u64,
    /// Another thread computes on its CPU.
    until: Option<Instant>,
}

impl Awake {
    /// Of a thread that wakes now, after `requests`.
    pub fn new(requests: u64) -> Awake {
        Awake {
            at_wake: requests,
            until: None,
        }
    }

    /// The thread has slept and wakes now, after `requests`.
    pub fn note_wake(&mut self, requests: u64) {
        self.at_wake = requests;
    }

    /// Begins to wait for the next request, after `requests`.
    pub fn vigil(&mut self, requests: u64) -> Vigil<'_> {
        let since = Instant::now();
        if self.until.is_some_and(|until| until < since) {
            self.until = None;
        }
        Vigil {
            awake: self,
            requests,
            since,
        }
    }
}

/// A thread waits for a request, awake.
pub(super) struct Vigil<'a> {
    awake: &'a mut Awake,
    /// How many requests there were until now.
    requests: u64,
    /// When the last one came.
    since: Instant,
}

impl Vigil<'_> {
    /// Whether no request came for too long; there were `requests` until now.
    pub fn is_over(&mut self, requests: u64) -> bool {
        if self.awake.until.is_some() {
            return true;
        }
        if requests != self.requests {
            (self.requests, self.since) = (requests, Instant::now());
            return false;
        }
        self.since.elapsed() > self.patience()
    }

    /// Lets other threads have the CPU first; returns for how long.
    pub fn give_way(&mut self) -> Duration {
        let since = Instant::now();
        sched_yield();
        let took = since.elapsed();
        self.note_yield(took);
        took
    }

    fn note_yield(&mut self, took: Duration) {
        if took > LONG_YIELD {
            self.awake.until = Some(Instant::now() + took * PAUSE_FACTOR);
        }
    }

    fn patience(&self) -> Duration {
        let requests = u32::try_from(self.requests.saturating_sub(self.awake.at_wake));
        let requests = requests.unwrap_or(u32::MAX);
        FOR_EACH.saturating_mul(requests).min(MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long_ago() -> Instant {
        Instant::now()
            .checked_sub(2 * MAX)
            .expect("the machine ran")
    }

    #[test]
    fn the_more_requests_came_the_longer_a_thread_waits_for_another() {
        let patience = |requests| Awake::new(7).vigil(requests).patience();
        assert_eq!(patience(7), Duration::ZERO);
        assert_eq!(patience(8), FOR_EACH);
        assert_eq!(patience(10), 3 * FOR_EACH);
        assert_eq!(patience(u64::MAX), MAX);
    }

    #[test]
    fn each_request_begins_the_time_anew() {
        let mut awake = Awake::new(0);
        let mut vigil = awake.vigil(1_000);
        vigil.since = long_ago();
        assert!(!vigil.is_over(1_001));
        assert!(vigil.since > long_ago());
        vigil.since = long_ago();
        assert!(vigil.is_over(1_001));
    }

    #[test]
    fn beside_a_thread_that_computes_none_stays_awake_for_a_while() {
        let mut awake = Awake::new(0);
        let mut vigil = awake.vigil(1_000);
        vigil.note_yield(LONG_YIELD);
        assert!(!vigil.is_over(1_001));
        vigil.note_yield(LONG_YIELD + Duration::from_secs(9));
        assert!(vigil.is_over(1_002));
        assert!(awake.vigil(1_003).is_over(1_004));
        awake.until = Some(long_ago());
        assert!(!awake.vigil(1_003).is_over(1_004));
    }

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(numbers("0\n").expect("a list"), [0]);
        assert_eq!(numbers("0-2,5,7-8\n").expect("a list"), [0, 1, 2, 5, 7, 8]);
        numbers("").expect_err("no list");
        numbers("0-x").expect_err("no list");
    }
}
