//! What a message says: its number, or that it is the last.
//!
//! # Invariants
//! The last message of a run has the lowest priority and is sent after all others, so that a receiver that
//! gets it has received those.

use super::channel::Channel;
use anyhow::ensure;

/// A message is at least so long.
pub const BYTES_MIN: usize = 8;

/// Marks the last message, which says how many there were.
const LAST: u64 = 1 << 63;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The one with this number, from 0 on.
    Number(u64),
    /// No more; so many were sent.
    Last(u64),
}

/// A buffer for messages.
pub struct Buffer(Vec<u8>);

impl Buffer {
    /// For messages of so many bytes.
    pub fn new(bytes: usize) -> Buffer {
        Buffer(vec![0; bytes.max(BYTES_MIN)])
    }

    /// Sends a message.
    #[inline]
    pub fn send(
        &mut self,
        queue: &impl Channel,
        message: Message,
        priority: u32,
    ) -> anyhow::Result<()> {
        let word = match message {
            Message::Number(number) => number,
            Message::Last(count) => count | LAST,
        };
        self.0[..BYTES_MIN].copy_from_slice(&word.to_le_bytes());
        queue.send(&self.0, priority)
    }

    /// Receives a message, and its priority.
    #[inline]
    pub fn receive(&mut self, queue: &impl Channel) -> anyhow::Result<(Message, u32)> {
        let (len, priority) = queue.receive(&mut self.0)?;
        ensure!(len == self.0.len(), "a message of {len} bytes came");
        let mut word = [0; BYTES_MIN];
        word.copy_from_slice(&self.0[..BYTES_MIN]);
        let word = u64::from_le_bytes(word);
        let message = match word & LAST {
            0 => Message::Number(word),
            _ => Message::Last(word & !LAST),
        };
        Ok((message, priority))
    }
}
