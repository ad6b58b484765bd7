//! An open queue: its attributes and notifications.

use super::ioctl;
use crate::protocol::{self, Way};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, retry_on_intr};
use std::os::fd::BorrowedFd;
use zerocopy::{FromZeros, IntoBytes};

/// The greatest number of a signal.
const SIGNO_MAX: i32 = 64;

/// An open queue of a mount; `O_NONBLOCK` and the access mode are the descriptor's own.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'fd>(BorrowedFd<'fd>);

/// What a queue is, and whether its descriptor waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Whether the descriptor has `O_NONBLOCK`.
    pub nonblock: bool,
    /// The most messages.
    pub maxmsg: i64,
    /// The longest message in bytes.
    pub msgsize: i64,
    /// How many messages there are.
    pub curmsgs: i64,
}

/// How a process is notified of a message that arrives in an empty queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Not at all, but no other process can register (`SIGEV_NONE`).
    Nothing,
    /// By a signal (`SIGEV_SIGNAL`).
    Signal(Signal),
    /// By return from [`Descriptor::await_notification`].
    Await,
}

/// A signal for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    signo: i32,
    value: u64,
}

impl Signal {
    /// A signal, and what comes with it (`sigev_value`).
    ///
    /// # Errors
    /// `EINVAL`: no signal has that number; 0 is for one that is not sent.
    pub fn new(signo: i32, value: u64) -> Result<Signal, Errno> {
        match (0..=SIGNO_MAX).contains(&signo) {
            true => Ok(Signal { signo, value }),
            false => Err(Errno::INVAL),
        }
    }
}

impl<'fd> Descriptor<'fd> {
    /// A descriptor, which each call finds out to be one of a queue or not.
    pub const fn new(fd: BorrowedFd<'fd>) -> Descriptor<'fd> {
        Descriptor(fd)
    }

    /// The descriptor itself.
    pub const fn fd(self) -> BorrowedFd<'fd> {
        self.0
    }

    /// The attributes (mq_getattr(3)).
    ///
    /// # Errors
    /// `EBADF`: no queue.
    pub fn getattr(self) -> Result<Attributes, Errno> {
        let queue = self.queue_attributes(protocol::GETATTR)?;
        Ok(attributes(queue, fcntl_getfl(self.0)?))
    }

    /// Sets `O_NONBLOCK` or takes it away, and gives the attributes from before (mq_setattr(3)).
    ///
    /// # Errors
    /// `EBADF`: no queue.
    pub fn setattr(self, nonblock: bool) -> Result<Attributes, Errno> {
        let queue = self.queue_attributes(protocol::SETATTR)?;
        let flags = fcntl_getfl(self.0)?;
        let mut wanted = flags;
        wanted.set(OFlags::NONBLOCK, nonblock);
        if wanted != flags {
            fcntl_setfl(self.0, wanted)?;
        }
        Ok(attributes(queue, flags))
    }

    fn queue_attributes(self, command: (u32, Way)) -> Result<protocol::Attributes, Errno> {
        let mut queue = protocol::Attributes::new_zeroed();
        retry_on_intr(|| ioctl::call(self.0, command, queue.as_mut_bytes())).map_err(no_queue)?;
        Ok(queue)
    }

    /// Registers this process for one notification (mq_notify(3)) and returns the registration's number.
    ///
    /// # Errors
    /// `EBADF`: no queue. `EBUSY`: there is a registration.
    pub fn notify(self, how: Notification) -> Result<u64, Errno> {
        let (kind, signo, value) = match how {
            Notification::Nothing => (protocol::BY_NOTHING, 0, 0),
            Notification::Signal(signal) => (protocol::BY_SIGNAL, signal.signo, signal.value),
            Notification::Await => (protocol::BY_AWAIT, 0, 0),
        };
        self.registration(kind, signo, value)
    }

    /// Takes this process's registration back, if there is one.
    ///
    /// # Errors
    /// `EBADF`: no queue.
    pub fn take_back(self) -> Result<(), Errno> {
        self.registration(protocol::TAKE_BACK, 0, 0).map(drop)
    }

    fn registration(self, kind: u32, signo: i32, value: u64) -> Result<u64, Errno> {
        let mut what = protocol::Notify {
            value,
            process: process(),
            kind,
            signo,
            ..protocol::Notify::default()
        };
        let call = || ioctl::call(self.0, protocol::NOTIFY, what.as_mut_bytes());
        match retry_on_intr(call) {
            Ok(_) => Ok(what.id),
            Err(Errno::NOTTY | Errno::OPNOTSUPP) => Err(Errno::BADF),
            Err(e) => Err(e),
        }
    }

    /// Waits until the registration of that number is delivered, or is gone: whether it was delivered. Signals do
    /// not end it, as the notification would be lost.
    ///
    /// # Errors
    /// `EBADF`: no queue. Others as the server says: no registration of this queue has that number.
    pub fn await_notification(self, registration: u64) -> Result<bool, Errno> {
        let mut id = registration;
        let call = || ioctl::call(self.0, protocol::AWAIT, id.as_mut_bytes());
        let delivered = retry_on_intr(call).map_err(no_queue)?;
        Ok(delivered == 1)
    }
}

/// The number of this process.
pub(crate) fn process() -> u32 {
    rustix::process::getpid()
        .as_raw_nonzero()
        .get()
        .cast_unsigned()
}

/// What an ioctl fails with on a file that is not a queue, where a queue gives `EINVAL` for nothing that can be passed.
pub(crate) const fn no_queue(e: Errno) -> Errno {
    match e {
        Errno::NOTTY | Errno::INVAL | Errno::OPNOTSUPP => Errno::BADF,
        e => e,
    }
}

fn attributes(queue: protocol::Attributes, flags: OFlags) -> Attributes {
    Attributes {
        nonblock: flags.contains(OFlags::NONBLOCK),
        maxmsg: queue.maxmsg,
        msgsize: queue.msgsize,
        curmsgs: queue.curmsgs,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Deadline, Priority};
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_no_queue_is_a_bad_descriptor() {
        let (pipe, _writer) = std::io::pipe().unwrap();
        let null = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap();
        let file = tempfile::tempfile().unwrap();
        let dir = File::open("/").unwrap();
        for fd in [pipe.as_fd(), null.as_fd(), file.as_fd(), dir.as_fd()] {
            let fd = Descriptor::new(fd);
            assert_eq!(fd.getattr(), Err(Errno::BADF));
            assert_eq!(fd.setattr(true), Err(Errno::BADF));
            assert!(!fcntl_getfl(fd.fd()).unwrap().contains(OFlags::NONBLOCK));
            let soon = Deadline::new(0, 0).ok();
            for deadline in [None, soon] {
                for len in [0, 5000, 100_000] {
                    let mut bytes = vec![0; len];
                    let sent = fd.send(&bytes, Priority::default(), deadline);
                    assert_eq!(sent, Err(Errno::BADF));
                    assert_eq!(fd.receive(&mut bytes, deadline), Err(Errno::BADF));
                }
            }
            assert_eq!(fd.notify(Notification::Nothing), Err(Errno::BADF));
            assert_eq!(fd.take_back(), Err(Errno::BADF));
            assert_eq!(fd.await_notification(1), Err(Errno::BADF));
        }
    }

    #[test]
    fn signals_have_numbers_up_to_64() {
        assert!(Signal::new(0, 0).is_ok() && Signal::new(64, 0).is_ok());
        assert_eq!(Signal::new(-1, 0), Err(Errno::INVAL));
        assert_eq!(Signal::new(65, 0), Err(Errno::INVAL));
    }
}
