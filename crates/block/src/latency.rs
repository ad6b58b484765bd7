//! A device with the latency and the parallelism of a modelled one.
//!
//! # Data model
//! The modelled device serves `parallelism` requests at a time, each in `latency`. As all take
//! equally long they end in the order in which they came, so one queue of deadlines is the model:
//! a request ends at `latency` after it came, or after the one `parallelism` places ahead of it
//! ended, whichever is later. Each call that does I/O is a request, also a vectored one; of a batch each run
//! is one, and all come at once.
//!
//! A caller sleeps until its deadline, as a caller that waits for an inode lock sleeps: neither has an advantage over
//! the other where CPUs are few. How late callers wake is part of the latency that [`LatencyDevice::report`] gives.
//!
//! # Invariants
//! No call returns before its deadline.
//!
//! # Locking
//! The queue has a lock of class `device`, held to compute a deadline, not while waiting.

use crate::batch::runs;
use crate::device::BlockDevice;
use crate::error::Result;
use crate::forward_device;
use rustix::thread::{ClockId, clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{Timespec, clock_gettime};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use uext4_sync::{Mutex, PerCpu, assert_may_block, class};

/// Latencies as callers saw them, waiting for the modelled device included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyReport {
    /// Requests.
    pub count: u64,
    /// The mean over all requests.
    pub mean: Duration,
    /// The longest.
    pub max: Duration,
}

/// A device that takes the time of a modelled one.
///
/// The first request of a thread sets its timer slack to the least, for deadlines to be met.
#[derive(Debug)]
pub struct LatencyDevice<D> {
    inner: D,
    latency_ns: u64,
    parallelism: usize,
    queue: Mutex<DeadlineQueue>,
    seen: PerCpu<Seen>,
}

/// Latencies that callers on one CPU saw; times are in nanoseconds.
#[derive(Debug, Default)]
struct Seen {
    count: AtomicU64,
    total_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Seen {
    fn add(&self, count: u64, took_ns: u64) {
        self.count.fetch_add(count, Relaxed);
        self.total_ns.fetch_add(took_ns * count, Relaxed);
        if took_ns > self.max_ns.load(Relaxed) {
            self.max_ns.fetch_max(took_ns, Relaxed);
        }
    }
}

/// When each of the modelled servers is free; times are in nanoseconds.
#[derive(Debug)]
struct DeadlineQueue {
    /// The deadlines of the last `parallelism` requests, ascending.
    free_at: VecDeque<u64>,
}

impl DeadlineQueue {
    fn new(parallelism: usize) -> DeadlineQueue {
        DeadlineQueue {
            free_at: std::iter::repeat_n(0, parallelism.max(1)).collect(),
        }
    }

    /// The deadline of a request that comes now.
    fn admit(&mut self, now_ns: u64, latency_ns: u64) -> u64 {
        let free = self.free_at.pop_front().unwrap_or(0);
        // Callers read the clock before they take the lock, so `now_ns` may step back a little;
        // the order in the queue is that of the lock.
        let last = self.free_at.back().copied().unwrap_or(0);
        let deadline = (now_ns.max(free) + latency_ns).max(last);
        self.free_at.push_back(deadline);
        deadline
    }
}

impl<D: BlockDevice> LatencyDevice<D> {
    /// Models a device that serves `parallelism` (at least 1) requests at a time.
    pub fn new(inner: D, latency: Duration, parallelism: usize) -> LatencyDevice<D> {
        LatencyDevice {
            inner,
            latency_ns: u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX / 2),
            parallelism: parallelism.max(1),
            queue: Mutex::new(&class::DEVICE, DeadlineQueue::new(parallelism)),
            seen: PerCpu::new(|_| Seen::default()),
        }
    }

    /// How long a request takes.
    pub fn latency(&self) -> Duration {
        Duration::from_nanos(self.latency_ns)
    }

    /// How many requests are served at a time.
    pub fn parallelism(&self) -> usize {
        self.parallelism
    }

    /// The latencies achieved so far.
    pub fn report(&self) -> LatencyReport {
        let sum = |value: fn(&Seen) -> &AtomicU64| -> u64 {
            self.seen.iter().map(|seen| value(seen).load(Relaxed)).sum()
        };
        let count = sum(|seen| &seen.count);
        let max = self.seen.iter().map(|seen| seen.max_ns.load(Relaxed)).max();
        LatencyReport {
            count,
            mean: Duration::from_nanos(sum(|seen| &seen.total_ns) / count.max(1)),
            max: Duration::from_nanos(max.unwrap_or(0)),
        }
    }

    /// Forgets the latencies achieved so far.
    pub fn reset_report(&self) {
        for seen in self.seen.iter() {
            for value in [&seen.count, &seen.total_ns, &seen.max_ns] {
                value.store(0, Relaxed);
            }
        }
    }

