//! A message queue: its messages, its waiters and its registration.
//!
//! # Invariants
//! - A receiver gets the oldest message of the highest priority.
//! - Receivers wait only while the queue is empty, senders only while it is full. So a message that is sent while a
//!   receiver waits is handed to that receiver and never queued, and the place of a received message is handed to a waiting
//!   sender, not to one that arrives meanwhile.
//! - A waiting call is either completed by another thread or gives up, under the lock, and never both: a message is sent
//!   or its sender gets an error, and it is received once.
//! - Message buffers, slots of waiters and their lists are reused. If no call waits, a message takes the lock once. It
//!   allocates nothing once the queue has been as full before, with messages as long.
//! - `level` has the number of messages. It is written under the lock. A caller that spins before it waits
//!   ([`uext4_sync::adaptive_spin`]) reads it without the lock; it counts as a waiter only after that.
//!
//! # Locking
//! One lock of class `mqueue`. Each waiter has a condition variable of its own. Waiters are woken, and notifications run,
//! after the lock is released. Long messages are copied without the lock.

mod inner;
mod poller;
mod polling;

pub use poller::{Ready, WatchCallback};

use crate::limits::{PRIORITIES, QueueSize};
use crate::message::{Message, Messages};
use crate::notify::{Notification, Registrant, Registration};
use crate::wait::{Answer, Deferred, Interrupt, OnReceived, OnSent, Slots, Wait, Waiters};
use inner::{AfterUnlock, QueueInner, Woken};

use std::time::Instant;
use uext4_sync::adaptive_spin::{AdaptiveSpin, pause};
use uext4_sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use uext4_sync::percpu::cpu_shards;
use uext4_sync::{CachePadded, Mutex, MutexGuard, class};
use uext4_vfs::{Errno, Result, Timestamp};

/// Longer messages are copied without the lock, which is then taken twice.
const LOCKED_COPY_BYTES_MAX: usize = 8192;

/// The attempts to acquire a held lock before the thread sleeps, and the pauses between two attempts.
const LOCK_TRIES: u32 = if cfg!(shuttle) { 1 } else { 50 };
const LOCK_PAUSES: u32 = 8;

/// What came with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its length in bytes.
    pub len: usize,
    /// Its priority.
    pub priority: u32,
}

/// When a queue was last used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The last message sent or received, change of attributes, or change of the registration.
    pub atime: Timestamp,
    /// The last message sent or received.
    pub mtime: Timestamp,
    /// As `atime`.
    pub ctime: Timestamp,
}

/// A message queue.
pub struct Queue {
    size: QueueSize,
    level: CachePadded<Level>,
    spin: CachePadded<[AdaptiveSpin; 2]>,
    state: CachePadded<Mutex<QueueInner>>,
}

/// What is read without the lock.
#[derive(Default)]
struct Level {
    messages: AtomicUsize,
    /// Whether a process is registered for a notification.
    is_registered: AtomicBool,
}

/// The most checks of a queue before a call waits.
const CHECKS_MAX: u32 = if cfg!(shuttle) { 1 } else { 1000 };

/// No spinning on a single CPU: no other thread can change the queue meanwhile.
fn adaptive_spin() -> AdaptiveSpin {
    AdaptiveSpin::new(match cpu_shards() {
        1 => 0,
        _ => CHECKS_MAX,
    })
}

/// The side of a queue that waits, as an index into [`Queue::spin`].
#[derive(Clone, Copy)]
enum Side {
    Sender,
    Receiver,
}

/// The outcome of starting a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Started<T> {
    /// It is complete.
    Done(T),
    /// It waits and is answered later.
    Waits,
}

/// What a call does if it can't be completed at once.
enum Otherwise<'a, F> {
    Fails,
    Waits(&'a Wait),
    Deferred(Deferred<F>),
}

impl Queue {
    /// An empty queue.
    pub fn new(size: QueueSize) -> Queue {
        let now = Timestamp::coarse();
        Queue {
            size,
            level: CachePadded::default(),
            spin: CachePadded::new([adaptive_spin(), adaptive_spin()]),
            state: CachePadded::new(Mutex::new(
                &class::MQUEUE,
                QueueInner {
                    passed: now,
                    used: now,
                    messages: Messages::default(),
                    slots: Slots::default(),
                    senders: Waiters::default(),
                    receivers: Waiters::default(),
                    pollers: Vec::new(),
                    registration: None,
                },
            )),
        }
    }

    /// The most messages, and the length of the longest.
    pub fn size(&self) -> QueueSize {
        self.size
    }

    /// The number of messages.
    pub fn curmsgs(&self) -> usize {
        self.lock().messages.len()
    }

    /// The number of waiting senders, and of waiting receivers.
    pub fn waiting(&self) -> (usize, usize) {
        let state = self.lock();
        (state.senders.len(), state.receivers.len())
    }

