//! Discrete-event simulation of workers on cores.
//!
//! # Model
//! A worker runs a [`Protocol`]: a sequence of [`Step`]s, each given when the one before has ended. Computing,
//! moving a cache line and looking again for a lock occupy the worker's core; sleeping, waiting for a
//! device or for an inode lock do not. Time is kept in picoseconds, as a step may be a few nanoseconds
//! and a device's request a tenth of a millisecond.
//!
//! | module | holds |
//! | --- | --- |
//! | [`cores`] | who runs where, the run queue, and timers that fire together |
//! | [`lock`] | a lock whose waiters look again a few times, then sleep |
//! | [`rwlock`] | a phase-fair lock that is shared or exclusive, and can be demoted |
//! | [`mod@line`] | a cache line that one core has at a time |
//! | [`device`] | a device that serves so many requests at a time |
//! | `machine`, `protocol` | what workers run on, and what they do |
//!
//! # Invariants
//! - A worker that runs has a core, and a core has at most one worker.
//! - Events at the same time happen in the order in which they were entered, and all chance comes from one
//!   seed: a simulation gives the same result each time.

pub mod cores;
pub mod device;
pub mod line;
pub mod lock;
mod machine;
mod protocol;
pub mod rwlock;

use cores::Cores;
use device::Device;
use line::Line;
use lock::{Lock, PAUSES, YIELDS};
pub use machine::{Machine, Run, Setup};
pub use protocol::{Outcome, Protocol, Step};
use rwlock::RwLock;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Time in picoseconds.
pub type Ticks = u64;

/// No step takes longer, in nanoseconds.
const STEP_NS_MAX: f64 = 1e12;

/// Nanoseconds as ticks; nothing for what is negative or no number.
pub fn ticks(ns: f64) -> Ticks {
    (ns.clamp(0.0, STEP_NS_MAX) * 1000.0) as Ticks
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A worker's step on its core has ended.
    Resume,
    /// A worker may run again.
    Wake,
    /// A timer fires.
    Timer,
}

/// When, in which order among those, what, and of which worker.
type Entry = (Ticks, u64, Event, usize);

/// Stops what would go on for ever, were a protocol to end no operation.
const EVENTS_MAX: u64 = 5_000_000;

/// A simulation that runs.
pub struct Simulation<'a, P> {
    machine: &'a Machine,
    protocol: &'a mut P,
    now: Ticks,
    entered: u64,
    events: BinaryHeap<Reverse<Entry>>,
    cores: Cores,
    locks: Vec<Lock>,
    rwlocks: Vec<RwLock>,
    lines: Vec<Line>,
    device: Device,
    workers: Vec<Worker>,
    acquisitions: u64,
    ended: usize,
}

#[derive(Clone, Debug)]
struct Worker {
    core: usize,
    outcome: Outcome,
    /// The lock it is after.
    wants: Option<usize>,
    /// How often it found that taken, since it came or woke.
    failed: u32,
    ended: usize,
}

impl<'a, P: Protocol> Simulation<'a, P> {
    /// Runs `protocol` on `machine` until enough operations have ended.
    pub fn run(machine: &'a Machine, setup: Setup, protocol: &'a mut P) -> Run {
        let worker = Worker {
            core: 0,
            outcome: Outcome::Finished,
            wants: None,
            failed: 0,
            ended: 0,
        };
        let mut simulation = Simulation {
            machine,
            protocol,
            now: 0,
            entered: 0,
            events: BinaryHeap::new(),
            cores: Cores::new(machine.cores),
            locks: vec![Lock::default(); setup.locks],
            rwlocks: vec![RwLock::default(); setup.rwlocks],
            lines: vec![Line::default(); setup.lines],
            device: Device::new(machine.servers),
            workers: vec![worker; setup.workers],
            acquisitions: 0,
            ended: 0,
        };
        simulation.play(setup)
    }

