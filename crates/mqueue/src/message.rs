//! Messages: the order in which they leave a queue, and the buffers they are in.
//!
//! # Invariants
//! - The greatest message leaves first: the highest priority, and of one priority the oldest.
//! - A buffer belongs to one message, in the queue or on its way into it or out of it, or it is free.
//!   Buffers are kept and used again, and what says where they are is written only when one has to grow, so
//!   that it stays in every CPU's cache. Of long buffers, no more are kept than the queue has messages: a
//!   waiting sender is not charged for its buffer.

use crate::buffer::Buffer;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Buffers that are not longer are kept in any case.
const KEPT_BYTES_MAX: usize = 8192;

/// A message in a queue, or on its way in or out. Not `Clone`: the message owns its buffer.
#[derive(Debug)]
pub(crate) struct Message {
    /// 0 to 32767.
    pub priority: u32,
    /// In bytes.
    pub len: u32,
    /// Counts up with every message that a queue takes in.
    order: u64,
    /// Which buffer it is in.
    buffer: u32,
}

impl Message {
    fn key(&self) -> (u32, Reverse<u64>) {
        (self.priority, Reverse(self.order))
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

/// The messages of a queue.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Messages {
    heap: BinaryHeap<Message>,
    /// Which of the first 64 buffers are free: a bit for each, as memory of its own would share lines with that of other queues.
    free: u64,
    /// Which of the others.
    more_free: Vec<u32>,
    /// The order of the next message.
    next_order: u64,
    /// The length of all that are in.
    bytes: u64,
    /// Written only when there are more of them, or longer ones.
    buffers: Vec<Buffer>,
}

impl Messages {
    /// How many are in.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The length of all that are in.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A message of `len` bytes that is not in yet, its content what the buffer had.
    pub fn claim(&mut self, len: u32, priority: u32) -> Message {
        let buffer = self.free_buffer().unwrap_or_else(|| {
            self.buffers.push(Buffer::default());
            (self.buffers.len() - 1) as u32
        });
        if self.buffers[buffer as usize].len() < len as usize {
            self.buffers[buffer as usize] = Buffer::zeroed(len as usize);
        }
        Message {
            priority,
            len,
            order: 0,
            buffer,
        }
    }

    /// Takes a free buffer.
    fn free_buffer(&mut self) -> Option<u32> {
        if self.free == 0 {
            return self.more_free.pop();
        }
        let buffer = self.free.trailing_zeros();
        self.free &= self.free - 1;
        Some(buffer)
    }

    /// The content.
    pub fn data(&mut self, message: &Message) -> &mut [u8] {
        &mut self.buffers[message.buffer as usize][..message.len as usize]
    }

    /// Takes the buffer away, to be used without the queue's lock and put back.
    pub fn lend(&mut self, message: &Message) -> Buffer {
        std::mem::take(&mut self.buffers[message.buffer as usize])
    }

    /// Puts a buffer back.
    pub fn put_back(&mut self, message: &Message, buffer: Buffer) {
        self.buffers[message.buffer as usize] = buffer;
    }

    /// Lets a message in, behind those of its priority.
    pub fn push(&mut self, mut message: Message) {
        message.order = self.next_order;
        self.next_order += 1;
        self.bytes += u64::from(message.len);
        self.heap.push(message);
    }

    /// Takes the next message out.
    pub fn pop(&mut self) -> Option<Message> {
        let message = self.heap.pop()?;
        self.bytes -= u64::from(message.len);
        Some(message)
    }

    /// Frees the buffer of a message that is not in any more, of a queue for `maxmsg` messages.
    pub fn recycle(&mut self, message: Message, maxmsg: usize) {
        let free = self.free.count_ones() as usize + self.more_free.len();
        if self.heap.len() + free >= maxmsg {
            let buffer = &mut self.buffers[message.buffer as usize];
            if buffer.len() > KEPT_BYTES_MAX {
                *buffer = Buffer::default();
            }
        }
        match 1_u64.checked_shl(message.buffer) {
            Some(bit) => self.free |= bit,
            None => self.more_free.push(message.buffer),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_highest_priority_is_next() {
        let mut messages = Messages::default();
        for (priority, byte) in [(0, 1), (9, 2), (0, 3), (9, 4), (5, 5)] {
            let message = messages.claim(1, priority);
            messages.data(&message)[0] = byte;
            messages.push(message);
        }
        assert_eq!((messages.len(), messages.bytes()), (5, 5));
        let next = |_| {
            let message = messages.pop()?;
            let byte = messages.data(&message)[0];
            messages.recycle(message, 10);
            Some(byte)
        };
        let order: Vec<_> = (0..6).map_while(next).collect();
        assert_eq!(order, [2, 4, 5, 1, 3]);
        assert_eq!(messages.bytes(), 0);
    }

    #[test]
    fn buffers_are_used_again() {
        let mut messages = Messages::default();
        for len in [10, 3, 7, 20, 0] {
            let message = messages.claim(len, 0);
            assert_eq!(messages.data(&message).len(), len as usize);
            messages.recycle(message, 10);
        }
        assert_eq!(messages.buffers.len(), 1);
    }

    #[test]
    fn more_than_64_buffers_are_used_again() {
        let mut messages = Messages::default();
        for _ in 0..2 {
            let all: Vec<_> = (0..100).map(|_| messages.claim(1, 0)).collect();
            let buffers: std::collections::BTreeSet<_> = all.iter().map(|m| m.buffer).collect();
            assert_eq!((buffers.len(), messages.buffers.len()), (100, 100));
            all.into_iter().for_each(|m| messages.recycle(m, 100));
        }
    }

    #[test]
    fn of_long_buffers_no_more_are_kept_than_messages_fit() {
        let mut messages = Messages::default();
        let all: Vec<_> = (0..10).map(|_| messages.claim(100_000, 0)).collect();
        for message in all {
            messages.recycle(message, 3);
        }
        let kept: usize = messages.buffers.iter().map(|b| b.len()).sum();
        let free = messages.free.count_ones();
        let of_three = 3 * Buffer::zeroed(100_000).len();
        assert_eq!((kept, free), (of_three, 10));
    }
}
