//! The smallest plan that still fails. Each try is a process of its own, since one that fails leaks what its threads held.

use super::life::CONTENDERS;
use super::plan::{Plan, Skipped};
use crate::external::*;

/// Schedules that are tried of each plan.
const SCHEDULES: u64 = 6;

/// Operations of one thread in one life are at most so many.
const NUMBERS_MAX: usize = 256;

/// Simplifies a plan until `end`: fewer kinds of events, fewer threads, one life, fewer operations.
pub fn minimise(plan: &Plan, end: Instant) -> Plan {
    let mut search = Search {
        best: plan.clone(),
        end,
    };
    search.simplify(|plan| plan.faults = false);
    search.simplify(|plan| plan.power_losses = false);
    search.simplify(|plan| plan.variants = false);
    search.simplify(|plan| plan.contest = false);
    search.lives();
    for threads in 1..plan.threads {
        if search.simplify(|plan| plan.threads = threads) {
            break;
        }
    }
    search.skip();
    search.best
}

struct Search {
    best: Plan,
    end: Instant,
}

impl Search {
    /// Tries a change, in the schedule of now and in others; keeps it if one fails.
    fn simplify(&mut self, change: impl Fn(&mut Plan)) -> bool {
        let mut plan = self.best.clone();
        change(&mut plan);
        if plan == self.best {
            return false;
        }
        for schedule in std::iter::once(plan.schedule).chain(0..SCHEDULES) {
            plan.schedule = schedule;
            if Instant::now() >= self.end {
                return false;
            }
            if fails(&plan) {
                self.best = plan;
                return true;
            }
        }
        false
    }

    /// The fewest lives.
    fn lives(&mut self) {
        for lives in [1, 2, 3, 5, 8, 12, 16, 24] {
            if lives < self.best.lives && self.simplify(|plan| plan.lives = lives) {
                break;
            }
        }
    }

    /// Leaves operations out: halves of each thread's in each life, then quarters, and so on.
    fn skip(&mut self) {
        let lives = self.best.lives.min(24);
        let mut len = NUMBERS_MAX;
        while len > 0 {
            // The last one is that which fails.
            for life in (0..lives).rev() {
                for thread in 0..self.best.threads + CONTENDERS {
                    for first in (0..NUMBERS_MAX).step_by(len) {
                        self.skip_part((life, thread), first..first + len);
                    }
                }
            }
            len /= 2;
        }
    }

    fn skip_part(&mut self, place: (usize, usize), numbers: Range<usize>) {
        let mut skipped: Skipped = self.best.skipped.clone();
        skipped.add(place, numbers);
        if skipped.len() > self.best.skipped.len() {
            self.simplify(|plan| plan.skipped = skipped.clone());
        }
    }
}

/// Whether a run of a plan fails, in a process of its own.
fn fails(plan: &Plan) -> bool {
    let program = std::env::current_exe();
    let status = program.and_then(|program| {
        Command::new(program)
            .args(plan.arguments())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    });
    // Not a wrong argument, nor a signal.
    status.is_ok_and(|status| status.code() == Some(1))
}
