//! Who may do what: the caller's credentials against an inode's attributes.

use crate::acl::Subject;
use crate::error::{Ext4Error, Result};
use crate::fs::Ext4;
use crate::inode::{Inode, InodeRef, kind_of, now};
use crate::xattr::XATTR_CREDITS;
use uext4_ondisk::{AclEntry, FileType, InodeFlags, Timestamp as DiskTime};
use uext4_vfs::attr::{Attr, FileKind, SetAttr, Timestamp};
use uext4_vfs::caller::{Caller, Capabilities};
use uext4_vfs::ilock::{LockMode, ilock};
use uext4_vfs::permission::{self, Access, S_ISGID};

/// What lets a caller do anything to directories.
const ALMIGHTY: Capabilities = Capabilities::DAC_OVERRIDE
    .union(Capabilities::DAC_READ_SEARCH)
    .union(Capabilities::FOWNER);

impl Ext4 {
    /// The attributes of an inode.
    pub fn attr(&self, inode: &Inode) -> Attr {
        let state = inode.state();
        let device = match inode.file_type {
            uext4_ondisk::FileType::CharDevice | uext4_ondisk::FileType::BlockDevice => {
                state.dev_no()
            }
            _ => uext4_ondisk::DevNo { major: 0, minor: 0 },
        };
        Attr {
            ino: u64::from(inode.ino.0),
            generation: state.generation.0,
            kind: kind_of(inode.file_type),
            mode: state.mode & 0o7777,
            nlink: state.links,
            uid: state.uid,
            gid: state.gid,
            // A directory that was removed has nothing more to read.
            size: match inode.is_dir() && state.links == 0 {
                true => 0,
                false => state.size,
            },
            blocks: state.blocks + inline_sectors(inode, state.size),
            block_size: self.geometry().block_size,
            atime: vfs_time(state.atime),
            mtime: vfs_time(state.mtime),
            ctime: vfs_time(state.ctime),
            crtime: vfs_time(state.crtime),
            rdev_major: device.major,
            rdev_minor: device.minor,
            flags: state.flags.bits(),
        }
    }

    /// Refuses a caller who may not look names up in a directory.
    pub(crate) fn may_search(&self, caller: &Caller, dir: &Inode) -> Result<()> {
        if caller.has(ALMIGHTY) {
            return Ok(());
        }
        self.check_access(caller, dir, &self.attr(dir), Access::EXEC)
    }

    /// Refuses a caller who may not add names to a directory, which has these attributes.
    pub(crate) fn may_change_dir(&self, caller: &Caller, dir: &Inode, attr: &Attr) -> Result<()> {
        if attr.flags & InodeFlags::IMMUTABLE.bits() != 0 {
            return Err(Ext4Error::NotPermitted);
        }
        if caller.has(ALMIGHTY) {
            return Ok(());
        }
        self.check_access(caller, dir, attr, Access::WRITE | Access::EXEC)
    }

    /// Refuses a caller who may not remove the name of `target` from `dir`, which has the attributes `attr`;
    /// `as_dir`: as rmdir(2) does.
    pub(crate) fn may_delete(
        &self,
        caller: &Caller,
        dir: &Inode,
        attr: &Attr,
        target: &Attr,
        as_dir: bool,
    ) -> Result<()> {
        let fixed = (InodeFlags::IMMUTABLE | InodeFlags::APPEND).bits();
        if caller.has(ALMIGHTY) && (attr.flags | target.flags) & fixed == 0 {
            return match (as_dir, target.kind == FileKind::Directory) {
                (true, false) => Err(Ext4Error::NotDirectory),
                (false, true) => Err(Ext4Error::IsDirectory),
                _ => Ok(()),
            };
        }
        self.check_access(caller, dir, attr, Access::WRITE | Access::EXEC)?;
        Ok(permission::may_delete_granted(
            attr, target, caller, as_dir,
        )?)
    }

