//! Threads that start together.

use anyhow::anyhow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Tells the threads of a timed run to end.
#[derive(Debug)]
pub struct StopFlag {
    stopped: AtomicBool,
    /// The thread that waits for the time to be over.
    waiting: Thread,
}

impl StopFlag {
    fn new() -> StopFlag {
        StopFlag {
            stopped: AtomicBool::new(false),
            waiting: thread::current(),
        }
    }

    /// Whether to go on.
    #[inline(always)]
    pub fn is_running(&self) -> bool {
        !self.stopped.load(Relaxed)
    }

    /// Stops every thread of the run, before its time.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.waiting.unpark();
    }

    /// Stops them after `time`, unless one of them does before.
    fn stop_after(&self, time: Duration) {
        let since = Instant::now();
        while self.is_running() {
            match time.checked_sub(since.elapsed()) {
                Some(left) if !left.is_zero() => thread::park_timeout(left),
                _ => self.stopped.store(true, Relaxed),
            }
        }
    }
}

/// What a crew did.
pub struct Done<T> {
    /// When the first of them began.
    pub began: Instant,
    /// What each gave.
    pub results: Vec<T>,
}

/// Runs `work` in `count` threads that start at a barrier. With a `time` the flag stops them after it;
/// without, each ends by itself. The first argument of `work` is the thread's number.
///
/// # Errors
/// The first that one of them gave, or that it panicked.
pub fn run<T: Send>(
    count: usize,
    time: Option<Duration>,
    work: impl Fn(usize, &StopFlag) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Done<T>> {
    run_each((0..count).collect(), time, work)
}

/// As [`run`], a thread for each of `parts`, which is the first argument of its `work`.
///
/// # Errors
/// As [`run`].
pub fn run_each<P: Send, T: Send>(
    parts: Vec<P>,
    time: Option<Duration>,
    work: impl Fn(P, &StopFlag) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Done<T>> {
    let count = parts.len();
    let start_line = Barrier::new(count + 1);
    let stop = StopFlag::new();
    thread::scope(|scope| {
        let (start_line, stop, work) = (&start_line, &stop, &work);
        let threads: Vec<_> = parts
            .into_iter()
            .map(|part| {
                scope.spawn(move || {
                    start_line.wait();
                    // The thread that waits for the others may get a CPU long after they do.
                    let began = Instant::now();
                    work(part, stop).map(|result| (began, result))
                })
            })
            .collect();
        start_line.wait();
        let mut began = Instant::now();
        if let Some(time) = time {
            stop.stop_after(time);
        }
        let mut results = Vec::with_capacity(count);
        for thread in threads {
            let (at, result) = thread.join().map_err(|_| anyhow!("a thread panicked"))??;
            began = began.min(at);
            results.push(result);
        }
        Ok(Done { began, results })
    })
}