    /// Does a request and returns at its deadline. The wrapped device's time is part of it.
    fn request<T>(&self, io: impl FnOnce(&D) -> Result<T>) -> Result<T> {
        self.requests(1, io)
    }

    /// Does `count` requests, all of which come now, and returns at the last deadline.
    fn requests<T>(&self, count: usize, io: impl FnOnce(&D) -> Result<T>) -> Result<T> {
        assert_may_block("device latency");
        let start = now_ns();
        let mut deadline = 0;
        if count > 0 {
            let mut queue = self.queue.lock();
            for _ in 0..count {
                deadline = queue.admit(start, self.latency_ns);
            }
        }
        let result = io(&self.inner);
        let took = wait_until(deadline).saturating_sub(start);
        self.seen.get().add(count as u64, took);
        result
    }
}

impl<D: BlockDevice> BlockDevice for LatencyDevice<D> {
    forward_device!(self => self.inner; is_flush_atomic, is_fenced, remote_stats, release);
    forward_device!(self => self.inner;
        len, is_read_only, logical_block_size, allocate, drop_cache, set_len, identity, origin);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.request(|inner| inner.read_at(offset, buf))
    }

    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<()> {
        self.request(|inner| inner.read_vectored_at(offset, bufs))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.request(|inner| inner.write_at(offset, buf))
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        self.request(|inner| inner.write_vectored_at(offset, bufs))
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        self.requests(runs(reads).count(), |inner| inner.read_batch(reads))
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        self.requests(runs(writes).count(), |inner| inner.write_batch(writes))
    }

    fn flush(&self) -> Result<()> {
        self.request(|inner| inner.flush())
    }

    fn write_fua(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.request(|inner| inner.write_fua(offset, buf))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.request(|inner| inner.discard(offset, len))
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.request(|inner| inner.zero(offset, len))
    }
}

/// The monotonic clock.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

thread_local! {
    /// Whether this thread has set its timer slack.
    static PUNCTUAL: Cell<bool> = const { Cell::new(false) };
}

/// Sleeps until a deadline: the time when it returned, which isn't before.
fn wait_until(deadline_ns: u64) -> u64 {
    if !PUNCTUAL.replace(true) {
        // The default slack, 50 us, is as long as a modelled request; without the right to change it the
        // report shows the difference.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
    }
    loop {
        let now = now_ns();
        if now >= deadline_ns {
            return now;
        }
        sleep_until(deadline_ns);
    }
}

fn sleep_until(wake_ns: u64) {
    let wake = Timespec {
        tv_sec: (wake_ns / 1_000_000_000) as i64,
        tv_nsec: (wake_ns % 1_000_000_000) as _,
    };
    // A signal only means another turn of the caller's loop.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &wake);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn reports_latencies() {
        let device = LatencyDevice::new(MemoryDevice::new(100_000), Duration::from_micros(20), 4);
        (0..100).for_each(|i| device.write_at(i, &[1]).unwrap());
        let report = device.report();
        assert!(report.count == 100 && report.max >= report.mean);
        device.reset_report();
        assert_eq!(device.report(), LatencyReport::default());
    }

    #[test]
    fn runs_of_a_batch_are_served_side_by_side() {
        let latency = Duration::from_millis(3);
        let device = LatencyDevice::new(MemoryDevice::new(100_000), latency, 4);
        assert_eq!((device.latency(), device.parallelism()), (latency, 4));
        // Six runs on four servers are two rounds.
        let batch: Vec<(u64, &[u8])> = (0..6).map(|i| (i * 10, &[1; 5][..])).collect();
        device.write_batch(&batch).unwrap();
        let report = device.report();
        assert_eq!((report.count, report.mean), (6, report.max));
        assert!(report.mean >= latency * 2);
        device.read_batch(&mut []).unwrap();
        assert_eq!(device.report().count, 6);
    }

    #[test]
    fn deadlines_model_servers() {
        let mut queue = DeadlineQueue::new(2);
        let deadlines: Vec<u64> = [100, 100, 100, 110, 350]
            .map(|now| queue.admit(now, 80))
            .to_vec();
        assert_eq!(deadlines, [180, 180, 260, 260, 430]);
        let mut one = DeadlineQueue::new(0);
        assert_eq!([0, 0, 500].map(|now| one.admit(now, 80)), [80, 160, 580]);
    }

    #[test]
    fn a_clock_that_steps_back_keeps_order() {
        let mut queue = DeadlineQueue::new(4);
        assert_eq!(
            [100, 90, 101].map(|now| queue.admit(now, 10)),
            [110, 110, 111]
        );
    }

    /// By the clock of the device: never before the deadline.
    #[test]
    fn waits_for_the_deadline() {
        let deadline = now_ns() + 200_000;
        assert!(wait_until(deadline) >= deadline);
        assert!(wait_until(0) > 0);
    }
}
