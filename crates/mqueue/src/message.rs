//! A message, and the order in which messages leave a queue.
//!
//! # Invariants
//! The greatest message leaves first: the highest priority, and of one priority the oldest.

use std::cmp::Ordering;

/// A message in a queue, or on its way to a receiver.
pub(crate) struct Message {
    /// 0 to 32767.
    pub priority: u32,
    /// Counts up with every message that a queue takes in.
    pub order: u64,
    /// The content; the queue uses the buffer again.
    pub data: Vec<u8>,
}

impl Message {
    fn key(&self) -> (u32, std::cmp::Reverse<u64>) {
        (self.priority, std::cmp::Reverse(self.order))
    }
}

impl Ord for Message {
    fn cmp(&self, other: &Message) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Message {
    fn partial_cmp(&self, other: &Message) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Message {
    fn eq(&self, other: &Message) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Message {}
