#[cfg(not(loom))]
use super::*;

/// Passes and closings of many threads: no pass while it is closed.
#[cfg(not(any(shuttle, loom)))]
#[test]
fn closed_to_all_that_pass() {
    use crate::class;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    let gate = Gate::new(&class::FREEZE);
    let (inside, done) = (AtomicU64::new(0), std::sync::atomic::AtomicBool::new(false));
    let (rounds, mut met) = (if cfg!(miri) { 20 } else { 2000 }, 0);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (gate, inside, done) = (&gate, &inside, &done);
            scope.spawn(move || {
                let mut passes = 0;
                while !done.load(SeqCst) {
                    let pass = match (thread + passes) % 3 {
                        0 => gate.try_pass(),
                        _ => Some(gate.pass()),
                    };
                    passes += 1;
                    let Some(_pass) = pass else { continue };
                    // A plain sum, so that threads meet.
                    inside.fetch_add(1, SeqCst);
                    let again = gate.try_pass();
                    inside.fetch_sub(1, SeqCst);
                    drop(again);
                }
            });
        }
        for _ in 0..rounds {
            let closed = gate.close();
            met += inside.load(SeqCst);
            std::thread::yield_now();
            met += inside.load(SeqCst);
            drop(closed);
        }
        done.store(true, SeqCst);
    });
    assert_eq!(met, 0);
}

/// A thread that passes may pass again while another waits to close the gate.
#[cfg(not(any(shuttle, loom)))]
#[test]
fn passes_again_inside() {
    let gate = Gate::new(&crate::class::FREEZE);
    std::thread::scope(|scope| {
        let pass = gate.pass();
        let closing = scope.spawn(|| drop(gate.close()));
        while !gate.closed.load(Relaxed) && !closing.is_finished() {
            std::thread::yield_now();
        }
        assert!(gate.try_pass().is_some());
        assert!(std::thread::scope(|scope| {
            scope.spawn(|| gate.try_pass().is_none()).join().unwrap()
        }));
        drop(pass);
        closing.join().unwrap();
    });
    assert!(gate.try_pass().is_some());
}

/// Threads that end leave their numbers to others.
#[cfg(not(any(shuttle, loom, virtual_cpus)))]
#[test]
fn numbers_of_threads_that_ended_are_used_again() {
    let gate = Gate::new(&crate::class::FREEZE);
    for _ in 0..3000 {
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(matches!(gate.pass(), Pass::Counted(_))));
        });
    }
    assert!(gate.slots.iter().count() < 1024);
}

/// What one side writes inside, the other has seen whole once the counter is zero, in every order.
#[cfg(loom)]
#[test]
fn loom_no_pass_while_it_is_closed() {
    use super::{Slot, barrier, enter};
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

    struct Shared {
        slot: Slot,
        closed: AtomicBool,
        inside: UnsafeCell<u32>,
    }
    // SAFETY: loom checks it.
    unsafe impl Sync for Shared {}

    loom::model(|| {
        let shared = Arc::new(Shared {
            slot: Slot::new(AtomicU32::new(0)),
            closed: AtomicBool::new(false),
            inside: UnsafeCell::new(0),
        });
        let passing = Arc::clone(&shared);
        let other = loom::thread::spawn(move || {
            for _ in 0..2 {
                if enter(&passing.slot, &passing.closed) {
                    // SAFETY: what the model shows.
                    passing.inside.with_mut(|inside| unsafe { *inside += 1 });
                    passing.slot.store(0, Release);
                }
            }
        });
        shared.closed.store(true, Relaxed);
        barrier::of_all_threads();
        if shared.slot.load(Acquire) == 0 {
            // SAFETY: what the model shows.
            shared.inside.with_mut(|inside| unsafe { *inside += 1 });
            shared.closed.store(false, Release);
        }
        other.join().unwrap();
    });
}
