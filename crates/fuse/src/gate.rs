//! A gate that requests pass until it is closed.
//!
//! # Invariants
//! A worker that enters first sets its own flag and then checks whether the gate is closed. The thread that closes the
//! gate first marks it closed and then checks these flags. All four are sequentially consistent, so one sees the other.
//!
//! # Locking
//! None. A request writes one cache line, its worker's own; that of the gate is only read until it is closed.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst};
use std::thread;
use std::time::Duration;
use uext4_sync::CachePadded;

/// The pause between two checks of a worker that is inside.
const PAUSE: Duration = Duration::from_millis(1);

/// A gate for numbered workers. Each worker has one request at a time.
pub struct Gate {
    closed: CachePadded<AtomicBool>,
    inside: Box<[CachePadded<AtomicBool>]>,
}

/// A worker is inside until this is dropped.
pub struct Pass<'a>(&'a AtomicBool);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

impl Gate {
    /// An open gate for that many workers.
    pub fn new(workers: usize) -> Gate {
        let place = || CachePadded::new(AtomicBool::new(false));
        Gate {
            closed: CachePadded::new(AtomicBool::new(false)),
            inside: (0..workers).map(|_| place()).collect(),
        }
    }

    /// Lets a worker in; `None` if the gate is closed or if no worker has that number. Only thread `worker` may pass its
    /// number.
    #[inline]
    pub fn enter(&self, worker: usize) -> Option<Pass<'_>> {
        let place = &**self.inside.get(worker)?;
        if self.closed.load(Relaxed) {
            return None;
        }
        place.store(true, SeqCst);
        let pass = Pass(place);
        (!self.closed.load(SeqCst)).then_some(pass)
    }

    /// Closes the gate and waits until no worker is inside. A worker that is inside must not call this.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
        for place in &self.inside {
            while place.load(SeqCst) {
                thread::sleep(PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc;

    #[test]
    fn no_worker_enters_a_closed_gate() {
        let gate = Gate::new(2);
        drop(gate.enter(0).expect("open"));
        drop(gate.enter(0).expect("open again"));
        assert!(gate.enter(2).is_none(), "there is no such worker");
        gate.close();
        assert!(gate.enter(0).is_none() && gate.enter(1).is_none());
        gate.close();
    }

    #[test]
    fn closing_waits_for_workers_inside() {
        let gate = Gate::new(1);
        let left = AtomicBool::new(false);
        let (entered, is_inside) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let pass = gate.enter(0).expect("open");
                entered.send(()).expect("awaited");
                while !gate.closed.load(SeqCst) {
                    thread::yield_now();
                }
                left.store(true, SeqCst);
                drop(pass);
            });
            is_inside.recv().expect("it enters");
            gate.close();
            assert!(left.load(SeqCst), "closed with a worker inside");
        });
    }

    #[test]
    fn after_closing_nothing_happens() {
        for _ in 0..200 {
            let gate = Gate::new(3);
            let done = AtomicU64::new(0);
            thread::scope(|scope| {
                for worker in 0..3 {
                    let (gate, done) = (&gate, &done);
                    scope.spawn(move || {
                        while let Some(_pass) = gate.enter(worker) {
                            done.fetch_add(1, Relaxed);
                        }
                    });
                }
                while done.load(Relaxed) < 50 {
                    thread::yield_now();
                }
                gate.close();
                let then = done.load(SeqCst);
                thread::yield_now();
                assert_eq!(done.load(SeqCst), then);
            });
        }
    }
}
