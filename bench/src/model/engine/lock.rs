//! A lock whose waiters look again a few times and then sleep.
//!
//! # Model
//! As that of parking_lot: who finds it taken pauses, twice as long each time, then offers its core to others, and
//! at last sleeps. Nobody is handed the lock: whoever looks while it is free has it. Who lets go wakes one sleeper,
//! who looks as if it had just come. The line that holds the lock moves to each owner's core, and that takes longer
//! with each worker that looks again and again, as they all ask for the line.

use super::{Machine, Ticks, ticks};
use std::collections::VecDeque;

/// Pauses before the core is offered to others.
pub const PAUSES: u32 = 3;
/// Offers before the worker sleeps.
pub const YIELDS: u32 = 7;

#[derive(Clone, Debug, Default)]
pub struct Lock {
    is_held: bool,
    last_core: Option<usize>,
    /// How many found it taken and do not sleep.
    pub looking: usize,
    sleeping: VecDeque<usize>,
}

impl Lock {
    /// Takes it if it is free; gives how long its line moves. `looked` is whether the worker found it taken before.
    pub fn take(&mut self, core: usize, machine: &Machine, looked: bool) -> Option<Ticks> {
        if self.is_held {
            return None;
        }
        self.is_held = true;
        self.looking = self.looking.saturating_sub(usize::from(looked));
        Some(match self.last_core.replace(core) {
            Some(last) if last != core => {
                let waiters = self.looking as f64;
                ticks(machine.line_ns * (1.0 + machine.growth_per_waiter * waiters))
            }
            _ => 0,
        })
    }

    /// A worker sleeps until it is woken.
    pub fn sleep(&mut self, worker: usize) {
        self.looking = self.looking.saturating_sub(1);
        self.sleeping.push_back(worker);
    }

    /// Lets it go; gives who is woken.
    pub fn release(&mut self) -> Option<usize> {
        self.is_held = false;
        self.sleeping.pop_front()
    }
}
