//! Hosts that take an image over from each other.

use uext4_testkit::object_store::Bug;
use uext4_testkit::prelude::*;
use uext4_testkit::two_hosts::run;

/// Ten thousand with `make nightly`.
#[test]
fn nothing_is_lost_between_hosts() {
    let seeds = env_number("UEXT4_HOST_SEEDS", 300);
    let next = AtomicU64::new(0);
    let (takeovers, requests) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return;
            }
            let outcome = run(seed, None).unwrap_or_else(|e| panic!("seed {seed}: {e:#}"));
            takeovers.fetch_add(outcome.takeovers, Ordering::Relaxed);
            requests.fetch_add(outcome.requests, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let (takeovers, requests) = (takeovers.into_inner(), requests.into_inner());
    println!("{seeds} seeds: {takeovers} takeovers, {requests} requests");
    assert!(takeovers > seeds, "{takeovers} takeovers of {seeds} seeds");
}

/// What would let two hosts write one image: a store that replaces what exists, and a lease that a clock ends.
#[test]
fn planted_bugs_are_caught() {
    for bug in [Bug::Replaces, Bug::Clock] {
        let caught = (0..100).find_map(|seed| run(seed, Some(bug)).err());
        let why = caught.unwrap_or_else(|| panic!("{bug:?} is not caught in 100 seeds"));
        println!("{bug:?}: {why}");
    }
}
