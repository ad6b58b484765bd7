//! Counts of failures by error number.

use crate::errno::Errno;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Error numbers of Linux are below this.
const ERRNOS: usize = 134;

/// The number of failures with each error number. Only a failure writes it.
#[derive(Debug)]
pub struct Failures([AtomicU64; ERRNOS]);

impl Failures {
    /// No failure yet.
    pub const fn new() -> Failures {
        Failures([const { AtomicU64::new(0) }; ERRNOS])
    }

    /// Counts a failure; a number that Linux does not have counts as 0.
    #[cold]
    pub fn count(&self, errno: Errno) {
        let index = usize::try_from(errno.0).unwrap_or(0);
        let counter = self.0.get(index).unwrap_or(&self.0[0]);
        counter.fetch_add(1, Relaxed);
    }

    /// The error numbers that were counted, in ascending order, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Errno, u64)> {
        let counters = self.0.iter().zip(0..);
        let counts = counters.map(|(counter, number)| (Errno(number), counter.load(Relaxed)));
        counts.filter(|(_, count)| *count > 0)
    }
}

impl Default for Failures {
    fn default() -> Failures {
        Failures::new()
    }
}
