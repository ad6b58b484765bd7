//! Replies over `/dev/fuse`, by the thread that read the request or by another.

use crate::abi::output;
use rustix::io::Errno as HostErrno;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use uext4_vfs::Errno;
use zerocopy::IntoBytes;

/// The most pieces of a reply's body.
const PIECES_MAX: usize = 4;

/// Sends the later reply to a request.
pub struct Replier {
    /// The descriptor that the request came from.
    device: Arc<OwnedFd>,
    unique: u64,
}

impl Replier {
    /// For the request with that number, which came through `device`.
    pub fn new(device: Arc<OwnedFd>, unique: u64) -> Replier {
        Replier { device, unique }
    }

    /// Sends the reply; its body has up to four pieces.
    pub fn reply(self, answer: Result<&[&[u8]], Errno>) {
        // Fails only if the mount, and with it the caller, is gone.
        let _ = send_pieces(&self.device, self.unique, answer);
    }
}

/// Sends the kernel a notification.
pub fn send_notification(connection: &OwnedFd, what: i32, body: &[u8]) {
    let header = output::Header {
        len: (size_of::<output::Header>() + body.len()) as u32,
        error: what,
        unique: 0,
    };
    let parts = [IoSlice::new(header.as_bytes()), IoSlice::new(body)];
    // Fails only if the kernel no longer has the node or the poll.
    let _ = rustix::io::writev(connection, &parts);
}

/// Writes a reply.
///
/// # Errors
/// The host's. A caller that no longer waits is not an error.
pub fn send(fd: &OwnedFd, unique: u64, answer: Result<&[u8], Errno>) -> io::Result<()> {
    match answer {
        Ok([]) => send_pieces(fd, unique, Ok(&[])),
        Ok(body) => send_pieces(fd, unique, Ok(&[body])),
        Err(errno) => send_pieces(fd, unique, Err(errno)),
    }
}

fn send_pieces(fd: &OwnedFd, unique: u64, answer: Result<&[&[u8]], Errno>) -> io::Result<()> {
    let (error, body) = match answer {
        Ok(body) => (0, body),
        Err(errno) => (-errno.0, &[][..]),
    };
    let len: usize = body.iter().map(|piece| piece.len()).sum();
    let header = output::Header {
        len: (size_of::<output::Header>() + len) as u32,
        error,
        unique,
    };
    let mut parts = [IoSlice::new(header.as_bytes()); 1 + PIECES_MAX];
    let mut used = 1;
    for (part, piece) in parts[1..].iter_mut().zip(body) {
        *part = IoSlice::new(piece);
        used += 1;
    }
    loop {
        return match rustix::io::writev(fd, &parts[..used]) {
            Ok(_) => Ok(()),
            Err(HostErrno::INTR) => continue,
            // The caller was killed, or the mount is gone.
            Err(HostErrno::NOENT | HostErrno::NODEV | HostErrno::CONNABORTED) => Ok(()),
            Err(e) => Err(io::Error::new(
                e.kind(),
                format!("a reply of {} bytes: {e}", header.len),
            )),
        };
    }
}
