//! The root directory of a namespace: owner, mode and times.
//!
//! # Locking
//! Guarded by the lock of the namespace.

use uext4_vfs::{Attr, Caller, FileKind, Result, SetAttr, Timestamp, permission};

/// The inode number of the root directory; those of queues are greater.
pub(crate) const ROOT_INO: u64 = 1;
/// The length that the directory seems to have, for each entry, `.` and `..` among them.
const ENTRY_BYTES: u64 = 20;

/// The root directory.
#[derive(Clone, Copy)]
pub(crate) struct Root {
    uid: u32,
    gid: u32,
    mode: u16,
    atime: Timestamp,
    mtime: Timestamp,
    ctime: Timestamp,
    created: Timestamp,
}

impl Root {
    /// Owned by root. Every user may create queues; only their owners may remove them.
    pub fn new() -> Root {
        let now = Timestamp::coarse();
        Root {
            uid: 0,
            gid: 0,
            mode: permission::S_ISVTX | 0o777,
            atime: now,
            mtime: now,
            ctime: now,
            created: now,
        }
    }

    /// The attributes, with that many names in it.
    pub fn attr(&self, names: usize) -> Attr {
        Attr {
            ino: ROOT_INO,
            generation: 0,
            kind: FileKind::Directory,
            mode: self.mode,
            nlink: 2,
            uid: self.uid,
            gid: self.gid,
            size: (names as u64 + 2) * ENTRY_BYTES,
            blocks: 0,
            block_size: 4096,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            crtime: self.created,
            rdev_major: 0,
            rdev_minor: 0,
            flags: 0,
        }
    }

    /// Changes owner, mode or times, where `attr` is what there is.
    ///
    /// # Errors
    /// As [`permission::prepare_setattr`].
    pub fn setattr(&mut self, attr: &Attr, caller: &Caller, change: &SetAttr) -> Result<()> {
        let change = permission::prepare_setattr(attr, caller, change)?;
        let now = Timestamp::coarse();
        self.uid = change.uid.unwrap_or(self.uid);
        self.gid = change.gid.unwrap_or(self.gid);
        self.mode = change.mode.unwrap_or(self.mode);
        self.atime = change.atime.map_or(self.atime, |time| time.resolve(now));
        self.mtime = change.mtime.map_or(self.mtime, |time| time.resolve(now));
        self.ctime = now;
        Ok(())
    }

    /// Notes that a name came or went; the time of access too, as on Linux.
    pub fn changed(&mut self) {
        let now = Timestamp::coarse();
        (self.atime, self.mtime, self.ctime) = (now, now, now);
    }

    /// Notes that the names were read, the first time since one came or went (`relatime`).
    pub fn listed(&mut self) {
        if self.atime <= self.mtime || self.atime <= self.ctime {
            self.atime = Timestamp::coarse();
        }
    }
}
