//! Many workers claim bits of one group's inode bitmap.

use super::{Times, Variant};
use crate::model::engine::{
    Machine, Outcome, Protocol, Run, Setup, Simulation, Step, Ticks, ticks,
};
use fastrand::Rng;

/// Lines of a group's bitmap.
const LINES: usize = 16;
/// Looking for a clear bit, in nanoseconds: some words of a line that is here.
pub(super) const SEARCH_NS: f64 = 20.0;

/// What the fitted number means.
#[derive(Clone, Copy, Debug)]
pub(super) enum Journal {
    /// Going to sleep and waking take so much CPU time, in nanoseconds.
    Sleeps(f64),
    /// CPU time is so many times longer.
    Computes(f64),
}

/// Plays creates of so many workers.
pub(super) fn play(times: &Times, journal: Journal, machine: &Machine, setup: Setup) -> Run {
    let mut machine = machine.clone();
    if let Journal::Sleeps(_) = journal {
        machine.slack_ns = machine.slack_ns.min(times.access.min(times.start) / 2.0);
    }
    let slack_ns = machine.slack_ns;
    let setup = Setup {
        locks: 1,
        lines: LINES,
        ..setup
    };
    let mut group = Group {
        times: *times,
        journal,
        slack_ns,
        bits: Bits::default(),
        workers: vec![Worker::default(); setup.workers],
        rng: Rng::with_seed(1),
    };
    Simulation::run(&machine, setup, &mut group)
}

/// The bitmap.
#[derive(Debug, Default)]
struct Bits {
    set: Vec<bool>,
    /// All before it are set.
    from: usize,
}

impl Bits {
    fn find(&self, at: usize) -> usize {
        let at = at.max(self.from);
        let behind = self.set.iter().skip(at).position(|set| !set);
        behind.map_or(self.set.len().max(at), |more| at + more)
    }

    /// True if it was clear.
    fn claim(&mut self, index: usize) -> bool {
        if self.set.len() <= index {
            self.set.resize(index + 1, false);
        }
        let was_clear = !std::mem::replace(&mut self.set[index], true);
        while self.set.get(self.from) == Some(&true) {
            self.from += 1;
        }
        was_clear
    }
}

/// Where a worker is in its create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Begin,
    Search,
    Start,
    StartSleeps,
    Access,
    AccessSleeps,
    Lock,
    Claim,
    Look,
    Unlock {
        won: bool,
    },
    End,
    Done,
}

#[derive(Clone, Copy, Debug, Default)]
struct Worker {
    stage: Stage,
    /// Where the search goes on.
    at: usize,
    /// The bit it is after.
    index: usize,
    started: bool,
}

struct Group {
    times: Times,
    journal: Journal,
    slack_ns: f64,
    bits: Bits,
    workers: Vec<Worker>,
    rng: Rng,
}

impl Group {
    fn slowed(&self, ns: f64) -> f64 {
        match self.journal {
            Journal::Sleeps(_) => ns,
            Journal::Computes(times) => ns * times,
        }
    }

    fn computes(&self, ns: f64) -> Step {
        Step::Compute(ticks(self.slowed(ns)))
    }

    /// Half of the CPU time, more or less.
    fn half(&mut self) -> Step {
        self.about(self.times.cpu / 2.0)
    }

    fn about(&mut self, mean_ns: f64) -> Step {
        let spread = 0.5 + self.rng.f64();
        self.computes(mean_ns * spread)
    }

    /// The CPU part of a journal call.
    fn call(&mut self, ns: f64) -> Step {
        match self.journal {
            Journal::Sleeps(cpu) => self.about(cpu),
            Journal::Computes(_) => self.computes(ns),
        }
    }

    /// The rest of it; the timer's slack comes on top.
    fn sleep(&self, ns: f64) -> Option<Ticks> {
        match self.journal {
            Journal::Sleeps(cpu) => Some(ticks(ns - cpu - self.slack_ns).max(1)),
            Journal::Computes(_) => None,
        }
    }
}

impl Protocol for Group {
    fn next(&mut self, worker: usize, core: usize, _outcome: Outcome) -> Step {
        let Worker {
            stage,
            at,
            index,
            started,
        } = self.workers[worker];
        let is_lock_free = self.times.variant == Variant::LockFree;
        let (next, step) = match stage {
            Stage::Begin if is_lock_free => (Stage::Start, self.half()),
            Stage::Begin => (Stage::Search, self.half()),
            Stage::Search => {
                let then = if started { Stage::Access } else { Stage::Start };
                self.workers[worker].index = self.bits.find(at);
                (then, Step::Line(0))
            }
            Stage::Start => {
                self.workers[worker].started = true;
                (Stage::StartSleeps, self.call(self.times.start))
            }
            Stage::StartSleeps => match self.sleep(self.times.start) {
                Some(time) => (Stage::Access, Step::Sleep(time)),
                None => (Stage::Access, Step::Compute(0)),
            },
            Stage::Access => (
                Stage::AccessSleeps,
                self.call(self.times.access + SEARCH_NS),
            ),
            Stage::AccessSleeps => {
                let then = if is_lock_free {
                    Stage::Claim
                } else {
                    Stage::Lock
                };
                match self.sleep(self.times.access) {
                    Some(time) => (then, Step::Sleep(time)),
                    None => (then, Step::Compute(0)),
                }
            }
            Stage::Lock => (Stage::Claim, Step::Lock(0)),
            Stage::Claim if is_lock_free => (Stage::End, Step::Line(core % LINES)),
            Stage::Claim => (Stage::Look, Step::Line(0)),
            Stage::Look => self.look(worker, index),
            Stage::Unlock { won } => {
                let then = if won { Stage::End } else { Stage::Search };
                self.workers[worker].at = index + 1;
                (then, Step::Unlock(0))
            }
            Stage::End => (Stage::Done, self.half()),
            Stage::Done => {
                self.workers[worker] = Worker::default();
                return Step::Done;
            }
        };
        self.workers[worker].stage = next;
        step
    }
}

impl Group {
    /// Sets the bit with the lock held, or finds it set.
    fn look(&mut self, worker: usize, index: usize) -> (Stage, Step) {
        let hold_ns = self.times.hold;
        if self.bits.claim(index) {
            return (Stage::Unlock { won: true }, self.computes(hold_ns));
        }
        if self.times.variant == Variant::RetryUnlocked {
            return (Stage::Unlock { won: false }, self.computes(hold_ns));
        }
        let index = self.bits.find(index);
        self.workers[worker].index = index;
        self.bits.claim(index);
        (
            Stage::Unlock { won: true },
            self.computes(hold_ns + SEARCH_NS),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_claimed_once_and_found_in_order() {
        let mut bits = Bits::default();
        assert_eq!(bits.find(0), 0);
        assert!(bits.claim(0) && !bits.claim(0) && bits.claim(2));
        assert_eq!((bits.find(0), bits.find(2), bits.find(9)), (1, 3, 9));
        assert!(bits.claim(1));
        assert_eq!(bits.find(0), 3);
    }
}
