//! Progress as calls of a function of Python.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The least time between two calls in a phase.
const INTERVAL: Duration = Duration::from_millis(50);

/// Calls `callback(phase, done, total)` when a phase begins, and while it lasts at most every 50 ms, from one thread at a time. No lock is
/// held meanwhile. An exception of the callback, or of a signal, ends the calls; [`Calls::end`] returns it.
pub struct Calls {
    callback: Option<Py<PyAny>>,
    phase: Mutex<Phase>,
    done: AtomicU64,
    failed: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

struct Phase {
    name: String,
    total: u64,
    /// When the next call is due; `None` while a thread calls.
    due: Option<Instant>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Calls {
    pub fn new(callback: Option<Py<PyAny>>) -> Calls {
        Calls {
            callback,
            phase: Mutex::new(Phase {
                name: String::new(),
                total: 0,
                due: None,
            }),
            done: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
        }
    }

    /// Whether a callback has raised an exception.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The exception that a callback has raised.
    pub fn end(&self) -> PyResult<()> {
        locked(&self.error).take().map_or(Ok(()), Err)
    }

    fn begin(&self, name: &str, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        {
            let mut phase = locked(&self.phase);
            phase.name = name.to_owned();
            phase.total = total;
            phase.due = None;
        }
        self.call(name, 0, total);
    }

    fn more(&self, n: u64) {
        let done = self.done.fetch_add(n, Ordering::Relaxed) + n;
        if self.callback.is_none() {
            return;
        }
        let (name, total) = {
            let mut phase = locked(&self.phase);
            if phase.due.is_none_or(|due| Instant::now() < due) {
                return;
            }
            phase.due = None;
            (phase.name.clone(), phase.total)
        };
        self.call(&name, done, total);
    }

    fn call(&self, name: &str, done: u64, total: u64) {
        let Some(callback) = &self.callback else {
            return;
        };
        if self.has_failed() {
            return;
        }
        let called = Python::attach(|py| {
            py.check_signals()?;
            callback.call1(py, (name, done, total)).map(drop)
        });
        match called {
            Ok(()) => locked(&self.phase).due = Some(Instant::now() + INTERVAL),
            Err(e) => {
                *locked(&self.error) = Some(e);
                self.failed.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl uext4::Progress for Calls {
    fn phase(&self, name: &str, total: u64) {
        self.begin(name, total);
    }

    fn advance(&self, n: u64) {
        self.more(n);
    }

    fn is_cancelled(&self) -> bool {
        self.has_failed()
    }
}

impl uext4::CheckProgress for Calls {
    fn phase(&self, name: &str, total: u64) {
        self.begin(name, total);
    }

    fn advance(&self, n: u64) {
        self.more(n);
    }
}
