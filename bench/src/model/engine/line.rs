//! A cache line that one core has at a time.
//!
//! # Model
//! Who has the line writes it for nothing. Everybody else waits until it has moved there, in the order in which
//! they came; moving takes longer with each core that waits.

use super::{Machine, Ticks, ticks};
use std::collections::VecDeque;

#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Who has it when all that wait have had it.
    owner: Option<usize>,
    /// When each of the moves that were asked for ends.
    moves: VecDeque<Ticks>,
}

impl Line {
    /// A core writes the line; gives how long that takes it.
    pub fn write(&mut self, now: Ticks, core: usize, machine: &Machine) -> Ticks {
        while self.moves.front().is_some_and(|end| *end <= now) {
            self.moves.pop_front();
        }
        let begins = self.moves.back().copied().unwrap_or(now);
        match self.owner.replace(core) {
            Some(owner) if owner != core => {
                let waiters = self.moves.len() as f64;
                let factor = 1.0 + machine.growth_per_waiter * waiters;
                let end = begins.saturating_add(ticks(machine.line_ns * factor));
                self.moves.push_back(end);
                end.saturating_sub(now)
            }
            _ => begins.saturating_sub(now),
        }
    }
}
