//! An operation that is the same steps each time, in the same order.
//!
//! # Model
//! What is computed takes from half to one and a half times its mean, evenly spread, so that workers do not go in
//! step for ever. A try that is refused leaves out what was to be done with the lock.

use crate::model::engine::{Machine, Outcome, Protocol, Run, Setup, Simulation, Step, ticks};
use crate::model::parameters::Parameters;
use fastrand::Rng;

/// A part of an operation; times are means in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// Computes.
    Compute(f64),
    /// Takes the lock of the worker's shard of so many, holds it and lets it go.
    Locked {
        shards: usize,
        /// How long.
        hold_ns: f64,
    },
    /// As that, but gives up if it is taken; there is one shard.
    Tried {
        /// How long.
        hold_ns: f64,
    },
    /// Writes the line of its core's shard of so many.
    Line { shards: usize },
}

const STEPS_OF_PART: usize = 3;
/// Shards of anything: no more are simulated apart.
pub const SHARDS_MAX: usize = 1024;

struct Player<'a> {
    parts: &'a [Part],
    /// The next step of each worker.
    at: Vec<usize>,
    rng: Rng,
}

impl Player<'_> {
    fn about(&mut self, mean_ns: f64) -> Step {
        Step::Compute(ticks(mean_ns * (0.5 + self.rng.f64())))
    }
}

impl Protocol for Player<'_> {
    fn next(&mut self, worker: usize, core: usize, outcome: Outcome) -> Step {
        if outcome == Outcome::Refused {
            self.at[worker] += STEPS_OF_PART - 1;
        }
        let at = self.at[worker];
        let Some(&part) = self.parts.get(at / STEPS_OF_PART) else {
            self.at[worker] = 0;
            return Step::Done;
        };
        self.at[worker] += match part {
            Part::Compute(_) | Part::Line { .. } => STEPS_OF_PART,
            Part::Locked { .. } | Part::Tried { .. } => 1,
        };
        let shard = |of: usize, shards: usize| of % shards.clamp(1, SHARDS_MAX);
        match (part, at % STEPS_OF_PART) {
            (Part::Compute(mean_ns), _) => self.about(mean_ns),
            (Part::Line { shards }, _) => Step::Line(shard(core, shards)),
            (Part::Locked { shards, .. }, 0) => Step::Lock(shard(worker, shards)),
            (Part::Tried { .. }, 0) => Step::TryLock(0),
            (Part::Locked { hold_ns, .. } | Part::Tried { hold_ns }, 1) => self.about(hold_ns),
            (Part::Locked { shards, .. }, _) => Step::Unlock(shard(worker, shards)),
            (Part::Tried { .. }, _) => Step::Unlock(0),
        }
    }
}

/// Plays an operation of `parts` by so many workers.
pub fn play(parts: &[Part], machine: &Machine, workers: usize, parameters: &Parameters) -> Run {
    let shards = |of: fn(&Part) -> usize| parts.iter().map(of).max().unwrap_or(0).min(SHARDS_MAX);
    let setup = Setup {
        workers,
        locks: shards(|part| match part {
            Part::Locked { shards, .. } => *shards,
            Part::Tried { .. } => 1,
            _ => 0,
        }),
        lines: shards(|part| match part {
            Part::Line { shards } => *shards,
            _ => 0,
        }),
        operations: parameters.operations_of(workers, parts.len() * STEPS_OF_PART),
        ..Setup::default()
    };
    let mut player = Player {
        parts,
        at: vec![0; workers],
        rng: Rng::with_seed(1),
    };
    Simulation::run(machine, setup, &mut player)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(parts: &[Part], workers: usize) -> Run {
        let mut parameters = Parameters {
            line_here_ns: 0.0,
            ..Parameters::default()
        };
        let machine = &mut parameters.machine;
        (machine.pause_ns, machine.yield_ns) = (1.0, 1.0);
        (machine.wake_ns, machine.notify_ns) = (0.0, 0.0);
        play(parts, &parameters.here(8), workers, &parameters)
    }

    #[test]
    fn shards_keep_workers_apart() {
        let locked = |shards| {
            [Part::Locked {
                shards,
                hold_ns: 1000.0,
            }]
        };
        assert!((rate(&locked(1), 8).ops_per_s / 1e6 - 1.0).abs() < 0.03);
        assert!((rate(&locked(8), 8).ops_per_s / 8e6 - 1.0).abs() < 0.03);
        assert!((rate(&locked(4), 8).ops_per_s / 4e6 - 1.0).abs() < 0.05);
    }

    #[test]
    fn tries_are_left_out_when_refused() {
        let parts = [Part::Compute(100.0), Part::Tried { hold_ns: 1000.0 }];
        let alone = rate(&parts, 1);
        assert_eq!(alone.acquisitions_per_op, 1.0);
        let many = rate(&parts, 8);
        assert!(many.acquisitions_per_op < 0.5 && many.ops_per_s > 8.0 * alone.ops_per_s);
    }
}