    fn play(&mut self, setup: Setup) -> Run {
        for worker in 0..setup.workers {
            self.make_ready(worker, worker % self.machine.cores.max(1));
        }
        let (skip, all) = match setup.quota {
            Some(quota) => (0, quota * setup.workers),
            None => (
                setup.operations / 10,
                setup.operations + setup.operations / 10,
            ),
        };
        let (mut since, mut acquired, mut skipped) = (0, 0, 0);
        let mut counting = skip == 0;
        for _ in 0..EVENTS_MAX {
            if self.ended >= all {
                break;
            }
            let Some(Reverse((time, _, event, worker))) = self.events.pop() else {
                break;
            };
            self.now = time;
            self.happen(event, worker, setup.quota);
            if !counting && self.ended >= skip {
                counting = true;
                (since, acquired, skipped) = (self.now, self.acquisitions, self.ended);
            }
        }
        let ops = (self.ended - skipped) as f64;
        Run {
            ops_per_s: ops / (self.now - since).max(1) as f64 * 1e12,
            acquisitions_per_op: (self.acquisitions - acquired) as f64 / ops.max(1.0),
        }
    }

    fn happen(&mut self, event: Event, worker: usize, quota: Option<usize>) {
        match event {
            Event::Resume => self.resume(worker, quota),
            Event::Wake => self.make_ready(worker, self.workers[worker].core),
            Event::Timer => {
                for due in self
                    .cores
                    .timers_due(self.workers[worker].core, worker, self.now)
                {
                    self.make_ready(due, self.workers[due].core);
                }
            }
        }
    }

    fn at(&mut self, time: Ticks, event: Event, worker: usize) {
        self.entered += 1;
        self.events
            .push(Reverse((time, self.entered, event, worker)));
    }

    fn after(&mut self, time: Ticks, event: Event, worker: usize) {
        self.at(self.now.saturating_add(time), event, worker);
    }

    fn make_ready(&mut self, worker: usize, core: usize) {
        if let Some(core) = self.cores.place(worker, core) {
            self.put_on(worker, core);
        }
    }

    fn put_on(&mut self, worker: usize, core: usize) {
        self.workers[worker].core = core;
        let takes = match self.cores.is_new(core, worker) {
            true => ticks(self.machine.switch_ns),
            false => 0,
        };
        let slice_ends = self
            .now
            .saturating_add(takes + ticks(self.machine.slice_ns));
        self.cores.begin(core, worker, slice_ends);
        self.after(takes, Event::Resume, worker);
    }

    /// The worker leaves its core to the next in the queue.
    fn leave(&mut self, worker: usize) {
        let core = self.workers[worker].core;
        if let Some(next) = self.cores.leave(core) {
            self.put_on(next, core);
        }
    }

    /// The worker goes to the end of the queue.
    fn give_way(&mut self, worker: usize) {
        self.cores.enqueue(worker);
        self.leave(worker);
    }

    fn resume(&mut self, worker: usize, quota: Option<usize>) {
        let core = self.workers[worker].core;
        if self
            .cores
            .is_over(core, self.now, ticks(self.machine.slice_ns))
        {
            return self.give_way(worker);
        }
        if let Some(lock) = self.workers[worker].wants
            && !self.try_take(worker, lock)
        {
            return;
        }
        loop {
            let outcome = std::mem::replace(&mut self.workers[worker].outcome, Outcome::Finished);
            let step = self.protocol.next(worker, core, outcome);
            if step == Step::Done {
                self.ended += 1;
                self.workers[worker].ended += 1;
                if quota.is_some_and(|quota| self.workers[worker].ended >= quota) {
                    return self.leave(worker);
                }
            } else if !self.step(worker, step) {
                return;
            }
        }
    }

