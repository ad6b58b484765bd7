//! Where queues are that processes find by name, and such a queue.

use crate::mq::channel::Channel;
use crate::mq::kernel::KernelQueue;
use rustix::fs::OFlags;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use uext4_mqueue::QueueSize;
use uext4_mqueue::client::{Descriptor, Mounted, OpenArgs, Priority, Size};

/// Where queues have names.
#[derive(Clone, Debug)]
pub enum Home {
    /// In the kernel, in the process's IPC namespace.
    Kernel,
    /// In a mounted directory.
    Mounted(Mounted),
}

/// A queue of a mounted directory that is open.
struct MountedQueue(OwnedFd);

/// A queue that is open.
pub type OpenQueue = Box<dyn Channel>;

impl Home {
    /// In that directory, or in the kernel.
    pub fn new(dir: Option<&Path>) -> Home {
        dir.map_or(Home::Kernel, |dir| Home::Mounted(Mounted::new(dir)))
    }

    /// Makes a queue.
    pub fn create(&self, name: &str, size: QueueSize) -> anyhow::Result<OpenQueue> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        match self {
            Home::Kernel => Ok(Box::new(KernelQueue::create(name, size)?)),
            Home::Mounted(mounted) => opened(mounted, name, flags, Some(size)),
        }
    }

    /// Opens one that exists.
    pub fn open(&self, name: &str) -> anyhow::Result<OpenQueue> {
        match self {
            Home::Kernel => Ok(Box::new(KernelQueue::open(name)?)),
            Home::Mounted(mounted) => opened(mounted, name, OFlags::RDWR, None),
        }
    }

    /// Takes its name away.
    pub fn unlink(&self, name: &str) -> anyhow::Result<()> {
        match self {
            Home::Kernel => KernelQueue::unlink(name),
            Home::Mounted(mounted) => Ok(mounted.unlink(name.as_bytes())?),
        }
    }
}

fn opened(
    mounted: &Mounted,
    name: &str,
    flags: OFlags,
    size: Option<QueueSize>,
) -> anyhow::Result<OpenQueue> {
    let how = OpenArgs {
        flags,
        mode: 0o600,
        size: size.map(|size| Size {
            maxmsg: size.maxmsg.into(),
            msgsize: size.msgsize.into(),
        }),
    };
    Ok(Box::new(MountedQueue(mounted.open(name.as_bytes(), &how)?)))
}

impl Channel for MountedQueue {
    fn send(&self, bytes: &[u8], priority: u32) -> anyhow::Result<()> {
        let queue = Descriptor::new(self.0.as_fd());
        Ok(queue.send(bytes, Priority::new(priority)?, None)?)
    }

    fn receive(&self, buffer: &mut [u8]) -> anyhow::Result<(usize, u32)> {
        let received = Descriptor::new(self.0.as_fd()).receive(buffer, None)?;
        Ok((received.len, received.priority))
    }
}

/// Queues that have names, which are taken away when this is dropped.
pub struct Named<'a> {
    home: &'a Home,
    names: Vec<String>,
}

impl<'a> Named<'a> {
    /// Makes so many queues, whose names begin with `prefix`.
    pub fn make(
        home: &'a Home,
        prefix: &str,
        n: usize,
        size: QueueSize,
    ) -> anyhow::Result<Named<'a>> {
        if let Home::Kernel = home {
            KernelQueue::allow(n, size)?;
        }
        let mut named = Named {
            home,
            names: Vec::new(),
        };
        for number in 0..n {
            let name = format!("{prefix}-{number}");
            // Its name keeps it until the processes that use it have it open.
            drop(home.create(&name, size)?);
            named.names.push(name);
        }
        Ok(named)
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl Drop for Named<'_> {
    fn drop(&mut self) {
        for name in &self.names {
            // A mount that is gone has none.
            let _ = self.home.unlink(name);
        }
    }
}
