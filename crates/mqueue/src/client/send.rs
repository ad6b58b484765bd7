//! Sending: a message goes with the call, or in pieces before it where it is too long for that.

use super::arguments::{Deadline, Priority};
use super::descriptor::{Descriptor, no_queue, process};
use super::ioctl;
use super::restart::unless_handled;
use crate::protocol::{self, BYTES_MAX, Piece, STAGED};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{Errno, retry_on_intr};
use zerocopy::{FromBytes, IntoBytes};

/// Room for short messages: all that is taken from the stack, as that of a thread may be small.
pub(crate) const SMALL_BYTES: usize = 1024;
/// The length of [`protocol::Send`].
const HEAD_BYTES: usize = size_of::<protocol::Send>();
/// The length of [`Piece`].
const PIECE_BYTES: usize = size_of::<Piece>();

impl Descriptor<'_> {
    /// Sends a message (mq_send(3), mq_timedsend(3)).
    ///
    /// # Errors
    /// `EBADF`: no queue, or not open for writing. `EMSGSIZE`: longer than the queue's longest message. `EAGAIN`:
    /// full, and `O_NONBLOCK`. `ETIMEDOUT`: full until the deadline. `EINTR`: a handler without `SA_RESTART` may have
    /// run.
    pub fn send(
        self,
        message: &[u8],
        priority: Priority,
        deadline: Option<Deadline>,
    ) -> Result<(), Errno> {
        let flags = fcntl_getfl(self.fd())?;
        if !may_write(flags) {
            return Err(Errno::BADF);
        }
        let (wait, (deadline_sec, deadline_nsec)) = waiting(flags, deadline);
        let head = protocol::Send {
            deadline_sec,
            deadline_nsec,
            flags: wait,
            priority: priority.get(),
            process: process(),
            reserved: 0,
        };
        let len = message.len().saturating_add(HEAD_BYTES);
        let sent = if len <= SMALL_BYTES {
            self.send_in(&mut [0; SMALL_BYTES], &head, message)
        } else if len <= BYTES_MAX {
            self.send_in(&mut vec![0; len], &head, message)
        } else {
            self.send_in_pieces(head, message)
        };
        sent.map_err(no_queue)
    }

    fn send_in(self, room: &mut [u8], head: &protocol::Send, message: &[u8]) -> Result<(), Errno> {
        let memory = &mut room[..HEAD_BYTES + message.len()];
        memory[..HEAD_BYTES].copy_from_slice(head.as_bytes());
        memory[HEAD_BYTES..].copy_from_slice(message);
        let mut send = || ioctl::call(self.fd(), protocol::SEND, memory);
        let sent = match head.flags & protocol::NOWAIT {
            0 => unless_handled(send),
            // A call that does not wait is never interrupted: the signal ended a request that the server had not read.
            _ => retry_on_intr(&mut send),
        };
        sent.map(drop)
    }

    fn send_in_pieces(self, mut head: protocol::Send, message: &[u8]) -> Result<(), Errno> {
        // What is too long is not carried over to be refused there.
        let longest = self.getattr()?.msgsize;
        if i64::try_from(message.len()).is_ok_and(|len| len > longest) {
            return Err(Errno::MSGSIZE);
        }
        head.flags |= STAGED;
        // Staged anew each time: a call that ended may have used up what it was given.
        unless_handled(|| {
            let token = self.stage(message)?;
            self.send_staged(&head, token)
        })
    }

    fn send_staged(self, head: &protocol::Send, token: u64) -> Result<(), Errno> {
        let mut memory = [0; HEAD_BYTES + size_of::<u64>()];
        memory[..HEAD_BYTES].copy_from_slice(head.as_bytes());
        memory[HEAD_BYTES..].copy_from_slice(token.as_bytes());
        ioctl::call(self.fd(), protocol::SEND, &mut memory).map(drop)
    }

    /// Brings the message to the server, which gives a number for it.
    fn stage(self, message: &[u8]) -> Result<u64, Errno> {
        let mut room = vec![0; BYTES_MAX];
        let mut piece = Piece::default();
        for data in message.chunks(BYTES_MAX - PIECE_BYTES) {
            piece.len = data.len() as u32;
            let memory = &mut room[..PIECE_BYTES + data.len()];
            retry_on_intr(|| {
                memory[..PIECE_BYTES].copy_from_slice(piece.as_bytes());
                memory[PIECE_BYTES..].copy_from_slice(data);
                ioctl::call(self.fd(), protocol::STAGE, memory)
            })?;
            let (reply, _) = Piece::read_from_prefix(memory).map_err(|_| Errno::IO)?;
            piece.token = reply.token;
            piece.offset += piece.len;
        }
        Ok(piece.token)
    }
}

/// Whether a descriptor with these flags may be written to.
fn may_write(flags: OFlags) -> bool {
    flags.intersects(OFlags::WRONLY | OFlags::RDWR)
}

/// Whether and until when a call waits, as its `flags` and deadline.
pub(crate) fn waiting(flags: OFlags, deadline: Option<Deadline>) -> (u32, (i64, i64)) {
    let mut wait = 0;
    if flags.contains(OFlags::NONBLOCK) {
        wait |= protocol::NOWAIT;
    }
    if deadline.is_some() {
        wait |= protocol::DEADLINE;
    }
    (wait, deadline.map_or((0, 0), Deadline::parts))
}
