//! What the operation that this thread runs has reserved against limits, and whether they apply to its caller.
//!
//! # Invariants
//! An operation runs on one thread from its first lock to its end, so what it reserved is the thread's.

use crate::prelude::*;
use crate::quota::dquot::{Dquot, Grace};
use std::cell::RefCell;

/// Reserved for one owner.
struct Held {
    dquot: Arc<Dquot>,
    grace: Grace,
    space: i64,
    inodes: i64,
}

struct Operation {
    exempt: bool,
    held: Vec<Held>,
}

uext4_sync::thread_local! {
    /// The operation, and those around it.
    static RUNNING: RefCell<Vec<Operation>> = const { RefCell::new(Vec::new()) };
}

/// An operation that limits apply to; ends it when dropped.
#[derive(Debug)]
pub(crate) struct Scope(());

impl Scope {
    pub(super) fn begin(exempt: bool) -> Scope {
        RUNNING.with(|running| {
            running.borrow_mut().push(Operation {
                exempt,
                held: Vec::new(),
            });
        });
        Scope(())
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let ended = RUNNING.with(|running| running.borrow_mut().pop());
        give_back(ended.map(|operation| operation.held));
    }
}

fn give_back(held: Option<Vec<Held>>) {
    for held in held.into_iter().flatten() {
        held.dquot.release(&held.grace, held.space, held.inodes);
    }
}

fn with<R>(f: impl FnOnce(&mut Operation) -> R) -> Option<R> {
    RUNNING.with(|running| running.borrow_mut().last_mut().map(f))
}

/// Whether limits apply to what this thread does.
pub(super) fn is_running() -> bool {
    with(|_| ()).is_some()
}

/// Whether the caller may exceed them.
pub(super) fn is_exempt() -> bool {
    with(|operation| operation.exempt).unwrap_or(true)
}

/// Releases what was reserved and not used, before another attempt.
pub(crate) fn start_again() {
    give_back(with(|operation| std::mem::take(&mut operation.held)));
}

/// Remembers a reservation.
pub(super) fn hold(dquot: &Arc<Dquot>, grace: &Grace, space: i64, inodes: i64) {
    with(|operation| {
        let same = operation
            .held
            .iter_mut()
            .find(|held| Arc::ptr_eq(&held.dquot, dquot));
        match same {
            Some(held) => {
                held.space += space;
                held.inodes += inodes;
            }
            None => operation.held.push(Held {
                dquot: Arc::clone(dquot),
                grace: grace.clone(),
                space,
                inodes,
            }),
        }
    });
}

/// Takes of what is reserved for an owner as much as usage grows by; says how much it was.
pub(super) fn take(dquot: &Dquot, space: i64, inodes: i64) -> (i64, i64) {
    with(|operation| {
        let held = operation
            .held
            .iter_mut()
            .find(|held| std::ptr::eq(&*held.dquot, dquot));
        held.map_or((0, 0), |held| {
            let taken = (space.clamp(0, held.space), inodes.clamp(0, held.inodes));
            held.space -= taken.0;
            held.inodes -= taken.1;
            taken
        })
    })
    .unwrap_or_default()
}

/// Takes a reservation back.
pub(super) fn release(dquot: &Dquot, grace: &Grace, space: i64, inodes: i64) {
    let (space, inodes) = take(dquot, space, inodes);
    dquot.release(grace, space, inodes);
}
