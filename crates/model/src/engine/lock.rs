//! A lock whose waiters spin for a while and then sleep.
//!
//! # Model
//! Who lets go gives the lock to the first that spins; the line that holds it moves to that core, longer with each
//! core that still spins, as they all ask for the line. Only a sleeper gets a notice and has to come and try, and
//! whoever is faster has the lock meanwhile: that is how locks with a word in user space and a queue in the
//! kernel work.

use super::{Machine, Ticks, ticks};
use std::collections::VecDeque;

/// The lock.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    is_held: bool,
    last_core: Option<usize>,
    /// Who occupies a core for it.
    pub spinning: VecDeque<Waiter>,
    /// Who sleeps for it.
    pub sleeping: VecDeque<usize>,
}

/// Who spins, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The worker.
    pub worker: usize,
    /// Its core.
    pub core: usize,
}

/// What follows from letting go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Freed {
    /// Who has it now, and in how long.
    pub next: Option<(Waiter, Ticks)>,
    /// Who is sent on its way.
    pub woken: Option<usize>,
}

impl Lock {
    /// Takes it if it is free; gives how long its line moves.
    pub fn take(&mut self, core: usize, machine: &Machine) -> Option<Ticks> {
        if self.is_held {
            return None;
        }
        self.is_held = true;
        Some(self.moves_to(core, machine))
    }

    fn moves_to(&mut self, core: usize, machine: &Machine) -> Ticks {
        match self.last_core.replace(core) {
            Some(last) if last != core => {
                let waiters = self.spinning.len() as f64;
                ticks(machine.line_ns * (1.0 + machine.growth_per_waiter * waiters))
            }
            _ => 0,
        }
    }

    /// Lets it go.
    pub fn release(&mut self, machine: &Machine) -> Freed {
        self.is_held = false;
        let next = self.spinning.pop_front().map(|next| {
            self.is_held = true;
            (next, self.moves_to(next.core, machine))
        });
        let woken = self.sleeping.pop_front();
        Freed { next, woken }
    }

    /// Takes a worker out of those that spin; false if it is not among them.
    pub fn stop_spinning(&mut self, worker: usize) -> bool {
        let place = self.spinning.iter().position(|w| w.worker == worker);
        place.and_then(|at| self.spinning.remove(at)).is_some()
    }
}
