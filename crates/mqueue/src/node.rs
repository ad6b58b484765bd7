//! A queue as a file: owner, mode and times, and what it is charged to.
//!
//! # Invariants
//! The owner's charge and the place among the namespace's queues are held until the node goes, with its
//! last name and its last description; an unlinked queue counts as long as it is open, as on Linux.
//!
//! # Locking
//! Owner and mode have a lock of class `mqueue`; it is not held while the queue's is.

use crate::account::Charge;
use crate::queue::Queue;
use std::sync::Arc;
use uext4_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use uext4_sync::{Mutex, class};
use uext4_vfs::{Attr, Caller, FileKind, Result, SetAttr, Timestamp, permission};

/// The length that the file of a queue seems to have: that of a status line, on Linux.
pub const STATUS_BYTES: u64 = 80;

/// Owner and mode of a queue.
#[derive(Clone, Copy, Debug)]
struct Owner {
    uid: u32,
    gid: u32,
    mode: u16,
    /// Last change of these.
    changed: Timestamp,
}

/// A queue as a file.
pub struct Node {
    /// The messages.
    pub queue: Queue,
    ino: u64,
    owner: Mutex<Owner>,
    created: Timestamp,
    /// 1 while it has its name, then 0.
    nlink: AtomicU32,
    /// The number of the next description.
    next_description: AtomicU64,
    _charge: Charge,
    _place: Place,
}

/// A place among the queues of a namespace.
pub(crate) struct Place(pub Arc<AtomicU32>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Node {
    pub(crate) fn new(
        queue: Queue,
        ino: u64,
        owner: permission::NewOwner,
        charge: Charge,
        place: Place,
    ) -> Node {
        let created = crate::queue::clock();
        Node {
            queue,
            ino,
            owner: Mutex::new(
                &class::MQUEUE,
                Owner {
                    uid: owner.uid,
                    gid: owner.gid,
                    mode: owner.mode,
                    changed: created,
                },
            ),
            created,
            nlink: AtomicU32::new(1),
            next_description: AtomicU64::new(1),
            _charge: charge,
            _place: place,
        }
    }

    /// The attributes of the file.
    pub fn attr(&self) -> Attr {
        let owner = *self.owner.lock();
        let times = self.queue.times();
        Attr {
            ino: self.ino,
            generation: 0,
            kind: FileKind::Regular,
            mode: owner.mode,
            nlink: self.nlink.load(Ordering::Acquire),
            uid: owner.uid,
            gid: owner.gid,
            size: STATUS_BYTES,
            blocks: 0,
            block_size: 4096,
            atime: times.atime,
            mtime: times.mtime,
            ctime: times.ctime.max(owner.changed),
            crtime: self.created,
            rdev_major: 0,
            rdev_minor: 0,
            flags: 0,
        }
    }

    /// Changes owner or mode (fchown(2), fchmod(2)); times cannot be set.
    ///
    /// # Errors
    /// As [`permission::prepare_setattr`].
    pub fn setattr(&self, caller: &Caller, change: &SetAttr) -> Result<()> {
        let before = self.attr();
        let change = permission::prepare_setattr(&before, caller, change)?;
        let mut owner = self.owner.lock();
        owner.uid = change.uid.unwrap_or(owner.uid);
        owner.gid = change.gid.unwrap_or(owner.gid);
        owner.mode = change.mode.unwrap_or(owner.mode);
        owner.changed = crate::queue::clock();
        Ok(())
    }

    pub(crate) fn unlinked(&self) {
        self.nlink.store(0, Ordering::Release);
    }

    pub(crate) fn number_description(&self) -> u64 {
        self.next_description.fetch_add(1, Ordering::Relaxed)
    }
}
