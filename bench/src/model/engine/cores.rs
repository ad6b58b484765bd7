//! Cores: who runs where, who waits, and timers.
//!
//! # Model
//! One queue for all cores. A worker that may run goes to the core where it ran last if that is idle, else to
//! any idle one, else to the end of the queue. A worker that has run for its time slice goes there too, if
//! somebody waits. A timer may fire later than asked, by the slack; when one fires, all of the same core
//! whose time has come fire with it, as the Linux kernel's do (timers(7) of PR_SET_TIMERSLACK in prctl(2)).

use super::Ticks;
use std::collections::VecDeque;

/// The cores of a machine.
#[derive(Clone, Debug)]
pub struct Cores {
    cores: Vec<Core>,
    /// Cores that were idle when they were put here.
    idle: Vec<usize>,
    queue: VecDeque<usize>,
}

#[derive(Clone, Debug, Default)]
struct Core {
    is_busy: bool,
    /// Who ran there last.
    last: Option<usize>,
    slice_ends: Ticks,
    /// Who sleeps, and from when on the timer may fire.
    timers: Vec<(usize, Ticks)>,
}

impl Cores {
    /// All idle; at least one.
    pub fn new(cores: usize) -> Cores {
        let cores = cores.max(1);
        Cores {
            cores: vec![Core::default(); cores],
            idle: (0..cores).rev().collect(),
            queue: VecDeque::new(),
        }
    }

    /// An idle core for a worker, `wanted` if possible; without one it is queued.
    pub fn place(&mut self, worker: usize, wanted: usize) -> Option<usize> {
        if self.cores.get(wanted).is_some_and(|core| !core.is_busy) {
            return Some(wanted);
        }
        while let Some(core) = self.idle.pop() {
            if !self.cores[core].is_busy {
                return Some(core);
            }
        }
        self.queue.push_back(worker);
        None
    }

    /// Whether another worker ran on that core last.
    pub fn is_new(&self, core: usize, worker: usize) -> bool {
        self.cores[core].last.is_some_and(|last| last != worker)
    }

    /// A worker runs from now on.
    pub fn begin(&mut self, core: usize, worker: usize, slice_ends: Ticks) {
        let core = &mut self.cores[core];
        core.is_busy = true;
        core.slice_ends = slice_ends;
        core.last = Some(worker);
    }

    /// The core is free; gives who is next, or leaves it idle.
    pub fn leave(&mut self, core: usize) -> Option<usize> {
        self.cores[core].is_busy = false;
        let next = self.queue.pop_front();
        if next.is_none() {
            self.idle.push(core);
        }
        next
    }

    /// Adds a worker to the end of the queue.
    pub fn enqueue(&mut self, worker: usize) {
        self.queue.push_back(worker);
    }

    /// Whether somebody waits for a core.
    pub fn somebody_waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether the time slice on a core is over and somebody waits; if nobody does, another begins.
    pub fn is_over(&mut self, core: usize, now: Ticks, slice: Ticks) -> bool {
        let waits = self.somebody_waits();
        let core = &mut self.cores[core];
        if now < core.slice_ends {
            return false;
        }
        if !waits {
            core.slice_ends = now.saturating_add(slice);
        }
        waits
    }

    /// A worker sleeps; its timer may fire from `soft` on.
    pub fn set_timer(&mut self, core: usize, worker: usize, soft: Ticks) {
        self.cores[core].timers.push((worker, soft));
    }

    /// Who wakes as the timer of `worker` fires on its core; nobody if it woke before.
    pub fn timers_due(&mut self, core: usize, worker: usize, now: Ticks) -> Vec<usize> {
        let timers = &mut self.cores[core].timers;
        let is_late = |&(sleeper, soft): &(usize, Ticks)| sleeper == worker && soft <= now;
        if !timers.iter().any(is_late) {
            return Vec::new();
        }
        let mut due = Vec::new();
        timers.retain(|&(sleeper, soft)| {
            if soft <= now {
                due.push(sleeper);
            }
            soft > now
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_whose_time_has_come_fire_together() {
        let mut cores = Cores::new(2);
        for (core, worker, soft) in [(0, 1, 10), (0, 2, 30), (0, 3, 70), (1, 4, 10)] {
            cores.set_timer(core, worker, soft);
        }
        assert_eq!(cores.timers_due(0, 1, 60), [1, 2]);
        assert!(
            cores.timers_due(0, 2, 80).is_empty(),
            "it woke with another"
        );
        assert_eq!(cores.timers_due(0, 3, 120), [3]);
    }

    #[test]
    fn the_core_where_it_ran_then_an_idle_one_then_the_queue() {
        let mut cores = Cores::new(2);
        assert_eq!(cores.place(7, 1), Some(1));
        cores.begin(1, 7, 0);
        assert_eq!(cores.place(8, 1), Some(0));
        cores.begin(0, 8, 0);
        assert_eq!(cores.place(9, 0), None);
        assert!(cores.somebody_waits());
        assert_eq!(cores.leave(1), Some(9));
        assert!(!cores.somebody_waits() && cores.leave(0).is_none());
    }
}
