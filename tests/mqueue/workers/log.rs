//! What a worker wrote down of its calls, as `c/worker.c` lays it out.

use uext4_testkit::prelude::*;

/// Before the first log.
pub const PAGE_BYTES: u64 = 4096;
const SLOT_BYTES: usize = 88;
const SLOTS: u64 = 1 << 16;
/// The log of a worker.
pub const LOG_BYTES: u64 = SLOTS * SLOT_BYTES as u64;
/// Read at a time.
const CHUNK_SLOTS: u64 = 1024;
const CHUNK_BYTES: usize = CHUNK_SLOTS as usize * SLOT_BYTES;
/// The sender's number in messages that end receivers.
pub const STOPS: u32 = u32::MAX;
/// A message without what fills it.
const HEAD_BYTES: u32 = 24;
const FILLED_BYTES: u64 = 40;

/// A message, which is like no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    pub sender: u32,
    pub queue: u32,
    pub priority: u32,
    pub number: u64,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Whether it returned.
    pub returned: bool,
    /// What was to be sent, or was received; `None` where nothing lies there.
    pub message: Option<Message>,
    /// Whether the message is as it was made, and its length and priority are those that it states.
    pub whole: bool,
}

/// A worker.
#[derive(Clone, Debug)]
pub struct Log {
    pub index: u32,
    pub sends: bool,
    pub killed: bool,
    pub calls: Vec<Call>,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..at + 4].try_into().expect("four bytes");
    u32::from_ne_bytes(bytes)
}

/// `None` where the slot is not used.
fn call(slot: &[u8]) -> Option<Call> {
    let state = u32_at(slot, 80);
    let (len, priority) = (u32_at(slot, 8), u32_at(slot, 12));
    let message = &slot[16..80];
    let number = u64::from_ne_bytes(message[8..16].try_into().expect("eight bytes"));
    let found = Message {
        sender: u32_at(message, 0),
        queue: u32_at(message, 4),
        priority: u32_at(message, 16),
        number,
    };
    let filled = number % FILLED_BYTES;
    let fill = (number as u8) ^ 0x5a;
    let (told, rest) = (u32_at(message, 20), &message[HEAD_BYTES as usize..]);
    let returned = state == 2;
    let whole = rest[..filled as usize].iter().all(|byte| *byte == fill)
        && told == HEAD_BYTES + filled as u32
        // The others are written after the call.
        && (!returned || (len, priority) == (told, found.priority));
    (state != 0).then_some(Call {
        returned,
        message: (found.sender != 0).then_some(found),
        whole,
    })
}

/// The calls of a worker so far, the oldest first.
pub fn read(file: &File, index: u32) -> Result<Vec<Call>> {
    let start = PAGE_BYTES + u64::from(index) * LOG_BYTES;
    let mut calls = Vec::new();
    let mut bytes = vec![0; CHUNK_BYTES];
    for chunk in 0..SLOTS / CHUNK_SLOTS {
        file.read_exact_at(&mut bytes, start + chunk * CHUNK_BYTES as u64)
            .context("a log")?;
        for slot in bytes.chunks_exact(SLOT_BYTES) {
            match call(slot) {
                Some(call) => calls.push(call),
                None => return Ok(calls),
            }
        }
    }
    Ok(calls)
}
