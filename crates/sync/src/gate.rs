//! A gate that many threads pass at once, and that is closed once in a while.
//!
//! # Purpose
//! Every change of a file system passes the gate that a freeze closes. To take a lock shared costs two atomic changes of a word, which a
//! million changes a second notice. Here a thread counts its passes in a word of its own, by plain stores, and what that saves is
//! paid when the gate is closed: then each thread of the process is made to execute a memory barrier (membarrier(2)).
//!
//! # Invariants
//! - A counter is changed by its thread alone. A pass is in if its thread, after it counted itself, saw the gate open, or was in before.
//! - `closed` changes only while `lock` is held alone. Once the gate is closed and the barriers are executed, counters only fall but for
//!   those that rise and fall again, and one that was seen at zero counts no pass.
//! - A pass that finds the gate closed, that has no counter, or that is counted for statistics, holds `lock` shared instead.
//!
//! # Locking
//! Both sides are of the class that the gate is made with. Closing waits for passes by reading their counters again after a pause.

mod barrier;
mod slots;

use crate::class::LockClass;
use crate::imp::atomic::AtomicBool;
use crate::imp::thread;
use crate::rwsem::{RwSem, RwSemGuard};
use crate::{order, stat};
use slots::{Slot, Slots};
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// How often counters are read before each pause, and the pause.
const READS: u32 = 100;
const PAUSE: Duration = Duration::from_micros(100);

/// The gate; see the module.
#[derive(Debug)]
pub struct Gate {
    lock: RwSem,
    closed: AtomicBool,
    slots: Slots,
}

impl Gate {
    /// An open gate, a lock of `class`.
    pub fn new(class: &'static LockClass) -> Gate {
        barrier::prepare();
        Gate {
            lock: RwSem::new(class),
            closed: AtomicBool::new(false),
            slots: Slots::new(),
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Passes until the result is dropped, which the same thread does. Waits while the gate is closed.
    ///
    /// # Locks
    /// Panics in debug builds when the lock order forbids it here.
    #[inline]
    pub fn pass(&self) -> Pass<'_> {
        order::before_wait(self.lock.class(), 0);
        match self.enter() {
            Some(slot) => self.passed(slot, 0),
            None => self.wait(),
        }
    }

    /// As [`Gate::pass`], but none if it would wait.
    ///
    /// # Locks
    /// May be called in any order, and by a thread that passes already.
    #[inline]
    pub fn try_pass(&self) -> Option<Pass<'_>> {
        match self.enter() {
            Some(slot) => Some(self.passed(slot, u64::MAX)),
            None => self
                .lock
                .try_shared()
                .map(|guard| Pass::Shared(Box::new(guard))),
        }
    }

    /// Closes the gate until the result is dropped. Waits for those that pass, and for another that has closed it.
    ///
    /// # Locks
    /// Panics in debug builds when the lock order forbids it here.
    pub fn close(&self) -> Closed<'_> {
        let alone = self.lock.exclusive(0);
        self.closed.store(true, Relaxed);
        barrier::of_all_threads();
        for slot in self.slots.iter() {
            let mut reads = 0;
            while slot.load(Acquire) != 0 {
                reads += 1;
                if cfg!(shuttle) || reads % READS != 0 {
                    thread::yield_now();
                } else {
                    thread::sleep(PAUSE);
                }
            }
        }
        Closed {
            gate: self,
            _alone: alone,
        }
    }

    /// Counts the caller in, unless the gate is closed or it has no counter. Statistics count locks.
    #[inline(always)]
    fn enter(&self) -> Option<&Slot> {
        if stat::is_enabled() {
            return None;
        }
        let slot = self.slots.of_caller()?;
        enter(slot, &self.closed).then_some(slot)
    }

    #[inline(always)]
    fn passed<'a>(&'a self, slot: &'a Slot, key: u64) -> Pass<'a> {
        order::acquired(self.lock.class(), key, self.address());
        Pass::Counted(Counted {
            gate: self,
            slot,
            _not_send: PhantomData,
        })
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) -> Pass<'_> {
        Pass::Shared(Box::new(self.lock.shared(0)))
    }
}

#[inline(always)]
fn enter(slot: &Slot, closed: &AtomicBool) -> bool {
    let passes = slot.load(Relaxed);
    slot.store(passes + 1, Relaxed);
    if passes > 0 {
        return true;
    }
    barrier::of_caller();
    if !closed.load(Acquire) {
        return true;
    }
    slot.store(0, Release);
    false
}

/// A pass through a [`Gate`] until dropped, by the thread that passed. Of the size of two words, so that it is returned in registers.
#[derive(Debug)]
#[must_use]
pub enum Pass<'a> {
    #[doc(hidden)]
    Counted(Counted<'a>),
    #[doc(hidden)]
    Shared(Box<RwSemGuard<'a>>),
}

/// A pass in the counter of its thread.
#[derive(Debug)]
pub struct Counted<'a> {
    gate: &'a Gate,
    slot: &'a Slot,
    _not_send: PhantomData<*const ()>,
}

impl Drop for Counted<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        order::released(self.gate.lock.class(), self.gate.address());
        self.slot.store(self.slot.load(Relaxed) - 1, Release);
    }
}

/// Keeps a [`Gate`] closed until dropped.
#[derive(Debug)]
#[must_use]
pub struct Closed<'a> {
    gate: &'a Gate,
    _alone: RwSemGuard<'a>,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.gate.closed.store(false, Release);
    }
}

#[cfg(test)]
mod tests;
