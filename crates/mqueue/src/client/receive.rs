//! Receiving: a short message comes with the call, a long one in pieces after it.

use super::arguments::Deadline;
use super::descriptor::{Descriptor, no_queue};
use super::ioctl;
use super::restart::unless_handled;
use super::send::{SMALL_BYTES, waiting};
use crate::protocol::{self, BYTES_MAX, NOWAIT, Piece, RECEIVE, RECEIVE_NOWAIT, Way};
use rustix::fs::fcntl_getfl;
use rustix::io::{Errno, retry_on_intr};
use zerocopy::{FromBytes, IntoBytes};

/// The length of [`protocol::Received`].
const HEAD_BYTES: usize = size_of::<protocol::Received>();
/// The length of [`protocol::Receive`].
const ASK_BYTES: usize = size_of::<protocol::Receive>();

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The message's length.
    pub len: usize,
    /// Its priority.
    pub priority: u32,
}

impl Descriptor<'_> {
    /// Receives the oldest message of the highest priority (mq_receive(3), mq_timedreceive(3)).
    ///
    /// # Errors
    /// `EBADF`: no queue, or not open for reading. `EMSGSIZE`: the buffer is shorter than the queue's longest
    /// message. `EAGAIN`: empty, and `O_NONBLOCK`. `ETIMEDOUT`: empty until the deadline. `EINTR`: a handler without
    /// `SA_RESTART` may have run.
    pub fn receive(self, buffer: &mut [u8], deadline: Option<Deadline>) -> Result<Received, Errno> {
        let flags = fcntl_getfl(self.fd())?;
        let (flags, (deadline_sec, deadline_nsec)) = waiting(flags, deadline);
        let ask = protocol::Receive {
            deadline_sec,
            deadline_nsec,
            capacity: buffer.len() as u64,
            flags,
            reserved: 0,
        };
        let received = match deadline {
            None => self.receive_in_place(ask.flags, buffer),
            Some(_) => self.receive_until(&ask, buffer),
        };
        match received {
            // The queue's longest message may be too long for the call, but not for the buffer.
            Err(Errno::MSGSIZE) if buffer.len() > BYTES_MAX => {}
            // The server does not know which thread this is.
            Err(Errno::PERM) => {}
            received => return received.map_err(no_queue),
        }
        let received = match buffer.len().saturating_add(HEAD_BYTES) {
            ..=SMALL_BYTES => self.receive_in(&mut [0; SMALL_BYTES], &ask, buffer),
            whole => self.receive_in(&mut vec![0; whole.min(BYTES_MAX)], &ask, buffer),
        };
        received.map_err(no_queue)
    }

    /// The kernel writes the message into the caller's memory, as its own call does: so a killed caller has it there, or it
    /// is still in the queue.
    fn receive_in_place(self, flags: u32, buffer: &mut [u8]) -> Result<Received, Errno> {
        match flags & NOWAIT {
            0 => unless_handled(|| self.ask_in_place(RECEIVE, buffer)),
            _ => self.receive_now(buffer),
        }
    }

    /// A call that does not wait is never interrupted: the signal ended a request that the server had not read.
    fn receive_now(self, buffer: &mut [u8]) -> Result<Received, Errno> {
        retry_on_intr(|| self.ask_in_place(RECEIVE_NOWAIT, buffer))
    }

    /// The same with a deadline, which an earlier call sets because this one has no room for it. Most calls find a message
    /// without it.
    fn receive_until(self, ask: &protocol::Receive, buffer: &mut [u8]) -> Result<Received, Errno> {
        match self.receive_now(buffer) {
            Err(Errno::AGAIN) if ask.flags & NOWAIT == 0 => {}
            received => return received,
        }
        let until = protocol::Until {
            sec: ask.deadline_sec,
            nsec: ask.deadline_nsec,
        };
        let mut memory = [0; size_of::<protocol::Until>()];
        memory.copy_from_slice(until.as_bytes());
        unless_handled(|| {
            retry_on_intr(|| ioctl::call(self.fd(), protocol::UNTIL, &mut memory))?;
            self.ask_in_place(protocol::RECEIVE_UNTIL, buffer)
        })
    }

    fn ask_in_place(self, command: (u32, Way), buffer: &mut [u8]) -> Result<Received, Errno> {
        let len = buffer.len().min(BYTES_MAX);
        let result = ioctl::call(self.fd(), command, &mut buffer[..len])?;
        let (len, priority) = protocol::received(result);
        Ok(Received { len, priority })
    }

    fn receive_in(
        self,
        room: &mut [u8],
        ask: &protocol::Receive,
        buffer: &mut [u8],
    ) -> Result<Received, Errno> {
        let len = buffer.len().saturating_add(HEAD_BYTES).min(room.len());
        let memory = &mut room[..len.max(ASK_BYTES)];
        unless_handled(|| {
            memory[..ASK_BYTES].copy_from_slice(ask.as_bytes());
            ioctl::call(self.fd(), protocol::RECEIVE_WITH, memory)
        })?;
        self.take(room, buffer)
    }

    /// Takes the message out of `room`, or fetches it by the token that is there.
    fn take(self, room: &mut [u8], buffer: &mut [u8]) -> Result<Received, Errno> {
        let (head, data) = protocol::Received::read_from_prefix(room).map_err(|_| Errno::IO)?;
        let len = head.len as usize;
        let message = buffer.get_mut(..len).ok_or(Errno::IO)?;
        match head.token {
            0 => message.copy_from_slice(data.get(..len).ok_or(Errno::IO)?),
            token => self.fetch(token, room, message)?,
        }
        Ok(Received {
            len,
            priority: head.priority,
        })
    }

    fn fetch(self, token: u64, room: &mut [u8], message: &mut [u8]) -> Result<(), Errno> {
        let mut piece = Piece {
            token,
            ..Piece::default()
        };
        for data in message.chunks_mut(room.len()) {
            piece.len = data.len() as u32;
            let memory = &mut room[..data.len().max(size_of::<Piece>())];
            retry_on_intr(|| {
                memory[..size_of::<Piece>()].copy_from_slice(piece.as_bytes());
                ioctl::call(self.fd(), protocol::FETCH, memory)
            })?;
            data.copy_from_slice(&memory[..data.len()]);
            piece.offset += piece.len;
        }
        Ok(())
    }
}
