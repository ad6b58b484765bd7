//! Cases whose result arithmetic gives.

use super::Step::{
    Compute, Demote, Device, Done, Exclusive, Line, Lock, Release, Shared, Sleep, TryLock, Unlock,
};
use super::*;

fn machine(cores: usize) -> Machine {
    Machine {
        cores,
        line_ns: 0.0,
        growth_per_waiter: 0.0,
        slice_ns: 3e6,
        switch_ns: 0.0,
        pause_ns: 1.0,
        yield_ns: 1.0,
        wake_ns: 0.0,
        notify_ns: 0.0,
        slack_ns: 0.0,
        servers: 1,
    }
}

/// Every worker goes through the same steps again and again.
struct Loop {
    steps: Vec<Step>,
    at: Vec<usize>,
}

impl Loop {
    fn of(workers: usize, steps: &[Step]) -> Loop {
        Loop {
            steps: [steps, &[Done]].concat(),
            at: vec![0; workers],
        }
    }
}

impl Protocol for Loop {
    fn next(&mut self, worker: usize, _core: usize, _outcome: Outcome) -> Step {
        let at = self.at[worker];
        self.at[worker] = (at + 1) % self.steps.len();
        self.steps[at]
    }
}

fn run(machine: &Machine, workers: usize, steps: &[Step]) -> Run {
    let setup = Setup {
        workers,
        locks: 1,
        rwlocks: 1,
        lines: 1,
        operations: 4000,
        quota: None,
    };
    Simulation::run(machine, setup, &mut Loop::of(workers, steps))
}

fn assert_near(a: f64, b: f64) {
    assert!((a / b - 1.0).abs() < 0.02, "{a} is not {b}");
}

const US: Ticks = 1_000_000;

#[test]
fn computing_scales_with_the_cores() {
    for (cores, workers, expected) in [
        (1, 1, 1e6),
        (2, 1, 1e6),
        (2, 2, 2e6),
        (2, 7, 2e6),
        (8, 8, 8e6),
    ] {
        let run = run(&machine(cores), workers, &[Compute(US)]);
        assert_near(run.ops_per_s, expected);
    }
}

#[test]
fn switching_takes_its_share_of_each_slice() {
    let switching = Machine {
        slice_ns: 10_000.0,
        switch_ns: 2_500.0,
        ..machine(1)
    };
    assert_near(run(&switching, 2, &[Compute(US)]).ops_per_s, 0.8e6);
    assert_near(run(&switching, 1, &[Compute(US)]).ops_per_s, 1e6);
}

#[test]
fn one_lock_lets_one_through_at_a_time() {
    let locked = [Lock(0), Compute(US), Unlock(0)];
    for workers in [1, 2, 5, 16] {
        let run = run(&machine(16), workers, &locked);
        assert_near(run.ops_per_s, 1e6);
        assert_near(run.acquisitions_per_op, 1.0);
    }
    // Half of each operation is outside.
    let half = [Compute(US), Lock(0), Compute(US), Unlock(0)];
    assert_near(run(&machine(2), 2, &half).ops_per_s, 1e6);
    assert_near(run(&machine(2), 1, &half).ops_per_s, 0.5e6);
}

/// Two that look for a lock all the time get its line each time; who waits makes it slower.
#[test]
fn the_line_of_a_lock_moves_and_waiters_make_it_slower() {
    let locked = [Lock(0), Compute(US), Unlock(0), Compute(US / 10)];
    let far = Machine {
        line_ns: 100.0,
        growth_per_waiter: 0.5,
        yield_ns: 300.0,
        ..machine(8)
    };
    assert_near(run(&far, 1, &locked).ops_per_s, 1e9 / 1100.0);
    let two = run(&far, 2, &locked).ops_per_s;
    assert!(two < 1e9 / 1090.0 && two > 1e9 / 1400.0, "{two}");
    let many = run(&far, 8, &locked).ops_per_s;
    assert!(many < 0.97 * two && many > 1e9 / 1700.0, "{many}");
}

#[test]
fn who_looked_for_too_long_sleeps_and_comes_back_later() {
    let locked = [Lock(0), Compute(20 * US), Unlock(0), Compute(US)];
    let sleepy = |wake_ns| Machine {
        wake_ns,
        ..machine(2)
    };
    // Both sleep once for each time that the other has the lock.
    assert_near(run(&sleepy(0.0), 2, &locked).ops_per_s, 1e6 / 20.0);
    let rate = run(&sleepy(5000.0), 2, &locked).ops_per_s;
    assert!(rate < 0.99e6 / 20.0 && rate > 1e6 / 26.0, "{rate}");
}

/// Who has the lock gets its core back soon.
#[test]
fn who_waits_offers_the_core_to_others() {
    let locked = [Lock(0), Compute(US), Unlock(0), Compute(3 * US)];
    let small = Machine {
        slice_ns: 900.0,
        yield_ns: 1e6,
        ..machine(1)
    };
    assert_near(run(&small, 4, &locked).ops_per_s, 0.25e6);
}

