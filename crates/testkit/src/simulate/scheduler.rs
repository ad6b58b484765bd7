//! Which thread runs next, from a seed.

use fastrand::Rng;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// How a schedule is drawn.
#[derive(Clone, Copy, Debug)]
enum Policy {
    /// At one place in so many, any thread is next.
    Switch(u32),
    /// The thread of the highest priority runs; at one place in so many it gets the lowest.
    Priority(u32),
}

const POLICIES: [Policy; 6] = [
    Policy::Switch(1),
    Policy::Switch(4),
    Policy::Switch(16),
    Policy::Switch(64),
    Policy::Priority(50),
    Policy::Priority(500),
];

/// A schedule that `seed` decides, for one execution.
#[derive(Debug)]
pub struct SeededScheduler {
    seed: u64,
    rng: Rng,
    policy: Policy,
    /// By number of the task; the highest runs.
    priorities: Vec<u64>,
    has_run: bool,
}

impl SeededScheduler {
    /// The schedule of `seed`.
    pub fn new(seed: u64) -> SeededScheduler {
        let mut rng = Rng::with_seed(seed);
        let policy = POLICIES[rng.usize(..POLICIES.len())];
        SeededScheduler {
            seed,
            rng,
            policy,
            priorities: Vec::new(),
            has_run: false,
        }
    }

    fn any(&mut self, runnable: &[&Task]) -> TaskId {
        runnable[self.rng.usize(..runnable.len())].id()
    }

    fn priority(&mut self, task: TaskId) -> u64 {
        let index = usize::from(task);
        while self.priorities.len() <= index {
            self.priorities.push(self.rng.u64(1 << 32..));
        }
        self.priorities[index]
    }

    fn highest(&mut self, runnable: &[&Task]) -> TaskId {
        let mut best = runnable[0].id();
        for task in runnable {
            if self.priority(task.id()) > self.priority(best) {
                best = task.id();
            }
        }
        best
    }
}

impl Scheduler for SeededScheduler {
    fn new_execution(&mut self) -> Option<Schedule> {
        match std::mem::replace(&mut self.has_run, true) {
            true => None,
            false => Some(Schedule::new(self.seed)),
        }
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let running = current.filter(|id| runnable.iter().any(|task| task.id() == *id));
        Some(match (self.policy, running) {
            (Policy::Switch(one_in), Some(running)) => {
                match is_yielding || self.rng.u32(..one_in) == 0 {
                    true => self.any(runnable),
                    false => running,
                }
            }
            (Policy::Switch(_), None) => self.any(runnable),
            (Policy::Priority(one_in), _) => {
                if let Some(running) = running
                    && (is_yielding || self.rng.u32(..one_in) == 0)
                {
                    self.priority(running);
                    // Below all others, but for those that got there before.
                    self.priorities[usize::from(running)] = self.rng.u64(..1 << 32);
                }
                self.highest(runnable)
            }
        })
    }

    fn next_u64(&mut self) -> u64 {
        self.rng.u64(..)
    }
}
