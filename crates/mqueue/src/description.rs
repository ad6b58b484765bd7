//! An open queue: which operations are allowed, and whether they block.
//!
//! # Invariants
//! What a queue was opened for is checked once, at opening. `O_NONBLOCK` belongs to the description;
//! descriptors that are duplicated share it, and so do threads here.

use crate::node::Node;
use crate::notify::{Notification, Registrant};
use crate::open_flags::MqOpen;
use crate::queue::{Ready, Received, Started, WatchCallback};
use crate::wait::{Deferred, Interrupt, OnReceived, OnSent, Wait};
use std::sync::Arc;
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_vfs::{Errno, Result};

/// `O_NONBLOCK`, as `mq_flags` has it.
pub const O_NONBLOCK: i64 = 0o4000;

/// The greatest signal number. 0 is allowed and sends no signal.
const SIGNO_MAX: i32 = 64;

/// What mq_getattr(3) gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MqAttr {
    /// [`O_NONBLOCK`] or 0.
    pub flags: i64,
    /// The most messages.
    pub maxmsg: i64,
    /// The longest message in bytes.
    pub msgsize: i64,
    /// How many messages there are.
    pub curmsgs: i64,
}

/// An open queue. Dropping it closes it (mq_close(3)): a registration that was made with it goes.
pub struct Description {
    node: Arc<Node>,
    reads: bool,
    writes: bool,
    nonblock: AtomicBool,
    number: u64,
}

impl Description {
    /// Opens a queue. The caller has checked the permission.
    pub fn new(node: Arc<Node>, how: MqOpen) -> Description {
        Description {
            number: node.number_description(),
            node,
            reads: how.contains(MqOpen::READ),
            writes: how.contains(MqOpen::WRITE),
            nonblock: AtomicBool::new(how.contains(MqOpen::NONBLOCK)),
        }
    }

    /// A number that no other description of the queue has.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The queue as a file.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    fn is_nonblocking(&self) -> bool {
        self.nonblock.load(Ordering::Relaxed)
    }

    /// Sends a message (mq_send(3), mq_timedsend(3)).
    ///
    /// # Locks
    /// As [`crate::queue::Queue::send`].
    ///
    /// # Errors
    /// `EBADF`: not open for writing. Others as [`crate::queue::Queue::send`].
    pub fn send(&self, bytes: &[u8], priority: u32, wait: &Wait) -> Result<()> {
        // Linux checks the arguments before the descriptor.
        wait.check()?;
        if priority >= crate::limits::PRIORITIES {
            return Err(Errno::EINVAL.into());
        }
        if !self.writes {
            return Err(Errno::EBADF.into());
        }
        let queue = &self.node.queue;
        queue.send(bytes, priority, self.is_nonblocking(), wait)
    }

    /// Receives a message (mq_receive(3), mq_timedreceive(3)).
    ///
    /// # Locks
    /// As [`crate::queue::Queue::receive`].
    ///
    /// # Errors
    /// `EBADF`: not open for reading. Others as [`crate::queue::Queue::receive`].
    pub fn receive(&self, buffer: &mut [u8], wait: &Wait) -> Result<Received> {
        wait.check()?;
        if !self.reads {
            return Err(Errno::EBADF.into());
        }
        let queue = &self.node.queue;
        queue.receive(buffer, self.is_nonblocking(), wait)
    }

    /// Sends a message at once, or later: see [`crate::queue::Queue::start_send`].
    ///
    /// # Errors
    /// `EBADF`: not open for writing. Others as [`crate::queue::Queue::start_send`].
    pub fn start_send(
        &self,
        bytes: &[u8],
        priority: u32,
        deferred: Deferred<OnSent>,
    ) -> Result<Started<()>> {
        if !self.writes {
            return Err(Errno::EBADF.into());
        }
        self.node.queue.start_send(bytes, priority, deferred)
    }

    /// Receives a message at once, or later: see [`crate::queue::Queue::start_receive`].
    ///
    /// # Errors
    /// `EBADF`: not open for reading. Others as [`crate::queue::Queue::start_receive`].
    pub fn start_receive(
        &self,
        buffer: &mut [u8],
        deferred: Deferred<OnReceived>,
    ) -> Result<Started<Received>> {
        if !self.reads {
            return Err(Errno::EBADF.into());
        }
        self.node.queue.start_receive(buffer, deferred)
    }

    /// Ends waits from outside, see [`crate::queue::Queue::interrupt`].
    pub fn interrupt(&self, interrupt: &Interrupt) {
        self.node.queue.interrupt(interrupt);
    }

    /// The attributes of the queue and the description (mq_getattr(3)).
    pub fn getattr(&self) -> MqAttr {
        let size = self.node.queue.size();
        MqAttr {
            flags: if self.is_nonblocking() { O_NONBLOCK } else { 0 },
            maxmsg: size.maxmsg.into(),
            msgsize: size.msgsize.into(),
            curmsgs: i64::try_from(self.node.queue.curmsgs()).unwrap_or(i64::MAX),
        }
    }

    /// Sets [`O_NONBLOCK`] as `flags` has it, and gives the attributes from before (mq_setattr(3)).
    ///
    /// # Errors
    /// `EINVAL`: other flags.
    pub fn setattr(&self, flags: i64) -> Result<MqAttr> {
        if flags & !O_NONBLOCK != 0 {
            return Err(Errno::EINVAL.into());
        }
        let mut before = self.getattr();
        let was = self.nonblock.swap(flags != 0, Ordering::Relaxed);
        before.flags = if was { O_NONBLOCK } else { 0 };
        self.node.queue.attributes_set();
        Ok(before)
    }

    /// Registers `process` for one notification, or takes its registration back (mq_notify(3)).
    ///
    /// # Errors
    /// `EINVAL`: no signal has that number. Others as [`crate::queue::Queue::notify`].
    pub fn notify(&self, process: u32, how: Option<Notification>) -> Result<()> {
        let is_signal = |how: &Notification| (0..=SIGNO_MAX).contains(&how.signo());
        if !how.as_ref().is_none_or(is_signal) {
            return Err(Errno::EINVAL.into());
        }
        let registrant = Registrant {
            process,
            description: self.number,
        };
        self.node.queue.notify(registrant, how)
    }

    /// Closes a descriptor of `process`: a registration of that process goes, whichever descriptor it
    /// was made with, as on Linux. The description stays while it has other references.
    pub fn close(self: Arc<Description>, process: u32) {
        self.node
            .queue
            .unregister(|registrant| registrant.process == process);
    }

    /// What can be done without waiting (poll(2)).
    pub fn poll(&self) -> Ready {
        self.node.queue.poll()
    }

    /// What can be done without waiting, and a watch of this description, see [`crate::queue::Queue::watch`].
    pub fn watch(&self, interest: Ready, notify: WatchCallback) -> Ready {
        self.node.queue.watch(self.number, interest, notify)
    }

    /// Waits until something can be done, see [`crate::queue::Queue::poll_wait`].
    ///
    /// # Errors
    /// As [`crate::queue::Queue::poll_wait`].
    pub fn poll_wait(&self, interest: Ready, wait: &Wait) -> Result<Ready> {
        self.node.queue.poll_wait(interest, wait)
    }

    /// The status line that read(2) gives.
    pub fn status(&self) -> String {
        self.node.queue.status()
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        let number = self.number;
        self.node
            .queue
            .unregister(|registrant| registrant.description == number);
        self.node.queue.unwatch(number);
    }
}
