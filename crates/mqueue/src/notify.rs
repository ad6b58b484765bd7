//! Notification: one process is notified, once, that a message arrived in an empty queue (mq_notify(3)).
//!
//! # Invariants
//! A queue has one registration at most. It goes when it is delivered, when its process takes it back, and
//! when that process or the description it was made with is closed.

use std::fmt;

/// How a process is notified. A callback may use the queue, but must not own a
/// [`crate::description::Description`] of it: that would keep the queue, and with it itself.
pub enum Notification {
    /// Not at all; the registration goes when a message comes (`SIGEV_NONE`).
    None,
    /// By a signal (`SIGEV_SIGNAL`).
    Signal {
        /// The signal's number, which the status line shows.
        signo: i32,
        /// Sends it.
        deliver: Box<dyn FnOnce() + Send>,
    },
    /// By a call (`SIGEV_THREAD`).
    Call(Box<dyn FnOnce() + Send>),
}

impl Notification {
    /// The number of `sigev_notify` for it.
    pub const fn sigev_notify(&self) -> i32 {
        match self {
            Notification::Signal { .. } => 0,
            Notification::None => 1,
            Notification::Call(_) => 2,
        }
    }

    /// The signal's number; 0 for other kinds.
    pub const fn signo(&self) -> i32 {
        match self {
            Notification::Signal { signo, .. } => *signo,
            _ => 0,
        }
    }

    /// Notifies the process. Called with no lock held.
    pub(crate) fn deliver(self) {
        match self {
            Notification::None => {}
            // Signal 0 is not sent, as in kill(2).
            Notification::Signal { signo: 0, .. } => {}
            Notification::Signal { deliver, .. } => deliver(),
            Notification::Call(call) => call(),
        }
    }
}

impl fmt::Debug for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notification")
            .field("sigev_notify", &self.sigev_notify())
            .field("signo", &self.signo())
            .finish()
    }
}

/// The process and the description of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registrant {
    /// The process.
    pub process: u32,
    /// A number that no other description of the queue has.
    pub description: u64,
}

/// A registration for a notification.
#[derive(Debug)]
pub(crate) struct Registration {
    pub registrant: Registrant,
    pub how: Notification,
}