    /// Changes attributes.
    ///
    /// # Locks
    /// The inode's `ilock`, alone.
    ///
    /// # Errors
    /// As chmod(2), chown(2), truncate(2) and utimensat(2).
    pub fn setattr(&self, caller: &Caller, inode: &InodeRef, change: &SetAttr) -> Result<Attr> {
        self.check_writable()?;
        let _locked = ilock(&inode.ilock, LockMode::Exclusive);
        let attr = self.attr(inode);
        let mut change = permission::prepare_setattr_with(&attr, caller, change, || {
            self.check_access(caller, inode, &attr, Access::WRITE)
                .map_err(|why| self.noted(why))
        })?;
        let gives_away = change.uid.or(change.gid).is_some() && !inode.is_dir();
        let forfeits = (gives_away || change.size.is_some()) && self.has_capability(inode)?;
        let acl = self.acl_of_setattr(caller, inode, &attr, &mut change)?;
        if let Some(size) = change.size {
            self.truncate_locked(inode, size)?;
        }
        let xattrs = u32::from(forfeits) + u32::from(acl.is_some());
        self.with_handle(2 + XATTR_CREDITS * xattrs, |handle| {
            if forfeits {
                self.drop_capability(handle, inode)?;
            }
            if acl.is_some() {
                self.store_acl(handle, inode, Subject::Access, acl.as_deref())?;
            }
            let time = now();
            let stamp = vfs_time(time);
            self.update_inode(inode, handle, |disk| {
                if let Some(mode) = change.mode {
                    disk.mode = disk.mode & 0o170_000 | mode & 0o7777;
                }
                disk.uid = change.uid.unwrap_or(disk.uid);
                disk.gid = change.gid.unwrap_or(disk.gid);
                disk.ctime = time;
                let times = [
                    (&mut disk.atime, change.atime),
                    (&mut disk.mtime, change.mtime),
                    (&mut disk.ctime, change.ctime),
                    (&mut disk.crtime, change.crtime),
                ];
                for (field, set) in times {
                    if let Some(set) = set {
                        let t = set.resolve(stamp);
                        let sec = t.sec.clamp(DiskTime::MIN_SEC, DiskTime::MAX_SEC);
                        // As the kernel: what is out of range becomes the last second in it, of which there is no part.
                        let is_last = sec == DiskTime::MIN_SEC || sec == DiskTime::MAX_SEC;
                        *field = DiskTime::new(sec, if is_last { 0 } else { t.nsec });
                    }
                }
            })
        })?;
        if change.size.is_some() && inode.flags().contains(InodeFlags::SYNC) {
            self.sync_tid(inode.sync_tid(false), false)?;
        }
        Ok(self.attr(inode))
    }

    /// The access ACL after a change that sets the mode, if there is one. It is set as anybody sets an ACL, so that
    /// the set-group-id bit may go.
    fn acl_of_setattr(
        &self,
        caller: &Caller,
        inode: &Inode,
        attr: &Attr,
        change: &mut SetAttr,
    ) -> Result<Option<Vec<AclEntry>>> {
        let Some(mode) = &mut change.mode else {
            return Ok(None);
        };
        let acl = self.acl_after_chmod(inode, *mode)?;
        if acl.is_some() && !permission::keeps_sgid(caller, change.gid.unwrap_or(attr.gid)) {
            *mode &= !S_ISGID;
        }
        Ok(acl)
    }
}

/// What stat(2) counts for the data of a file that is in its inode: as if it took room, so that nobody takes the
/// file for a hole.
fn inline_sectors(inode: &Inode, size: u64) -> u64 {
    let is_file = inode.file_type == FileType::Regular && inode.is_inline();
    if is_file { size.div_ceil(512) } else { 0 }
}

fn vfs_time(t: uext4_ondisk::Timestamp) -> Timestamp {
    Timestamp {
        sec: t.sec,
        nsec: t.nsec,
    }
}
