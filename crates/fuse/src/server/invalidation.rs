//! Notifications that cached state in the kernel is out of date.
//!
//! # Invariants
//! The thread that answers a request never waits for the kernel to drop data: the kernel first waits for reads of that
//! data, and those may need this very thread. One thread of its own sends all such notifications.

use crate::abi::{NOTIFY_INVAL_INODE, output};
use crate::filesystem::Invalidation;
use crate::transport::reply::send_notification;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;
use zerocopy::IntoBytes;

/// The longest wait for the kernel to drop data. Longer waits mean that a read holds the data and has no thread left to
/// answer it.
const DATA_WAIT_MAX: Duration = Duration::from_secs(1);

/// A node whose data is out of date. The sender is dropped once the kernel has dropped the data.
type StaleData = (u64, Option<Sender<()>>);

/// Sends invalidations to the kernel.
pub struct Invalidator {
    connection: Arc<OwnedFd>,
    /// To the thread that invalidates data; `None` if the kernel caches no data of this file system.
    data: Option<Sender<StaleData>>,
}

impl Invalidator {
    /// An invalidator for the mount of `connection`. Starts a thread, which ends when the value is dropped.
    ///
    /// # Errors
    /// The host's: no descriptor or no thread.
    pub fn new(connection: &OwnedFd) -> io::Result<Invalidator> {
        let mut invalidator = Invalidator::without_data(connection)?;
        let (data, stale) = mpsc::channel::<StaleData>();
        let connection = Arc::clone(&invalidator.connection);
        let invalidate = move || {
            for (node, _done) in stale {
                send(&connection, node, 0);
            }
        };
        let thread = thread::Builder::new().name("invalidation".into());
        thread.spawn(invalidate)?;
        invalidator.data = Some(data);
        Ok(invalidator)
    }

    /// As [`Invalidator::new`], for a file system whose files bypass the page cache. Starts no thread.
    ///
    /// # Errors
    /// The host's: no descriptor.
    pub fn without_data(connection: &OwnedFd) -> io::Result<Invalidator> {
        Ok(Invalidator {
            connection: Arc::new(connection.try_clone()?),
            data: None,
        })
    }

    /// Invalidates what the kernel has cached of a node: attributes before it returns, data soon after.
    pub fn invalidate(&self, node: u64, what: Invalidation) {
        match what {
            Invalidation::Nothing => {}
            // A negative offset excludes the data.
            Invalidation::Attributes => send(&self.connection, node, -1),
            Invalidation::Data => self.send_data(node, None),
        }
    }

    /// As [`Invalidator::invalidate`], but waits until the kernel has dropped data, or for a second.
    ///
    /// # Locks
    /// May sleep.
    pub fn invalidate_and_wait(&self, node: u64, what: Invalidation) {
        if what != Invalidation::Data {
            return self.invalidate(node, what);
        }
        let (done, dropped) = mpsc::channel();
        self.send_data(node, Some(done));
        // Ends with an error in any case: nothing is sent, and the sender is dropped.
        let _ = dropped.recv_timeout(DATA_WAIT_MAX);
    }

    fn send_data(&self, node: u64, done: Option<Sender<()>>) {
        if let Some(thread) = &self.data {
            // The thread ends only after its last sender.
            let _ = thread.send((node, done));
        }
    }
}

fn send(connection: &OwnedFd, node: u64, offset: i64) {
    let body = output::InvalInode {
        ino: node,
        off: offset,
        len: 0,
    };
    send_notification(connection, NOTIFY_INVAL_INODE, body.as_bytes());
}
