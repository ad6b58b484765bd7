//! Notifications that cached state in the kernel is out of date.
//!
//! # Invariants
//! The thread that answers a request never waits without a limit for the kernel to drop data: the kernel first waits for
//! reads and writes of that data, and those may need this very thread. One thread of its own sends all such notifications.
//!
//! # Locking
//! The number of notifications done is under a leaf lock.

use crate::abi::{NOTIFY_INVAL_INODE, output};
use crate::filesystem::Invalidation;
use crate::transport::reply::send_notification;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};
use uext4_sync::{Condvar, Mutex, class};
use zerocopy::IntoBytes;

/// The longest wait for the kernel to drop data. Longer waits mean that a read holds the data and has no thread left to
/// answer it.
const DATA_WAIT_MAX: Duration = Duration::from_secs(1);

/// The thread that makes the kernel drop data.
struct DataThread {
    /// How many lists of nodes were sent, and where to.
    lists: Mutex<(u64, Sender<Vec<u64>>)>,
    progress: Arc<Progress>,
}

/// How many lists of nodes are done.
struct Progress {
    done: Mutex<u64>,
    changed: Condvar,
}

/// Sends invalidations to the kernel.
pub struct Invalidator {
    connection: Arc<OwnedFd>,
    /// `None` if the kernel caches no data of this file system.
    data: Option<DataThread>,
}

impl Invalidator {
    /// An invalidator for the mount of `connection`. Starts a thread, which ends when the value is dropped.
    ///
    /// # Errors
    /// The host's: no descriptor or no thread.
    pub fn new(connection: &OwnedFd) -> io::Result<Invalidator> {
        let mut invalidator = Invalidator::without_data(connection)?;
        let (sender, lists) = mpsc::channel::<Vec<u64>>();
        let progress = Arc::new(Progress {
            done: Mutex::new(&class::FUSE_INVALIDATIONS, 0),
            changed: Condvar::new(),
        });
        let (connection, done) = (Arc::clone(&invalidator.connection), Arc::clone(&progress));
        let invalidate = move || {
            for nodes in lists {
                for node in nodes {
                    send(&connection, node, 0);
                }
                *done.done.lock() += 1;
                done.changed.notify_all();
            }
        };
        let thread = thread::Builder::new().name("invalidation".into());
        thread.spawn(invalidate)?;
        let lists = Mutex::new(&class::FUSE_INVALIDATIONS, (0, sender));
        invalidator.data = Some(DataThread { lists, progress });
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
            Invalidation::Data => {
                self.drop_data(vec![node]);
            }
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
        let ticket = self.drop_data(vec![node]);
        self.wait(ticket, DATA_WAIT_MAX);
    }

    /// Begins to make the kernel drop its data of nodes; what programs have written of it, it writes first. Returns a
    /// ticket to wait with.
    pub fn drop_data(&self, nodes: Vec<u64>) -> u64 {
        let Some(thread) = &self.data else { return 0 };
        let mut lists = thread.lists.lock();
        lists.0 += 1;
        // The thread ends only after its last sender.
        let _ = lists.1.send(nodes);
        lists.0
    }

    /// Whether what a ticket stands for is done, for which it waits so long at most.
    ///
    /// # Locks
    /// May sleep.
    pub fn wait(&self, ticket: u64, timeout: Duration) -> bool {
        let Some(thread) = &self.data else {
            return true;
        };
        let end = Instant::now() + timeout;
        let mut done = thread.progress.done.lock();
        while *done < ticket {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread.progress.changed.wait_for(&mut done, left);
        }
        true
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
