//! Flags of a file as chattr(1) sets them: what the ioctls `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS` do.
//!
//! # Locking
//! The inode's `ilock`, alone; the flags are changed in one handle.

use crate::error::{Ext4Error, Result};
use crate::fs::Ext4;
use crate::inode::{InodeRef, now};
use uext4_ondisk::{FileType, InodeFlags};
use uext4_vfs::caller::{Caller, Capabilities};
use uext4_vfs::errno::{Errno, Error};
use uext4_vfs::ilock::{LockMode, ilock};
use uext4_vfs::permission;

/// What only a privileged caller may change.
const FIXING: InodeFlags = InodeFlags::IMMUTABLE.union(InodeFlags::APPEND);

/// What means something for directories only.
const OF_DIRECTORIES: InodeFlags = InodeFlags::DIRSYNC
    .union(InodeFlags::TOPDIR)
    .union(InodeFlags::CASEFOLD)
    .union(InodeFlags::PROJINHERIT);

/// What would change how data is kept, which is not done here.
const NOT_CHANGED: InodeFlags = InodeFlags::EXTENTS
    .union(InodeFlags::CASEFOLD)
    .union(InodeFlags::DAX);

impl Ext4 {
    /// The flags of a file, as users see them (`FS_IOC_GETFLAGS`).
    pub fn flags(&self, inode: &InodeRef) -> InodeFlags {
        inode.flags() & InodeFlags::USER_VISIBLE
    }

    /// Sets the flags of a regular file or a directory (`FS_IOC_SETFLAGS`); those that users cannot set
    /// stay as they are.
    ///
    /// # Locks
    /// The inode's `ilock`, alone.
    ///
    /// # Journal
    /// A handle of one credit.
    ///
    /// # Errors
    /// `EPERM`: not the owner; without the capability `LINUX_IMMUTABLE`, and immutable or append-only
    /// would change, or without `SYS_RESOURCE` data journaling; an immutable file, and anything else would change. `EOPNOTSUPP`: a flag that
    /// nobody can set, or only on a directory, or that would change how data is kept (extents, names
    /// without case, direct access). `ENOTTY`: not a regular file or directory. `EROFS`.
    pub fn set_flags(&self, caller: &Caller, inode: &InodeRef, flags: InodeFlags) -> Result<()> {
        self.check_writable()?;
        let is_dir = match inode.file_type {
            FileType::Directory => true,
            FileType::Regular => false,
            _ => return Err(Error::new(Errno::ENOTTY).into()),
        };
        let of_kind = match is_dir {
            true => InodeFlags::USER_VISIBLE,
            false => InodeFlags::USER_VISIBLE - OF_DIRECTORIES,
        };
        if !of_kind.contains(flags) {
            return Err(Error::new(Errno::EOPNOTSUPP).into());
        }
        let _locked = ilock(&inode.ilock, LockMode::Exclusive);
        if !permission::is_owner_or_capable(&self.attr(inode), caller) {
            return Err(Ext4Error::NotPermitted);
        }
        let before = inode.flags();
        let settable = InodeFlags::USER_MODIFIABLE;
        let wanted = before & !settable | flags & settable;
        let changed = before ^ wanted;
        if changed.intersects(FIXING) && !caller.has(Capabilities::LINUX_IMMUTABLE) {
            return Err(Ext4Error::NotPermitted);
        }
        let stays_immutable = (before & wanted).contains(InodeFlags::IMMUTABLE);
        if stays_immutable && !changed.is_empty() {
            return Err(Ext4Error::NotPermitted);
        }
        if changed.intersects(NOT_CHANGED) {
            let why = "a flag that would change how data is kept";
            return Err(Error::new(Errno::EOPNOTSUPP).context(why).into());
        }
        if changed.contains(InodeFlags::JOURNAL_DATA) {
            if !caller.has(Capabilities::SYS_RESOURCE) {
                return Err(Ext4Error::NotPermitted);
            }
            if !is_dir {
                self.settle_data(inode)?;
            }
        }
        let handle = self.journal().start(1)?;
        let time = now();
        self.update_inode(inode, &handle, |disk| {
            disk.flags = wanted;
            disk.ctime = time;
            disk.version = disk.version.wrapping_add(1);
        })
    }
}
