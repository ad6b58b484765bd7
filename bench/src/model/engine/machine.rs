//! What is simulated on what, and what comes out.

#[cfg(doc)]
use super::Step;

/// What the workers run on.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    pub cores: usize,
    /// What moving a cache line from another core takes, in nanoseconds.
    pub line_ns: f64,
    /// By which part of that each core that waits for the line makes it longer.
    pub growth_per_waiter: f64,
    /// How long a worker runs while others wait for a core, in nanoseconds.
    pub slice_ns: f64,
    /// What a core takes to go from one worker to another, in nanoseconds.
    pub switch_ns: f64,
    /// The first pause of who finds a lock taken is twice this, the second four, the third eight times, in
    /// nanoseconds.
    pub pause_ns: f64,
    /// What offering the core to others takes if there are none, in nanoseconds.
    pub yield_ns: f64,
    /// Until a worker that sleeps for a lock may run after it was let go, in nanoseconds.
    pub wake_ns: f64,
    /// What it takes to send a sleeping worker on its way, in nanoseconds of who does.
    pub notify_ns: f64,
    /// How much later than asked a timer may fire, in nanoseconds, so that several fire at once.
    pub slack_ns: f64,
    /// Requests that the device serves at a time.
    pub servers: usize,
}

/// What is shared, and how much is to be simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    pub workers: usize,
    /// Locks of one owner.
    pub locks: usize,
    /// Locks that are shared or exclusive.
    pub rwlocks: usize,
    /// Cache lines outside the locks.
    pub lines: usize,
    /// Operations of all workers that count, after a tenth as many that do not.
    pub operations: usize,
    /// Each worker ends after so many operations instead, all count, and the last to end ends the time.
    pub quota: Option<usize>,
}

/// What a simulation gave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// Operations in a second.
    pub ops_per_s: f64,
    /// How often a lock was taken for each operation, of [`Step::Lock`] and [`Step::TryLock`].
    pub acquisitions_per_op: f64,
}
