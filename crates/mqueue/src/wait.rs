//! Waiting: deadlines, priorities, and waking single waiters.
//!
//! # Invariants
//! A waiter has a slot of the queue from before it enters a list until it has read the outcome. The slot says whether the
//! call is done, under the queue's lock. No thread waits for a [`Deferred`] call: the thread that completes or ends it takes
//! it out of its slot under the lock, and answers it after that.
//!
//! # Locking
//! All but the flag of [`Interrupt`] is guarded by the lock of the queue.

use crate::message::Message;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::{Condvar, MutexGuard};
use uext4_vfs::{Errno, Result, Timestamp};

/// How a call waits. The default is without a deadline, with priority 0.
#[derive(Clone, Debug, Default)]
pub struct Wait {
    /// When to give up, by the clock `CLOCK_REALTIME`.
    pub deadline: Option<Timestamp>,
    /// The thread's scheduling priority: of several that wait, the highest goes first.
    pub sched_priority: i32,
    /// What can end the wait from outside.
    pub interrupt: Option<Interrupt>,
}

impl Wait {
    /// Until `deadline`.
    pub fn until(deadline: Timestamp) -> Wait {
        Wait {
            deadline: Some(deadline),
            ..Wait::default()
        }
    }

    /// Checks the deadline, as Linux does even if the call need not wait.
    ///
    /// # Errors
    /// `EINVAL`: seconds below 0, or nanoseconds of a second and more.
    pub(crate) fn check(&self) -> Result<()> {
        match self.deadline {
            Some(at) if at.sec < 0 || at.nsec >= 1_000_000_000 => Err(Errno::EINVAL.into()),
            _ => Ok(()),
        }
    }
}

/// Ends a wait from outside, as a signal does: see [`crate::queue::Queue::interrupt`].
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// One that has not happened.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn is(&self, other: &Interrupt) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Reports that a message was sent, or an error. Called once, with no lock held, by the thread that completes or ends the
/// call.
pub type OnSent = Box<dyn FnOnce(Result<()>) + Send>;
/// Passes a message and its priority, or an error. Called as [`OnSent`].
pub type OnReceived = Box<dyn FnOnce(Result<(&[u8], u32)>) + Send>;

/// A call that waits without a thread.
pub struct Deferred<F> {
    /// What [`crate::queue::Queue::cancel`] finds it by; no other call that waits has it.
    pub id: u64,
    /// As [`Wait::sched_priority`].
    pub sched_priority: i32,
    /// Answers it.
    pub answer: F,
}

/// The answer of a [`Deferred`] call.
pub(crate) enum Answer {
    Sent(OnSent),
    Received(OnReceived),
}

impl Answer {
    /// Ends the call.
    pub fn fail(self, why: Errno) {
        match self {
            Answer::Sent(answer) => answer(Err(why.into())),
            Answer::Received(answer) => answer(Err(why.into())),
        }
    }
}

/// What remains to be done for a complete call, with no lock held.
pub(crate) enum Finished {
    Wake(Arc<Wake>),
    Sent(OnSent),
}

impl Finished {
    pub fn run(self) {
        match self {
            Finished::Wake(wake) => wake.wake(),
            Finished::Sent(answer) => answer(Ok(())),
        }
    }
}

/// Wakes one waiter.
#[derive(Debug)]
pub(crate) struct Wake {
    condvar: Condvar,
}

/// A change of the clock during a wait is noticed within this time.
const SLEEP_MAX: Duration = Duration::from_secs(1);

impl Wake {
    /// Wakes the waiter. Called without the queue's lock, so that it finds the lock free.
    pub fn wake(&self) {
        self.condvar.notify_one();
    }

    /// Sleeps until woken; true when `deadline` has passed.
    pub fn sleep<T>(&self, guard: &mut MutexGuard<'_, T>, deadline: Option<Timestamp>) -> bool {
        let Some(deadline) = deadline else {
            self.condvar.wait(guard);
            return false;
        };
        if cfg!(shuttle) {
            return self.condvar.wait_for(guard, SLEEP_MAX);
        }
        let left = deadline.since(Timestamp::now());
        if left.is_zero() {
            return true;
        }
        self.condvar.wait_for(guard, left.min(SLEEP_MAX));
        false
    }
}

/// The state of a waiting call, shared by the waiter and the thread that completes the call.
pub(crate) struct Slot {
    wake: Arc<Wake>,
    /// Of a sender: its message until it is taken. Of a receiver: the message that it gets.
    pub message: Option<Message>,
    /// Whether the call is complete.
    done: bool,
    interrupt: Option<Interrupt>,
    /// The id and the answer of a deferred call.
    deferred: Option<(u64, Answer)>,
}

/// The slots of a queue; they are used again.
#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

