//! setattr: mode, owner, size and times.

use crate::attributes::access::vfs_time;
use crate::attributes::xattr::change::XATTR_CREDITS;
use crate::clock::now;
use crate::file::FileIo;
use crate::inode::Inode;
use crate::inode::acl_cache::Subject;
use crate::inode::reference::InodeRef;
use crate::prelude::*;
use crate::quota::OwnerIds;
use uext4_ondisk::Timestamp as DiskTime;
use uext4_vfs::attr::SetAttr;
use uext4_vfs::permission::S_ISGID;

impl FileIo {
    /// Changes attributes.
    ///
    /// # Locks
    /// The inode's `ilock`, alone.
    ///
    /// # Errors
    /// As chmod(2), chown(2), truncate(2) and utimensat(2).
    pub fn setattr(&self, caller: &Caller, inode: &InodeRef, change: &SetAttr) -> Result<Attr> {
        self.volume.check_writable()?;
        let _locked = ilock(&inode.ilock, LockMode::Exclusive);
        let attr = self.attributes.attr(inode);
        let mut change = permission::prepare_setattr_with(&attr, caller, change, || {
            self.attributes
                .check_access(caller, inode, &attr, Access::WRITE)
                .map_err(|why| self.volume.noted(why))
        })?;
        let gives_away = change.uid.or(change.gid).is_some() && !inode.is_dir();
        let forfeits =
            (gives_away || change.size.is_some()) && self.attributes.has_capability(inode)?;
        let acl = self.acl_of_setattr(caller, inode, &attr, &mut change)?;
        if let Some(size) = change.size {
            self.truncate_locked(inode, size)?;
        }
        if change.uid.or(change.gid).is_some() {
            let to = {
                let disk = inode.state();
                let (uid, gid) = (
                    change.uid.unwrap_or(disk.uid),
                    change.gid.unwrap_or(disk.gid),
                );
                OwnerIds::new(uid, gid, disk.projid)
            };
            self.owners.prepare_transfer(inode, to)?;
        }
        let xattrs = u32::from(forfeits) + u32::from(acl.is_some());
        self.volume
            .with_handle(2 + XATTR_CREDITS * xattrs, |handle| {
                if forfeits {
                    self.attributes.drop_capability(handle, inode)?;
                }
                if acl.is_some() {
                    self.attributes
                        .store_acl(handle, inode, Subject::Access, acl.as_deref())?;
                }
                let time = now();
                let now = vfs_time(time);
                self.table.update_inode(inode, handle, |disk| {
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
                            let t = set.resolve(now);
                            let sec = t.sec.clamp(DiskTime::MIN_SEC, DiskTime::MAX_SEC);
                            // As the kernel: what is out of range becomes the last second in it, of which there is no part.
                            let is_last = sec == DiskTime::MIN_SEC || sec == DiskTime::MAX_SEC;
                            *field = DiskTime::new(sec, if is_last { 0 } else { t.nsec });
                        }
                    }
                })
            })?;
        if change.size.is_some() && inode.flags().contains(InodeFlags::SYNC) {
            self.volume.sync_tid(inode.sync_tid(false), false)?;
        }
        Ok(self.attributes.attr(inode))
    }

    /// The access ACL after a change that sets the mode, if there is one. It is set as a caller sets an ACL, so that
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
        let acl = self.attributes.acl_after_chmod(inode, *mode)?;
        if acl.is_some() && !permission::keeps_sgid(caller, change.gid.unwrap_or(attr.gid)) {
            *mode &= !S_ISGID;
        }
        Ok(acl)
    }
}
