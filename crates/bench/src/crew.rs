//! Threads that start together.

use anyhow::anyhow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Tells the threads of a timed run to end.
#[derive(Debug, Default)]
pub struct StopFlag(AtomicBool);

impl StopFlag {
    /// Whether to go on.
    #[inline(always)]
    pub fn is_running(&self) -> bool {
        !self.0.load(Relaxed)
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
    let start_line = Barrier::new(count + 1);
    let stop = StopFlag::default();
    std::thread::scope(|scope| {
        let (start_line, stop, work) = (&start_line, &stop, &work);
        let threads: Vec<_> = (0..count)
            .map(|number| {
                scope.spawn(move || {
                    start_line.wait();
                    // The thread that waits for the others may get a CPU long after they do.
                    let began = Instant::now();
                    work(number, stop).map(|result| (began, result))
                })
            })
            .collect();
        start_line.wait();
        let mut began = Instant::now();
        if let Some(time) = time {
            std::thread::sleep(time);
        }
        stop.0.store(time.is_some(), Relaxed);
        let mut results = Vec::with_capacity(count);
        for thread in threads {
            let (at, result) = thread.join().map_err(|_| anyhow!("a thread panicked"))??;
            began = began.min(at);
            results.push(result);
        }
        Ok(Done { began, results })
    })
}