impl Slots {
    /// A slot for a waiter.
    pub fn claim(&mut self, message: Option<Message>, wait: &Wait) -> usize {
        let interrupt = wait.interrupt.clone();
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index];
            slot.message = message;
            slot.done = false;
            slot.interrupt = interrupt;
            return index;
        }
        self.slots.push(Slot {
            wake: Arc::new(Wake {
                condvar: Condvar::new(),
            }),
            message,
            done: false,
            interrupt,
            deferred: None,
        });
        self.slots.len() - 1
    }

    /// A slot for a call that no thread waits for.
    pub fn claim_deferred(&mut self, message: Option<Message>, id: u64, answer: Answer) -> usize {
        let index = self.claim(message, &Wait::default());
        self.slots[index].deferred = Some((id, answer));
        index
    }

    /// Takes a deferred call out of its slot, which is free then, with its message; `None` if a thread waits there.
    pub fn take_deferred(&mut self, index: usize) -> Option<(Answer, Option<Message>)> {
        let (_, answer) = self.slots[index].deferred.take()?;
        Some((answer, self.release(index)))
    }

    /// The slot of the deferred call with that id.
    pub fn find_deferred(&self, id: u64) -> Option<usize> {
        let has = |slot: &Slot| matches!(&slot.deferred, Some((own, _)) if *own == id);
        self.slots.iter().position(has)
    }

    /// Frees a slot and returns its message.
    pub fn release(&mut self, index: usize) -> Option<Message> {
        let slot = &mut self.slots[index];
        slot.interrupt = None;
        self.free.push(index);
        slot.message.take()
    }

    /// Marks a call as complete. The caller wakes the waiter after it releases the lock.
    pub fn finish(&mut self, index: usize) -> Arc<Wake> {
        let slot = &mut self.slots[index];
        slot.done = true;
        Arc::clone(&slot.wake)
    }

    pub fn slot(&mut self, index: usize) -> &mut Slot {
        &mut self.slots[index]
    }

    pub fn wake(&self, index: usize) -> Arc<Wake> {
        Arc::clone(&self.slots[index].wake)
    }

    pub fn is_done(&self, index: usize) -> bool {
        self.slots[index].done
    }

    pub fn is_interrupted(&self, index: usize) -> bool {
        let interrupt = &self.slots[index].interrupt;
        interrupt.as_ref().is_some_and(Interrupt::is_set)
    }

    /// The waiters that wait with `interrupt`.
    pub fn waiting_with(&self, interrupt: &Interrupt) -> Vec<Arc<Wake>> {
        let with = |slot: &&Slot| slot.interrupt.as_ref().is_some_and(|i| i.is(interrupt));
        let waiting = self.slots.iter().filter(with);
        waiting.map(|slot| Arc::clone(&slot.wake)).collect()
    }
}

/// The waiting senders, or the waiting receivers: highest scheduling priority first, then longest wait.
#[derive(Default)]
pub(crate) struct Waiters(VecDeque<Waiter>);

struct Waiter {
    sched_priority: i32,
    slot: usize,
}

impl Waiters {
    /// Adds a waiter behind all of the same or a higher priority.
    pub fn insert(&mut self, sched_priority: i32, slot: usize) {
        let at = self
            .0
            .partition_point(|w| w.sched_priority >= sched_priority);
        self.0.insert(
            at,
            Waiter {
                sched_priority,
                slot,
            },
        );
    }

    /// The slot of the next waiter.
    pub fn next(&self) -> Option<usize> {
        self.0.front().map(|w| w.slot)
    }

    /// Removes the next waiter and returns its slot.
    pub fn pop(&mut self) -> Option<usize> {
        self.0.pop_front().map(|w| w.slot)
    }

    /// Removes a waiter that gives up.
    pub fn remove(&mut self, slot: usize) {
        self.0.retain(|w| w.slot != slot);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_longest_waiter_of_the_highest_priority_is_next() {
        let mut waiters = Waiters::default();
        for (priority, slot) in [(0, 1), (5, 2), (0, 3), (5, 4), (-1, 5), (9, 6)] {
            waiters.insert(priority, slot);
        }
        waiters.remove(3);
        let order: Vec<_> = std::iter::from_fn(|| waiters.pop()).collect();
        assert_eq!(order, [6, 2, 4, 1, 5]);
    }

    #[test]
    fn a_deadline_that_passed_leaves_nothing() {
        let at = |sec, nsec| Timestamp { sec, nsec };
        assert_eq!(at(5, 0).since(at(5, 1)), Duration::ZERO);
        assert_eq!(at(5, 1).since(at(4, 999_999_999)), Duration::new(0, 2));
        assert!(Wait::until(at(-1, 0)).check().is_err());
        assert!(Wait::until(at(0, 1_000_000_000)).check().is_err());
    }
}
