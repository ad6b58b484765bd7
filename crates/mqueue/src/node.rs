//! A queue as a file: owner, mode and times, and what it is charged to.
//!
//! # Invariants
//! The owner's charge and the place among the namespace's queues are held until the node goes, with its
//! last name and its last description; an unlinked queue counts while it is open, as on Linux.
//!
//! # Locking
//! What setattr changes has a lock of class `mqueue`; it is not held while the queue's is.

use crate::account::Charge;
use crate::queue::{Queue, Times};
use std::sync::Arc;
use uext4_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use uext4_sync::{Mutex, class};
use uext4_vfs::{Attr, Caller, Errno, FileKind, Result, SetAttr, TimeSet, Timestamp, permission};

/// The length that the file of a queue seems to have at first, as on Linux: room for a status line.
pub const STATUS_BYTES: u64 = 80;
/// The greatest length that it can be given, which means nothing but that.
const SIZE_MAX: u64 = (1 << 31) - 1;

/// What can be set of a queue's file.
#[derive(Clone, Copy, Debug)]
struct Settable {
    uid: u32,
    gid: u32,
    mode: u16,
    size: u64,
    atime: Option<SetTime>,
    mtime: Option<SetTime>,
    /// Last change of these.
    changed: Timestamp,
}

/// A time that was set; it holds until the queue is used again.
#[derive(Clone, Copy, Debug)]
struct SetTime {
    to: Timestamp,
    /// What it was.
    before: Timestamp,
}

impl SetTime {
    fn apply(set: Option<SetTime>, current: Timestamp) -> Timestamp {
        match set {
            Some(set) if set.before == current => set.to,
            _ => current,
        }
    }
}

/// A queue as a file.
pub struct Node {
    /// The messages.
    pub queue: Queue,
    ino: u64,
    settable: Mutex<Settable>,
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
        let created = Timestamp::coarse();
        Node {
            queue,
            ino,
            settable: Mutex::new(
                &class::MQUEUE,
                Settable {
                    uid: owner.uid,
                    gid: owner.gid,
                    mode: owner.mode,
                    size: STATUS_BYTES,
                    atime: None,
                    mtime: None,
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

    pub(crate) fn ino(&self) -> u64 {
        self.ino
    }

    /// The attributes of the file.
    pub fn attr(&self) -> Attr {
        let times = self.queue.times();
        let set = *self.settable.lock();
        self.attr_from(&set, times)
    }

    fn attr_from(&self, set: &Settable, times: Times) -> Attr {
        Attr {
            ino: self.ino,
            generation: 0,
            kind: FileKind::Regular,
            mode: set.mode,
            nlink: self.nlink.load(Ordering::Acquire),
            uid: set.uid,
            gid: set.gid,
            size: set.size,
            blocks: 0,
            block_size: 4096,
            atime: SetTime::apply(set.atime, times.atime),
            mtime: SetTime::apply(set.mtime, times.mtime),
            ctime: times.ctime.max(set.changed),
            crtime: self.created,
            rdev_major: 0,
            rdev_minor: 0,
            flags: 0,
        }
    }

    /// Changes owner, mode, times, or the length that the file seems to have (chown(2), chmod(2),
    /// utimensat(2), truncate(2)), and gives the attributes.
    ///
    /// # Errors
    /// `EFBIG`: the length is 2 GiB or more. Others as [`permission::prepare_setattr`].
    pub fn setattr(&self, caller: &Caller, change: &SetAttr) -> Result<Attr> {
        let times = self.queue.times();
        let now = Timestamp::coarse();
        let mut set = self.settable.lock();
        let change = permission::prepare_setattr(&self.attr_from(&set, times), caller, change)?;
        if change.size.is_some_and(|size| size > SIZE_MAX) {
            return Err(Errno::EFBIG.into());
        }
        let time = |to: TimeSet, before| SetTime {
            to: to.resolve(now),
            before,
        };
        set.uid = change.uid.unwrap_or(set.uid);
        set.gid = change.gid.unwrap_or(set.gid);
        set.mode = change.mode.unwrap_or(set.mode);
        set.size = change.size.unwrap_or(set.size);
        set.atime = change.atime.map(|to| time(to, times.atime)).or(set.atime);
        set.mtime = change.mtime.map(|to| time(to, times.mtime)).or(set.mtime);
        set.changed = now;
        Ok(self.attr_from(&set, times))
    }

    /// Reads of the status line from `offset`, which counts as an access if there is something.
    pub(crate) fn read_status(&self, offset: u64, data: &mut [u8]) -> usize {
        let status = self.queue.status();
        let from = usize::try_from(offset)
            .ok()
            .and_then(|o| status.as_bytes().get(o..));
        let from = from.unwrap_or_default();
        let len = from.len().min(data.len());
        data[..len].copy_from_slice(&from[..len]);
        if len > 0 {
            self.queue.attributes_set();
        }
        len
    }

    pub(crate) fn unlinked(&self) {
        self.nlink.store(0, Ordering::Release);
    }

    pub(crate) fn number_description(&self) -> u64 {
        self.next_description.fetch_add(1, Ordering::Relaxed)
    }
}
