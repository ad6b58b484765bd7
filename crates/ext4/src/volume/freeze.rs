//! The gate that changes pass: a freeze closes it, and a thaw opens it.
//!
//! # Invariants
//! - Each operation that changes something holds the gate shared from before its first lock to its end. So while it is
//!   held alone no change runs, and a change that waits for a thaw holds nothing that a read needs.
//! - `is_frozen` changes only with the gate held alone.
//! - What must not wait (access times, deletions by the last reference, damage) tries the gate, and is left undone or put
//!   off where that fails.
//!
//! # Locking
//! `freeze`, outside all locks of the file system. Waiters for a thaw hold `frozen` for a moment.

use crate::prelude::*;
use uext4_sync::{RwSem, RwSemGuard};

/// The gate; see the module.
#[derive(Debug)]
pub(crate) struct FreezeGate {
    changes: RwSem,
    /// What `frozen` says, for those that hold the gate.
    is_frozen: AtomicBool,
    /// Whether changes wait for a thaw.
    frozen: Mutex<bool>,
    thawed: Condvar,
}

impl FreezeGate {
    /// An open gate.
    pub fn new() -> FreezeGate {
        FreezeGate {
            changes: RwSem::new(&class::FREEZE),
            is_frozen: AtomicBool::new(false),
            frozen: Mutex::new(&class::FROZEN, false),
            thawed: Condvar::new(),
        }
    }

    /// Begins a change, which ends when the result is dropped. Waits while the file system is frozen.
    #[inline]
    pub fn begin_change(&self) -> RwSemGuard<'_> {
        loop {
            if let Some(change) = self.change_unless_frozen() {
                return change;
            }
            self.wait_for_thaw();
        }
    }

    /// As [`FreezeGate::begin_change`], but none if it would wait.
    #[inline]
    pub fn try_change(&self) -> Option<RwSemGuard<'_>> {
        let change = self.changes.try_shared()?;
        (!self.is_frozen()).then_some(change)
    }

    /// As [`FreezeGate::begin_change`], but none if the file system is frozen. Waits while a freeze or a thaw runs.
    #[inline]
    pub fn change_unless_frozen(&self) -> Option<RwSemGuard<'_>> {
        let change = self.changes.shared(0);
        (!self.is_frozen()).then_some(change)
    }

    /// Waits until the changes that run have ended; none begins before the result is dropped.
    pub fn stop_changes(&self) -> RwSemGuard<'_> {
        self.changes.exclusive(0)
    }

    /// Whether changes wait for a thaw.
    #[inline]
    pub fn is_frozen(&self) -> bool {
        self.is_frozen.load(Relaxed)
    }

    /// Says whether changes wait for a thaw. The caller holds the gate alone.
    pub fn set_frozen(&self, is_frozen: bool) {
        self.is_frozen.store(is_frozen, Relaxed);
        *self.frozen.lock() = is_frozen;
        self.thawed.notify_all();
    }

    #[cold]
    fn wait_for_thaw(&self) {
        let mut frozen = self.frozen.lock();
        while *frozen {
            self.thawed.wait(&mut frozen);
        }
    }
}
