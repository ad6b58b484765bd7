//! What workers do.

use super::Ticks;

/// What a worker does next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Computes on its core.
    Compute(Ticks),
    /// Sleeps at least so long; the timer fires later by the machine's slack, or with an earlier timer.
    Sleep(Ticks),
    /// Takes a lock, waiting for it.
    Lock(usize),
    /// Takes a lock if it is free.
    TryLock(usize),
    /// Lets a lock go.
    Unlock(usize),
    /// Takes a shared-or-exclusive lock so that others may share it.
    Shared(usize),
    /// Takes such a lock alone.
    Exclusive(usize),
    /// Shares from now on what it had alone.
    Demote(usize),
    /// Lets such a lock go.
    Release(usize),
    /// Writes a cache line that others write too.
    Line(usize),
    /// Waits for a request of the device.
    Device(Ticks),
    /// An operation has ended; the next begins.
    Done,
}

/// How the step before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As asked.
    Finished,
    /// [`Step::TryLock`] found the lock taken.
    Refused,
}

/// What workers do.
pub trait Protocol {
    /// The next step of a worker, which runs on `core`.
    fn next(&mut self, worker: usize, core: usize, outcome: Outcome) -> Step;
}
