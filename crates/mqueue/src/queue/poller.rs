//! A thread or a watch that waits until a queue is ready.
//!
//! # Locking
//! Guarded by the lock of the queue. Pollers are notified after it is released.

use crate::wait::Wake;
use bitflags::bitflags;
use std::sync::Arc;

bitflags! {
    /// What a caller can do without waiting, as in poll(2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Ready: u8 {
        /// There is a message.
        const READ = 1;
        /// There is room for one.
        const WRITE = 2;
    }
}

/// A thread or a watch that waits until a queue is ready.
pub(super) struct Poller {
    pub kind: PollerKind,
    pub interest: Ready,
}

pub(super) enum PollerKind {
    /// A waiting thread, by its slot.
    Waiter(usize),
    /// A watch, by its key. It is notified once.
    Watch(u64, WatchCallback),
}

/// The callback of a watch. Runs with no lock held, and sometimes once too often.
pub type WatchCallback = Arc<dyn Fn() + Send + Sync>;

/// The notification of a poller, to run after the lock is released.
pub(super) enum PollerNotification {
    Waiter(Arc<Wake>),
    Watch(WatchCallback),
}

impl PollerNotification {
    pub fn run(self) {
        match self {
            PollerNotification::Waiter(wake) => wake.wake(),
            PollerNotification::Watch(notify) => notify(),
        }
    }
}