    /// Begins a step; true if it has ended at once.
    fn step(&mut self, worker: usize, step: Step) -> bool {
        match step {
            Step::Compute(0) | Step::Done => return true,
            Step::Compute(time) => self.after(time, Event::Resume, worker),
            Step::Sleep(time) => {
                let soft = self.now.saturating_add(time);
                let hard = soft.saturating_add(ticks(self.machine.slack_ns));
                self.cores
                    .set_timer(self.workers[worker].core, worker, soft);
                self.at(hard, Event::Timer, worker);
                self.leave(worker);
            }
            Step::Lock(lock) => return self.try_take(worker, lock),
            Step::TryLock(lock) => return self.try_lock(worker, lock),
            Step::Unlock(lock) => return self.unlock(worker, lock),
            Step::Line(line) => {
                let core = self.workers[worker].core;
                let took = self.lines[line].write(self.now, core, self.machine);
                if took == 0 {
                    return true;
                }
                self.after(took, Event::Resume, worker);
            }
            Step::Device(service) => {
                let done = self.device.admit(self.now, service);
                self.at(done, Event::Wake, worker);
                self.leave(worker);
            }
            Step::Shared(lock) => {
                let entered = self.rwlocks[lock].share(worker);
                return self.entered_or_sleeps(worker, entered);
            }
            Step::Exclusive(lock) => {
                let entered = self.rwlocks[lock].exclude(worker);
                return self.entered_or_sleeps(worker, entered);
            }
            Step::Demote(lock) => {
                let woken = self.rwlocks[lock].demote();
                self.hand_over(woken);
                return true;
            }
            Step::Release(lock) => {
                let woken = self.rwlocks[lock].release();
                self.hand_over(woken);
                return true;
            }
        }
        false
    }

    fn entered_or_sleeps(&mut self, worker: usize, entered: bool) -> bool {
        if !entered {
            self.leave(worker);
        }
        entered
    }

    fn hand_over(&mut self, woken: Vec<usize>) {
        for worker in woken {
            self.after(ticks(self.machine.wake_ns), Event::Wake, worker);
        }
    }

    /// Takes the lock, or pauses, or lets others run, or sleeps; true if the worker goes on at once.
    fn try_take(&mut self, worker: usize, lock: usize) -> bool {
        let core = self.workers[worker].core;
        let failed = self.workers[worker].failed;
        if let Some(moving) = self.locks[lock].take(core, self.machine, failed > 0) {
            self.acquisitions += 1;
            self.workers[worker].wants = None;
            self.workers[worker].failed = 0;
            if moving > 0 {
                self.after(moving, Event::Resume, worker);
            }
            return moving == 0;
        }
        self.workers[worker].wants = Some(lock);
        self.workers[worker].failed = failed + 1;
        if failed == 0 {
            self.locks[lock].looking += 1;
        }
        if failed < PAUSES {
            let pause_ns = self.machine.pause_ns * f64::from(2u32 << failed);
            self.after(ticks(pause_ns), Event::Resume, worker);
        } else if failed < PAUSES + YIELDS {
            if self.cores.somebody_waits() {
                self.give_way(worker);
            } else {
                self.after(ticks(self.machine.yield_ns), Event::Resume, worker);
            }
        } else {
            self.workers[worker].failed = 0;
            self.locks[lock].sleep(worker);
            self.leave(worker);
        }
        false
    }

    fn try_lock(&mut self, worker: usize, lock: usize) -> bool {
        let core = self.workers[worker].core;
        let Some(moving) = self.locks[lock].take(core, self.machine, false) else {
            self.workers[worker].outcome = Outcome::Refused;
            // Who fails has read the line, which the holder writes.
            self.after(ticks(self.machine.line_ns), Event::Resume, worker);
            return false;
        };
        self.acquisitions += 1;
        if moving > 0 {
            self.after(moving, Event::Resume, worker);
        }
        moving == 0
    }

    /// Lets the lock go; true if the worker goes on at once.
    fn unlock(&mut self, worker: usize, lock: usize) -> bool {
        let Some(sleeper) = self.locks[lock].release() else {
            return true;
        };
        self.after(ticks(self.machine.wake_ns), Event::Wake, sleeper);
        self.after(ticks(self.machine.notify_ns), Event::Resume, worker);
        false
    }
}

#[cfg(test)]
mod tests;