#[test]
fn a_try_gives_up() {
    struct Trying(Vec<u8>);
    impl Protocol for Trying {
        fn next(&mut self, worker: usize, _core: usize, outcome: Outcome) -> Step {
            let at = &mut self.0[worker];
            *at = (*at + 1) % 4;
            match (*at, outcome) {
                (1, _) => TryLock(0),
                (2, Outcome::Finished) => Compute(9 * US),
                (3, _) => Unlock(0),
                _ => {
                    *at = 0;
                    Done
                }
            }
        }
    }
    let setup = Setup {
        workers: 2,
        locks: 1,
        operations: 1000,
        ..Setup::default()
    };
    let slow = Machine {
        line_ns: 1000.0,
        ..machine(2)
    };
    let run = Simulation::run(&slow, setup, &mut Trying(vec![0; 2]));
    // While one has the lock for 9 us, the other fails each microsecond.
    assert!(run.acquisitions_per_op < 0.15, "{run:?}");
    assert!(run.ops_per_s > 0.9e6, "{run:?}");
}

#[test]
fn sleepers_need_no_core_and_may_wake_late() {
    let slept = [Sleep(100 * US)];
    assert_near(run(&machine(1), 10, &slept).ops_per_s, 10.0 / 100e-6);
    let late = Machine {
        slack_ns: 50_000.0,
        ..machine(1)
    };
    assert_near(run(&late, 1, &slept).ops_per_s, 1.0 / 150e-6);
}

#[test]
fn a_device_serves_so_many() {
    let device = |servers| Machine {
        servers,
        ..machine(2)
    };
    let request = [Device(80 * US)];
    assert_near(run(&device(32), 1, &request).ops_per_s, 12_500.0);
    assert_near(run(&device(32), 24, &request).ops_per_s, 24.0 * 12_500.0);
    assert_near(run(&device(4), 24, &request).ops_per_s, 4.0 * 12_500.0);
}

#[test]
fn writers_run_alone_and_readers_together() {
    let big = Machine {
        servers: 64,
        ..machine(2)
    };
    let within = |take: Step| [take, Device(10 * US), Release(0)];
    assert_near(run(&big, 8, &within(Shared(0))).ops_per_s, 8e5);
    assert_near(run(&big, 8, &within(Exclusive(0))).ops_per_s, 1e5);
    let slow = Machine {
        wake_ns: 2500.0,
        ..big.clone()
    };
    assert_near(run(&slow, 8, &within(Exclusive(0))).ops_per_s, 8e4);
    // All demote: the next waits until the one before has ended all the same.
    let demoted = [Exclusive(0), Demote(0), Device(10 * US), Release(0)];
    assert_near(run(&big, 8, &demoted).ops_per_s, 1e5);
}

/// Half write and demote: in the long run as many readers come in with each writer as there are writers.
#[test]
fn a_phase_has_a_writer_and_the_readers_that_waited() {
    struct Mixed(Vec<u8>, fastrand::Rng);
    impl Protocol for Mixed {
        fn next(&mut self, worker: usize, _core: usize, _outcome: Outcome) -> Step {
            let at = &mut self.0[worker];
            *at += 1;
            match *at {
                1 if self.1.bool() => {
                    *at = 2;
                    Shared(0)
                }
                1 => {
                    *at = 10;
                    Exclusive(0)
                }
                3 | 12 => Device(10 * US),
                4 | 13 => Release(0),
                11 => Demote(0),
                _ => {
                    *at = 0;
                    Done
                }
            }
        }
    }
    let setup = Setup {
        workers: 24,
        rwlocks: 1,
        operations: 20_000,
        ..Setup::default()
    };
    let big = Machine {
        servers: 64,
        ..machine(2)
    };
    let run = Simulation::run(
        &big,
        setup,
        &mut Mixed(vec![0; 24], fastrand::Rng::with_seed(3)),
    );
    assert!((run.ops_per_s / 2e5 - 1.0).abs() < 0.05, "{run:?}");
}

#[test]
fn a_line_has_one_owner() {
    let written = [Line(0), Compute(US / 10)];
    let far = |growth_per_waiter| Machine {
        line_ns: 200.0,
        growth_per_waiter,
        ..machine(16)
    };
    assert_near(run(&far(0.0), 1, &written).ops_per_s, 10e6);
    assert_near(run(&far(0.0), 16, &written).ops_per_s, 5e6);
    assert!(run(&far(0.1), 16, &written).ops_per_s < 3e6);
}

#[test]
fn a_quota_ends_with_the_last_worker() {
    let setup = Setup {
        workers: 3,
        quota: Some(10),
        ..Setup::default()
    };
    let run = Simulation::run(&machine(2), setup, &mut Loop::of(3, &[Compute(US)]));
    assert_near(run.ops_per_s, 30.0 / 20e-6);
}

#[test]
fn the_same_each_time() {
    let locked = [Lock(0), Compute(US / 7), Unlock(0), Line(0)];
    let odd = Machine {
        line_ns: 33.0,
        growth_per_waiter: 0.03,
        pause_ns: 15.0,
        yield_ns: 300.0,
        wake_ns: 1000.0,
        notify_ns: 100.0,
        ..machine(5)
    };
    assert_eq!(run(&odd, 9, &locked), run(&odd, 9, &locked));
}

#[test]
fn what_never_ends_an_operation_is_stopped() {
    struct Idle;
    impl Protocol for Idle {
        fn next(&mut self, _: usize, _: usize, _: Outcome) -> Step {
            Exclusive(0)
        }
    }
    let setup = Setup {
        workers: 2,
        rwlocks: 1,
        operations: 1,
        ..Setup::default()
    };
    assert_eq!(
        Simulation::run(&machine(1), setup, &mut Idle).ops_per_s,
        0.0
    );
}
