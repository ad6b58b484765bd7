//! The locked part of a queue.

use super::poller::{Poller, PollerKind, PollerNotification, Ready};
use crate::message::{Message, Messages};
use crate::notify::{Notification, Registration};
use crate::wait::{Answer, Finished, OnReceived, Slots, Waiters};
use uext4_vfs::{Errno, Result, Timestamp};

/// The part of a queue that the lock guards. The fields that every message changes are first, apart from fields that are
/// mostly read.
#[repr(C)]
pub(super) struct QueueInner {
    /// When a message was last sent or received.
    pub passed: Timestamp,
    /// The later of `passed` and the last change of attributes or of the registration.
    pub used: Timestamp,
    pub messages: Messages,
    pub slots: Slots,
    pub senders: Waiters,
    pub receivers: Waiters,
    pub pollers: Vec<Poller>,
    pub registration: Option<Registration>,
}

/// What remains to be done after the lock is released.
#[derive(Default)]
pub(super) struct AfterUnlock {
    pub finished: Option<Finished>,
    pub pollers: Vec<PollerNotification>,
    pub notification: Option<Notification>,
}

impl AfterUnlock {
    pub fn run(self) {
        if let Some(finished) = self.finished {
            finished.run();
        }
        for poller in self.pollers {
            poller.run();
        }
        if let Some(notification) = self.notification {
            notification.deliver();
        }
    }
}

impl QueueInner {
    pub fn ready(&self, maxmsg: usize) -> Ready {
        let mut ready = Ready::empty();
        ready.set(Ready::READ, !self.messages.is_empty());
        ready.set(Ready::WRITE, self.messages.len() < maxmsg);
        ready
    }

    /// Puts a message into the queue; no receiver waits for it. Notifies pollers of every message, also if the queue was not
    /// empty: edge-triggered epoll(7) relies on that.
    pub fn store(&mut self, message: Message) -> AfterUnlock {
        self.messages.push(message);
        let notification = match self.messages.len() {
            1 => self.registration.take().map(|r| r.how),
            _ => None,
        };
        AfterUnlock {
            finished: None,
            pollers: self.take_pollers(Ready::READ),
            notification,
        }
    }

    /// Removes the next receiving call if it is deferred.
    pub fn take_deferred_receiver(&mut self) -> Option<OnReceived> {
        let (answer, _) = self.slots.take_deferred(self.receivers.next()?)?;
        self.receivers.pop();
        match answer {
            Answer::Received(answer) => Some(answer),
            Answer::Sent(_) => None,
        }
    }

    /// Notes that a message was sent or received. `now` was read before the lock was acquired.
    pub fn passed_at(&mut self, now: Timestamp) {
        self.passed = self.passed.max(now);
        self.used = self.used.max(now);
    }

    /// Removes the next message, and puts the message of the first waiting sender into the queue.
    pub fn take(&mut self, now: Timestamp) -> Option<(Message, AfterUnlock)> {
        let message = self.messages.pop()?;
        self.passed_at(now);
        let mut after = AfterUnlock::default();
        if let Some(slot) = self.senders.pop() {
            if let Some(next) = self.slots.slot(slot).message.take() {
                self.messages.push(next);
            }
            after.finished = Some(match self.slots.take_deferred(slot) {
                Some((Answer::Sent(answer), _)) => Finished::Sent(answer),
                _ => Finished::Wake(self.slots.finish(slot)),
            });
        } else {
            after.pollers = self.take_pollers(Ready::WRITE);
        }
        Some((message, after))
    }

    /// Removes the pollers that wait for `ready` and returns their notifications.
    pub fn take_pollers(&mut self, ready: Ready) -> Vec<PollerNotification> {
        if self.pollers.is_empty() {
            return Vec::new();
        }
        let slots = &mut self.slots;
        let done = self
            .pollers
            .extract_if(.., |p| p.interest.intersects(ready));
        done.map(|p| match p.kind {
            PollerKind::Waiter(slot) => PollerNotification::Waiter(slots.finish(slot)),
            PollerKind::Watch(_, notify) => PollerNotification::Watch(notify),
        })
        .collect()
    }
}

/// How a wait ended.
pub(super) enum Woken {
    Done,
    Interrupted,
    TimedOut,
}

impl Woken {
    pub fn into_result(self) -> Result<()> {
        match self {
            Woken::Done => Ok(()),
            Woken::Interrupted => Err(Errno::EINTR.into()),
            Woken::TimedOut => Err(Errno::ETIMEDOUT.into()),
        }
    }
}
