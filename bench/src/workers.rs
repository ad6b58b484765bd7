//! Threads that start together.

use anyhow::{Context, anyhow};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, OnceLock};
use std::thread::{self, ScopedJoinHandle, Thread};
use std::time::{Duration, Instant};

/// Ends the threads of a timed run.
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

    /// Whether to go on. Asked after an operation, it leaves no thread without one, however late that gets a CPU.
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

/// A thread that is still running so long after the stop flag was set hangs.
const GRACE: Duration = Duration::from_secs(60);

/// What the workers did.
pub struct Done<T> {
    /// When the first of them began.
    pub began: Instant,
    /// From then until the last of them ended.
    pub seconds: f64,
    /// What each gave.
    pub results: Vec<T>,
}

/// Runs `work` in `count` threads that start together. With a `time` the flag stops them after it;
/// without, each ends by itself. The first argument of `work` is the thread's number.
pub fn run<T: Send>(
    count: usize,
    time: Option<Duration>,
    work: impl Fn(usize, &StopFlag) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Done<T>> {
    run_each((0..count).collect(), time, work)
}

/// As [`run`], a thread for each of `parts`, which is the first argument of its `work`.
pub fn run_each<P: Send, T: Send>(
    parts: Vec<P>,
    time: Option<Duration>,
    work: impl Fn(P, &StopFlag) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Done<T>> {
    // Opened once all threads are spawned; false if one of them could not be.
    let gate = OnceLock::<bool>::new();
    let start = Barrier::new(parts.len() + 1);
    let stop = StopFlag::new();
    thread::scope(|scope| {
        let (gate, start, stop, work) = (&gate, &start, &stop, &work);
        let mut threads = Vec::with_capacity(parts.len());
        for part in parts {
            let body = move || {
                if !*gate.wait() {
                    return Err(anyhow!("was not started"));
                }
                start.wait();
                // The thread that waits for the others may get a CPU long after they do.
                let began = Instant::now();
                work(part, stop).map(|result| (began, Instant::now(), result))
            };
            match thread::Builder::new().spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(why) => {
                    gate.get_or_init(|| false);
                    return Err(why).context(format!("a thread after {}", threads.len()));
                }
            }
        }
        gate.get_or_init(|| true);
        start.wait();
        let mut began = Instant::now();
        let mut ended = began;
        if let Some(time) = time {
            stop.stop_after(time);
            end_if_one_hangs(&threads);
        }
        let mut results = Vec::with_capacity(threads.len());
        for thread in threads {
            let done = thread.join().map_err(|_| anyhow!("a thread panicked"))?;
            let (from, to, result) = done?;
            (began, ended) = (began.min(from), ended.max(to));
            results.push(result);
        }
        let seconds = (ended - began).as_secs_f64();
        Ok(Done {
            began,
            seconds,
            results,
        })
    })
}

/// Waits for threads after the stop flag is set. A thread that never ends would block the join, so the process exits
/// after [`GRACE`].
fn end_if_one_hangs<T>(threads: &[ScopedJoinHandle<'_, T>]) {
    let (since, mut pause) = (Instant::now(), Duration::from_micros(50));
    while !threads.iter().all(ScopedJoinHandle::is_finished) {
        if since.elapsed() > GRACE {
            eprintln!("uext4: a worker thread did not stop within 60 s");
            std::process::exit(1);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_run_and_are_timed() {
        let time = Duration::from_millis(30);
        let done = run(5, Some(time), |number, stop| {
            while stop.is_running() {
                thread::yield_now();
            }
            Ok(number)
        });
        let done = done.expect("runs");
        assert_eq!(done.results, [0, 1, 2, 3, 4]);
        assert!(done.seconds >= 0.03);
    }

    #[test]
    fn the_first_error_is_given() {
        let failed = run(3, None, |number, _| match number {
            1 => Err(anyhow!("thread {number}")),
            _ => Ok(()),
        });
        assert_eq!(
            failed.err().map(|e| e.to_string()),
            Some("thread 1".to_owned())
        );
    }
}
