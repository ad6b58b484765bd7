//! Messages between the processes of a mount: JSON in packets, with descriptors beside them.

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The longest message: two paths, and what `-o` says.
const MESSAGE_BYTES_MAX: usize = 128 << 10;

/// One end of a connection between two processes.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    /// Two ends.
    ///
    /// # Errors
    /// As the host says.
    pub fn pair() -> io::Result<(Channel, OwnedFd)> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Channel(ours), theirs))
    }

    /// The end that this process was started with, as its standard input, which is `/dev/null` from then on.
    ///
    /// # Errors
    /// Standard input is not such an end: the process was started by hand.
    pub fn inherited() -> io::Result<Channel> {
        let stdin = rustix::stdio::stdin();
        let by_hand = || io::Error::other("it is started by uext4 mount, not by hand");
        let kind = rustix::net::sockopt::socket_type(stdin).map_err(|_| by_hand())?;
        if kind != SocketType::SEQPACKET {
            return Err(by_hand());
        }
        let channel = Channel(rustix::io::fcntl_dupfd_cloexec(stdin, 3)?);
        let null = std::fs::File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        Ok(channel)
    }

    /// Sends a message, and at most one descriptor, which the other side gets a copy of.
    ///
    /// # Errors
    /// `EPIPE`: the other side is gone.
    pub fn send(&self, message: &impl Serialize, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.send_with(message, fd, SendFlags::empty())
    }

    /// Sends a message if there is room for it.
    ///
    /// # Errors
    /// `EAGAIN`: no room. `EPIPE`: the other side is gone.
    pub fn try_send(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, None, SendFlags::DONTWAIT)
    }

    fn send_with(
        &self,
        message: &impl Serialize,
        fd: Option<BorrowedFd<'_>>,
        flags: SendFlags,
    ) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let iov = [IoSlice::new(&bytes)];
        let flags = SendFlags::NOSIGNAL | flags;
        retry_on_intr(|| rustix::net::sendmsg(&self.0, &iov, &mut control, flags))?;
        Ok(())
    }

    /// Waits for a message; `None` once the other side is gone.
    ///
    /// # Errors
    /// What arrives is not a message of this kind.
    pub fn receive<M: DeserializeOwned>(&self) -> io::Result<Option<(M, Option<OwnedFd>)>> {
        let mut bytes = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = retry_on_intr(|| {
            let mut iov = [IoSliceMut::new(&mut bytes)];
            rustix::net::recvmsg(&self.0, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC)
        });
        let received = match received {
            Ok(received) if received.bytes == 0 => return Ok(None),
            Err(Errno::CONNRESET) => return Ok(None),
            other => other?,
        };
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::other("a message between processes is too long"));
        }
        let mut fd = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(mut fds) = message {
                fd = fds.next();
            }
        }
        Ok(Some((
            serde_json::from_slice(&bytes[..received.bytes])?,
            fd,
        )))
    }
}

impl From<OwnedFd> for Channel {
    fn from(end: OwnedFd) -> Channel {
        Channel(end)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn messages_keep_their_borders_and_bring_descriptors() {
        let (one, other) = Channel::pair().unwrap();
        let other = Channel(other);
        let (mut reader, writer) = io::pipe().unwrap();
        one.send(&"first", None).unwrap();
        one.send(&vec![1, 2], Some(writer.as_fd())).unwrap();
        drop((one, writer));
        let (text, fd) = other.receive::<String>().unwrap().unwrap();
        assert_eq!((text.as_str(), fd.is_some()), ("first", false));
        let (list, fd) = other.receive::<Vec<u32>>().unwrap().unwrap();
        assert_eq!(list, [1, 2]);
        std::fs::File::from(fd.unwrap())
            .write_all(b"through")
            .unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        assert!(other.receive::<String>().unwrap().is_none());
        assert!(other.send(&"late", None).is_err());
    }

    #[test]
    fn trying_does_not_wait() {
        let (one, other) = Channel::pair().unwrap();
        let refused = (0..1_000_000).find_map(|_| one.try_send(&"more").err());
        assert_eq!(refused.unwrap().kind(), io::ErrorKind::WouldBlock);
        assert!(Channel(other).receive::<String>().unwrap().is_some());
    }

    #[test]
    fn another_kind_of_message_is_an_error() {
        let (one, other) = Channel::pair().unwrap();
        one.send(&17, None).unwrap();
        assert!(Channel(other).receive::<String>().is_err());
    }
}
