//! A held readers-writer semaphore.

use super::{READER, RwSem};
use crate::imp::lock_atomic::AtomicU32;
use crate::order;
use crate::stat::{self, Mode};
use std::marker::PhantomData;

/// Holds a [`RwSem`] until dropped, by the thread that took it.
#[derive(Debug)]
#[must_use]
pub struct RwSemGuard<'a> {
    pub(super) lock: &'a RwSem,
    pub(super) hold: Hold<'a>,
    /// When it was taken; 0 when statistics were off then.
    pub(super) since_ns: u64,
    /// The debug lock order is kept by thread.
    pub(super) _not_send: PhantomData<*const ()>,
}

/// How a lock is held, which determines how it is released.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hold<'a> {
    /// Shared, counted in the word.
    Narrow,
    /// Shared, counted here.
    Wide(&'a AtomicU32),
    Exclusive,
}

impl Hold<'_> {
    pub(super) const fn mode(self) -> Mode {
        match self {
            Hold::Narrow | Hold::Wide(_) => Mode::Shared,
            Hold::Exclusive => Mode::Exclusive,
        }
    }
}

impl RwSemGuard<'_> {
    /// How the lock is held.
    #[inline]
    pub const fn mode(&self) -> Mode {
        self.hold.mode()
    }

    /// Shares the lock from now on, with no moment in between at which another writer has it.
    pub fn downgrade(mut self) -> Self {
        if matches!(self.hold, Hold::Exclusive) {
            if self.since_ns != 0 {
                let stats = &self.lock.class().stats;
                let now = stat::now_ns();
                stats.released(Mode::Exclusive, now - self.since_ns);
                stats.acquired(Mode::Shared, false, 0);
                self.since_ns = now;
            }
            self.hold = Hold::Narrow;
            self.lock.leave_exclusive(READER);
        }
        self
    }
}

impl Drop for RwSemGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let lock = self.lock;
        if self.since_ns != 0 {
            let held_ns = stat::now_ns() - self.since_ns;
            lock.class().stats.released(self.hold.mode(), held_ns);
        }
        order::released(lock.class(), lock.address());
        match self.hold {
            Hold::Narrow => lock.leave_narrow(),
            Hold::Exclusive => lock.leave_exclusive(0),
            Hold::Wide(counter) => lock.leave_wide(counter),
        }
    }
}
