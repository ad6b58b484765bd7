//! Power losses under random workloads. `UEXT4_CRASH_RUNS` sets how many workloads,
//! `UEXT4_CRASH_SEED` the first seed.

use uext4_testkit::crash::{Plan, canary_is_caught, examine, record};
use uext4_testkit::prelude::*;

fn plan(seed: u64, kernel: bool) -> Plan {
    let shape = Shape::ALL[(seed % Shape::ALL.len() as u64) as usize];
    Plan {
        seed,
        shape,
        data: None,
        threads: 2,
        operations: 50,
        direct_percent: 0,
        cuts: 20,
        sample_permille: 50,
        kernel,
        is_atomic: false,
    }
}

/// Each thread fills holes of one file, extends it and syncs it, directly.
fn direct_plan(seed: u64, kernel: bool) -> Plan {
    Plan {
        threads: 3,
        direct_percent: 90,
        ..plan(seed, kernel)
    }
}

/// Images whose files have no extents.
fn block_map_plan(seed: u64, kernel: bool) -> Plan {
    let shapes = &Shape::BLOCK_MAPPED[..Shape::BLOCK_MAPPED_JOURNALED];
    Plan {
        shape: shapes[(seed % shapes.len() as u64) as usize],
        direct_percent: if seed % 8 < 4 { 0 } else { 60 },
        ..plan(seed, kernel)
    }
}

/// Each mode of `data=` on blocks of 1 and of 4 KiB, with a journal that wraps and checkpoints all the time.
fn data_mode_plan(seed: u64, kernel: bool) -> Plan {
    let modes = [DataMode::Journal, DataMode::Ordered, DataMode::Writeback];
    let shapes = &Shape::SMALL_JOURNAL;
    Plan {
        data: Some(modes[seed as usize % modes.len()]),
        shape: shapes[seed as usize / modes.len() % shapes.len()],
        operations: 120,
        direct_percent: if seed.is_multiple_of(4) { 40 } else { 0 },
        ..plan(seed, kernel)
    }
}

/// Images whose small files are in their inodes: half of the runs about conversions under direct writes.
fn inline_plan(seed: u64, kernel: bool) -> Plan {
    Plan {
        shape: Shape::INLINE[(seed % Shape::INLINE.len() as u64) as usize],
        direct_percent: if seed % 10 < 5 { 0 } else { 40 },
        ..plan(seed, kernel)
    }
}

/// Images with attributes whose values have inodes of their own.
fn large_values_plan(seed: u64, kernel: bool) -> Plan {
    Plan {
        shape: Shape::LARGE_VALUES[(seed % Shape::LARGE_VALUES.len() as u64) as usize],
        ..plan(seed, kernel)
    }
}

/// Images with clusters of several blocks, of which a crash leaves as many in use as files have.
fn bigalloc_plan(seed: u64, kernel: bool) -> Plan {
    Plan {
        shape: Shape::BIGALLOC[(seed % Shape::BIGALLOC.len() as u64) as usize],
        direct_percent: if seed % 10 < 5 { 0 } else { 40 },
        // What e2fsck replays of fast commits leaves inodes unused that are in use.
        sample_permille: if seed % 5 == 2 { 0 } else { 50 },
        // The kernel here may have no quotas.
        ..plan(seed, kernel && seed % 5 != 1)
    }
}

/// Images that keep quotas: usage is of the same moment as the inodes. The kernel here may have none.
fn quota_plan(seed: u64, _kernel: bool) -> Plan {
    Plan {
        shape: Shape::QUOTA[(seed % Shape::QUOTA.len() as u64) as usize],
        ..plan(seed, false)
    }
}

/// A device whose flushes are atomic, so that a commit flushes once.
fn atomic_plan(seed: u64, kernel: bool) -> Plan {
    let plan = match seed % 2 {
        0 => plan(seed, kernel),
        _ => data_mode_plan(seed, kernel),
    };
    Plan {
        is_atomic: true,
        cuts: 60,
        ..plan
    }
}

fn run(runs: u64, plan: impl Fn(u64, bool) -> Plan + Sync) {
    let first = env_number("UEXT4_CRASH_SEED", 0);
    let kernel = uext4_testkit::image::kernel_mounts();
    let next = AtomicU64::new(first);
    let (cuts, sampled, guarantees) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let failures = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + runs {
                        return;
                    }
                    let plan = plan(seed, kernel);
                    let done = record(&plan).and_then(|recording| examine(&plan, &recording));
                    match done {
                        Ok(tally) => {
                            cuts.fetch_add(tally.cuts, Ordering::Relaxed);
                            sampled.fetch_add(tally.sampled, Ordering::Relaxed);
                            guarantees.fetch_add(tally.guarantees, Ordering::Relaxed);
                        }
                        Err(why) => {
                            eprintln!("FAILED seed {seed}, {}: {why:#}", plan.shape.name);
                            failures.lock().unwrap().push(seed);
                        }
                    }
                }
            });
        }
    });
    println!(
        "{runs} workloads, {cuts:?} power losses, {sampled:?} of them also for e2fsck and the kernel, {guarantees:?} guarantees"
    );
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} of {runs} failed: {failures:?}",
        failures.len()
    );
}

#[test]
fn crash_random_workloads() {
    run(env_number("UEXT4_CRASH_RUNS", 8), plan);
}

#[test]
fn crash_direct_writes() {
    run(env_number("UEXT4_CRASH_RUNS", 8), direct_plan);
}

#[test]
fn crash_block_maps() {
    run(env_number("UEXT4_CRASH_RUNS", 4), block_map_plan);
}

#[test]
fn crash_data_modes() {
    run(env_number("UEXT4_CRASH_RUNS", 6), data_mode_plan);
}

#[test]
fn crash_inline_data() {
    run(env_number("UEXT4_CRASH_RUNS", 5), inline_plan);
}

#[test]
fn crash_bigalloc() {
    run(env_number("UEXT4_CRASH_RUNS", 5), bigalloc_plan);
}

#[test]
fn crash_large_values() {
    run(env_number("UEXT4_CRASH_RUNS", 4), large_values_plan);
}

#[test]
fn crash_quotas() {
    run(env_number("UEXT4_CRASH_RUNS", 6), quota_plan);
}

#[test]
fn crash_atomic_flushes() {
    run(env_number("UEXT4_CRASH_RUNS", 5), atomic_plan);
}

#[test]
fn crash_canary_ignored_flushes_are_caught() {
    let caught = (1000..1010).any(|seed| {
        let plan = plan(seed, false);
        let recording = record(&plan).expect("workload");
        canary_is_caught(&plan, &recording).expect("canary")
    });
    assert!(caught, "a device that ignores flushes went unnoticed");
}
