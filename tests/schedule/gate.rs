//! The gate of changes, schedule by schedule: none inside while it is closed, and none waits for ever.
use crate::explore::explore;
use shuttle::thread;
use std::sync::Arc;
use uext4_sync::atomic::{AtomicU32, Ordering::SeqCst};
use uext4_sync::{Gate, class};

/// Threads that pass, one of them while it passes already, and one that only tries; two that close the gate.
fn pass_and_close() {
    let state = Arc::new((Gate::new(&class::FREEZE), AtomicU32::new(0)));
    let passing = (0..3).map(|number| {
        let state = Arc::clone(&state);
        thread::spawn(move || {
            let (gate, inside) = &*state;
            let pass = match number {
                0 => gate.try_pass(),
                _ => Some(gate.pass()),
            };
            let Some(pass) = pass else { return };
            inside.fetch_add(1, SeqCst);
            let again = (number == 1).then(|| gate.try_pass());
            thread::yield_now();
            inside.fetch_sub(1, SeqCst);
            drop(again);
            drop(pass);
        })
    });
    let passing: Vec<_> = passing.collect();
    let closing = [(), ()].map(|()| {
        let state = Arc::clone(&state);
        thread::spawn(move || {
            let (gate, inside) = &*state;
            let closed = gate.close();
            assert_eq!(inside.load(SeqCst), 0, "a pass through a closed gate");
            thread::yield_now();
            assert_eq!(inside.load(SeqCst), 0, "a pass through a closed gate");
            drop(closed);
        })
    });
    for thread in passing.into_iter().chain(closing) {
        thread.join().unwrap();
    }
    assert!(state.0.try_pass().is_some(), "it is open in the end");
}

#[test]
fn a_closed_gate_lets_none_pass() {
    explore(pass_and_close);
}
