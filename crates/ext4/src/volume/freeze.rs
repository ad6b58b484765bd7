//! The gate that changes pass: a freeze closes it, and a thaw opens it.
//!
//! # Invariants
//! - Each operation that changes something passes the gate from before its first lock to its end. So while it is
//!   closed no change runs, and a change that waits for a thaw holds nothing that a read needs.
//! - `is_frozen` changes only with the gate closed.
//! - What must not wait (access times, deletions by the last reference, damage) tries the gate, and is left undone or put
//!   off where that fails.
//!
//! # Locking
//! `freeze`, outside all locks of the file system. Waiters for a thaw hold `frozen` for a moment.

use crate::prelude::*;
use uext4_sync::{Closed, Gate, Pass};

/// The gate; see the module.
#[derive(Debug)]
pub(crate) struct FreezeGate {
    changes: Gate,
    /// What `frozen` says, for those that pass the gate.
    is_frozen: AtomicBool,
    /// Whether changes wait for a thaw.
    frozen: Mutex<bool>,
    thawed: Condvar,
}

impl FreezeGate {
    /// An open gate.
    pub fn new() -> FreezeGate {
        FreezeGate {
            changes: Gate::new(&class::FREEZE),
            is_frozen: AtomicBool::new(false),
            frozen: Mutex::new(&class::FROZEN, false),
            thawed: Condvar::new(),
        }
    }

    /// Begins a change, which ends when the result is dropped. Waits while the file system is frozen.
    #[inline]
    pub fn begin_change(&self) -> Pass<'_> {
        let change = self.changes.pass();
        if !self.is_frozen() {
            return change;
        }
        drop(change);
        self.begin_after_thaw()
    }

    /// As [`FreezeGate::begin_change`], but none if it would wait.
    #[inline]
    pub fn try_change(&self) -> Option<Pass<'_>> {
        let change = self.changes.try_pass()?;
        (!self.is_frozen()).then_some(change)
    }

    /// As [`FreezeGate::begin_change`], but none if the file system is frozen. Waits while a freeze or a thaw runs.
    #[inline]
    pub fn change_unless_frozen(&self) -> Option<Pass<'_>> {
        let change = self.changes.pass();
        (!self.is_frozen()).then_some(change)
    }

    /// Waits until the changes that run have ended; none begins before the result is dropped.
    pub fn stop_changes(&self) -> Closed<'_> {
        self.changes.close()
    }

    /// Whether changes wait for a thaw.
    #[inline]
    pub fn is_frozen(&self) -> bool {
        self.is_frozen.load(Relaxed)
    }

    /// Says whether changes wait for a thaw. The caller has closed the gate.
    pub fn set_frozen(&self, is_frozen: bool) {
        self.is_frozen.store(is_frozen, Relaxed);
        *self.frozen.lock() = is_frozen;
        self.thawed.notify_all();
    }

    #[cold]
    fn begin_after_thaw(&self) -> Pass<'_> {
        loop {
            self.wait_for_thaw();
            if let Some(change) = self.change_unless_frozen() {
                return change;
            }
        }
    }

    fn wait_for_thaw(&self) {
        let mut frozen = self.frozen.lock();
        while *frozen {
            self.thawed.wait(&mut frozen);
        }
    }
}