    /// When it was last used.
    pub fn times(&self) -> Times {
        let state = self.lock();
        Times {
            atime: state.used,
            mtime: state.passed,
            ctime: state.used,
        }
    }

    /// Notes that attributes of a description were set.
    pub(crate) fn attributes_set(&self) {
        self.lock().used = Timestamp::coarse();
    }

    /// Acquires the lock. It is held for less time than going to sleep takes.
    fn lock(&self) -> MutexGuard<'_, QueueInner> {
        self.state.lock_trying(LOCK_TRIES, LOCK_PAUSES)
    }

    fn maxmsg(&self) -> usize {
        self.size.maxmsg as usize
    }

    /// Sends a message (mq_timedsend(3)). With `nonblock` it waits for nothing.
    ///
    /// # Locks
    /// Takes `mqueue`; may sleep; may run a notification.
    ///
    /// # Errors
    /// `EINVAL`: the priority or the deadline. `EMSGSIZE`: too long. `EAGAIN`: full, with `nonblock`.
    /// `ETIMEDOUT`: full until the deadline. `EINTR`: interrupted.
    pub fn send(&self, bytes: &[u8], priority: u32, nonblock: bool, wait: &Wait) -> Result<()> {
        wait.check()?;
        self.check_message(bytes, priority)?;
        let otherwise = match nonblock {
            true => Otherwise::Fails,
            false => {
                self.spin_for_room();
                Otherwise::Waits(wait)
            }
        };
        self.send_or(bytes, priority, otherwise).map(drop)
    }

    /// Sends a message, or keeps it until there is room: `deferred` is answered then, and only then.
    ///
    /// # Locks
    /// Takes `mqueue`; may run a notification, and the answer of another call.
    ///
    /// # Errors
    /// `EINVAL`, `EMSGSIZE`: as [`Queue::send`].
    pub fn start_send(
        &self,
        bytes: &[u8],
        priority: u32,
        deferred: Deferred<OnSent>,
    ) -> Result<Started<()>> {
        self.check_message(bytes, priority)?;
        self.send_or(bytes, priority, Otherwise::Deferred(deferred))
    }

    fn check_message(&self, bytes: &[u8], priority: u32) -> Result<()> {
        if priority >= PRIORITIES {
            return Err(Errno::EINVAL.into());
        }
        if bytes.len() > self.size.msgsize as usize {
            return Err(Errno::EMSGSIZE.into());
        }
        Ok(())
    }

    fn send_or(
        &self,
        bytes: &[u8],
        priority: u32,
        otherwise: Otherwise<'_, OnSent>,
    ) -> Result<Started<()>> {
        let now = Timestamp::coarse();
        let mut state = self.lock();
        if matches!(otherwise, Otherwise::Fails) && state.messages.len() >= self.maxmsg() {
            return Err(Errno::EAGAIN.into());
        }
        if let Some(answer) = state.take_deferred_receiver() {
            state.passed_at(now);
            drop(state);
            answer(Ok((bytes, priority)));
            return Ok(Started::Done(()));
        }
        let message;
        (state, message) = self.take_in(state, bytes, priority);
        // A receiver that arrived while a long message was copied.
        if let Some(answer) = state.take_deferred_receiver() {
            state.passed_at(now);
            state.messages.recycle(message, self.maxmsg());
            drop(state);
            answer(Ok((bytes, priority)));
            return Ok(Started::Done(()));
        }
        if let Some(receiver) = state.receivers.pop() {
            state.slots.slot(receiver).message = Some(message);
            let wake = state.slots.finish(receiver);
            state.passed_at(now);
            drop(state);
            wake.wake();
            return Ok(Started::Done(()));
        }
        if state.messages.len() < self.maxmsg() {
            state.passed_at(now);
            let after = state.store(message);
            self.note_level(&state);
            if after.notification.is_some() {
                self.note_registration(&state);
            }
            drop(state);
            after.run();
            return Ok(Started::Done(()));
        }
        match otherwise {
            Otherwise::Fails => {
                state.messages.recycle(message, self.maxmsg());
                Err(Errno::EAGAIN.into())
            }
            Otherwise::Waits(wait) => self.send_later(state, message, wait).map(Started::Done),
            Otherwise::Deferred(deferred) => {
                let answer = Answer::Sent(deferred.answer);
                let slot = state
                    .slots
                    .claim_deferred(Some(message), deferred.id, answer);
                state.senders.insert(deferred.sched_priority, slot);
                Ok(Started::Waits)
            }
        }
    }

    /// Makes a message that is not in the queue yet.
    fn take_in<'a>(
        &'a self,
        mut state: MutexGuard<'a, QueueInner>,
        bytes: &[u8],
        priority: u32,
    ) -> (MutexGuard<'a, QueueInner>, Message) {
        let message = state.messages.claim(bytes.len() as u32, priority);
        if bytes.len() <= LOCKED_COPY_BYTES_MAX {
            state.messages.data(&message).copy_from_slice(bytes);
            return (state, message);
        }
        let mut buffer = state.messages.lend(&message);
        drop(state);
        buffer[..bytes.len()].copy_from_slice(bytes);
        let mut state = self.lock();
        state.messages.put_back(&message, buffer);
        (state, message)
    }

    /// Waits until a receiver has taken the message into the queue.
    fn send_later(
        &self,
        mut state: MutexGuard<'_, QueueInner>,
        message: Message,
        wait: &Wait,
    ) -> Result<()> {
        let slot = state.slots.claim(Some(message), wait);
        state.senders.insert(wait.sched_priority, slot);
        let (mut state, woken) = self.sleep(state, slot, Some(Side::Sender), wait);
        if !matches!(woken, Woken::Done) {
            state.senders.remove(slot);
        }
        if let Some(unsent) = state.slots.release(slot) {
            state.messages.recycle(unsent, self.maxmsg());
        }
        woken.into_result()
    }

    /// Receives a message (mq_timedreceive(3)). With `nonblock` it waits for nothing.
    ///
    /// # Locks
    /// Takes `mqueue`; may sleep.
    ///
    /// # Errors
    /// `EINVAL`: the deadline. `EMSGSIZE`: the buffer is shorter than the queue's longest message.
    /// `EAGAIN`: empty, with `nonblock`. `ETIMEDOUT`: empty until the deadline. `EINTR`: interrupted.
    pub fn receive(&self, buffer: &mut [u8], nonblock: bool, wait: &Wait) -> Result<Received> {
        wait.check()?;
        if buffer.len() < self.size.msgsize as usize {
            return Err(Errno::EMSGSIZE.into());
        }
        if !nonblock {
            self.spin_for_message();
        }
        let now = Timestamp::coarse();
        let mut state = self.lock();
        if let Some((message, after)) = state.take(now) {
            self.note_level(&state);
            return Ok(self.hand_out(state, message, after, buffer));
        }
        if nonblock {
            return Err(Errno::EAGAIN.into());
        }
        let slot = state.slots.claim(None, wait);
        state.receivers.insert(wait.sched_priority, slot);
        let (mut state, woken) = self.sleep(state, slot, Some(Side::Receiver), wait);
        if !matches!(woken, Woken::Done) {
            state.receivers.remove(slot);
        }
        match state.slots.release(slot) {
            Some(message) => Ok(self.hand_out(state, message, AfterUnlock::default(), buffer)),
            None => Err(woken.into_result().err().unwrap_or(Errno::EINTR.into())),
        }
    }

    /// Receives a message into `buffer`, which has room for the longest; or, once there is one, `deferred` is answered
    /// with it.
    ///
    /// # Locks
    /// Takes `mqueue`; may run the answer of another call.
    ///
    /// # Errors
    /// `EMSGSIZE`: the buffer is shorter than the queue's longest message.
    pub fn start_receive(
        &self,
        buffer: &mut [u8],
        deferred: Deferred<OnReceived>,
    ) -> Result<Started<Received>> {
        if buffer.len() < self.size.msgsize as usize {
            return Err(Errno::EMSGSIZE.into());
        }
        let now = Timestamp::coarse();
        let mut state = self.lock();
        if let Some((message, after)) = state.take(now) {
            self.note_level(&state);
            return Ok(Started::Done(self.hand_out(state, message, after, buffer)));
        }
        let answer = Answer::Received(deferred.answer);
        let slot = state.slots.claim_deferred(None, deferred.id, answer);
        state.receivers.insert(deferred.sched_priority, slot);
        Ok(Started::Waits)
    }

    /// Ends a deferred call with `why`, unless it is complete; whether it has.
    ///
    /// # Locks
    /// Takes `mqueue`; runs the call's answer.
    pub fn cancel(&self, id: u64, why: Errno) -> bool {
        let mut state = self.lock();
        let Some(slot) = state.slots.find_deferred(id) else {
            return false;
        };
        state.senders.remove(slot);
        state.receivers.remove(slot);
        let Some((answer, unsent)) = state.slots.take_deferred(slot) else {
            return false;
        };
        if let Some(unsent) = unsent {
            state.messages.recycle(unsent, self.maxmsg());
        }
        drop(state);
        answer.fail(why);
        true
    }

    /// Copies a message to its receiver, and keeps its buffer for reuse.
    fn hand_out(
        &self,
        mut state: MutexGuard<'_, QueueInner>,
        message: Message,
        after: AfterUnlock,
        buffer: &mut [u8],
    ) -> Received {
        let received = Received {
            len: message.len as usize,
            priority: message.priority,
        };
        let target = &mut buffer[..received.len];
        if received.len <= LOCKED_COPY_BYTES_MAX {
            target.copy_from_slice(state.messages.data(&message));
            state.messages.recycle(message, self.maxmsg());
            drop(state);
            after.run();
        } else {
            let lent = state.messages.lend(&message);
            drop(state);
            after.run();
            target.copy_from_slice(&lent[..received.len]);
            let mut state = self.lock();
            state.messages.put_back(&message, lent);
            state.messages.recycle(message, self.maxmsg());
        }
        received
    }

    /// Publishes the number of messages for readers without the lock.
    fn note_level(&self, state: &QueueInner) {
        let messages = state.messages.len();
        self.level.messages.store(messages, Ordering::Relaxed);
    }

    fn note_registration(&self, state: &QueueInner) {
        let is_registered = state.registration.is_some();
        self.level
            .is_registered
            .store(is_registered, Ordering::Relaxed);
    }

    /// Spins until half of a full queue is free: a sender that is faster than its receiver then takes the lock less often.
    fn spin_for_room(&self) {
        let messages = || self.level.messages.load(Ordering::Relaxed);
        if messages() >= self.maxmsg() {
            self.spin[Side::Sender as usize].spin(|| messages() <= self.maxmsg() / 2, pause);
        }
    }

    /// Spins until an empty queue has a message. Does not spin if a process is registered: it would be notified because no
    /// receiver waits.
    fn spin_for_message(&self) {
        let is_empty = || self.level.messages.load(Ordering::Relaxed) == 0;
        if is_empty() && !self.level.is_registered.load(Ordering::Relaxed) {
            self.spin[Side::Receiver as usize].spin(|| !is_empty(), pause);
        }
    }

    /// Waits until the call of `slot` is complete, is interrupted or reaches its deadline. `spun` is the side that spun
    /// before; its spinning adapts to the time of this wait.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, QueueInner>,
        slot: usize,
        spun: Option<Side>,
        wait: &Wait,
    ) -> (MutexGuard<'a, QueueInner>, Woken) {
        let since = Instant::now();
        let wake = state.slots.wake(slot);
        let mut passed = false;
        loop {
            // Completion precedes interruption and deadline.
            let woken = if state.slots.is_done(slot) {
                if let Some(side) = spun {
                    self.spin[side as usize].note_sleep(since);
                }
                Woken::Done
            } else if state.slots.is_interrupted(slot) {
                Woken::Interrupted
            } else if passed {
                Woken::TimedOut
            } else {
                passed = wake.sleep(&mut state, wait.deadline);
                continue;
            };
            return (state, woken);
        }
    }

    /// Makes calls on this queue that wait or will wait with `interrupt` fail with `EINTR`, unless they are complete.
    ///
    /// # Locks
    /// Takes `mqueue`.
    pub fn interrupt(&self, interrupt: &Interrupt) {
        let state = self.lock();
        interrupt.set();
        let waiting = state.slots.waiting_with(interrupt);
        drop(state);
        for wake in waiting {
            wake.wake();
        }
    }

    /// The process that is registered for a notification.
    pub fn registrant(&self) -> Option<Registrant> {
        self.lock().registration.as_ref().map(|r| r.registrant)
    }

    /// Registers a process to be notified when a message arrives in the empty queue and no receiver waits (mq_notify(3)).
    /// With `None`, removes the registration of that process, if it has one.
    ///
    /// # Errors
    /// `EBUSY`: a process is registered, possibly this one.
    pub fn notify(&self, registrant: Registrant, how: Option<Notification>) -> Result<()> {
        let Some(how) = how else {
            self.unregister(|r| r.process == registrant.process);
            return Ok(());
        };
        let mut state = self.lock();
        if state.registration.is_some() {
            return Err(Errno::EBUSY.into());
        }
        state.registration = Some(Registration { registrant, how });
        self.note_registration(&state);
        state.used = Timestamp::coarse();
        Ok(())
    }

    /// Removes the registration if `which` selects it. It is dropped after the lock is released.
    pub fn unregister(&self, which: impl Fn(&Registrant) -> bool) {
        let mut state = self.lock();
        let gone = state.registration.take_if(|r| which(&r.registrant));
        if gone.is_some() {
            state.used = Timestamp::coarse();
        }
        self.note_registration(&state);
        drop(state);
        drop(gone);
    }

    /// The status line that reading the queue's file gives (mq_overview(7)).
    pub fn status(&self) -> String {
        let state = self.lock();
        let (how, signo, process) = match &state.registration {
            Some(r) => (r.how.sigev_notify(), r.how.signo(), r.registrant.process),
            None => (0, 0, 0),
        };
        let bytes = state.messages.bytes();
        drop(state);
        format!("QSIZE:{bytes:<10} NOTIFY:{how:<5} SIGNO:{signo:<5} NOTIFY_PID:{process:<6}\n")
    }
}
