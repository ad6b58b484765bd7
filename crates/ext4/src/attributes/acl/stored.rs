//! Access control lists of inodes: read, changed, handed down, and asked.

use crate::attributes::Attributes;
use crate::attributes::acl::{grants, inherited, is_valid, mode_of, with_mode};
use crate::attributes::xattr::change::XATTR_CREDITS;
use crate::clock::now;
use crate::inode::Inode;
use crate::inode::acl_cache::{AclCache, Subject};
use crate::inode::reference::InodeRef;
use crate::prelude::*;
use uext4_ondisk::{acl_decode_disk, acl_encode_disk};
use uext4_vfs::errno::Error;
use uext4_vfs::permission::{NewOwner, S_ISGID};

/// The permission bits of the owning group.
const GROUP_BITS: u16 = 0o070;

/// The ACLs of a file that is being made.
#[derive(Debug, Default)]
pub(crate) struct NewAcls {
    access: Option<Vec<AclEntry>>,
    default: Option<Arc<[AclEntry]>>,
}

impl NewAcls {
    /// Blocks that storing them changes.
    pub fn credits(&self) -> u32 {
        let count = u32::from(self.access.is_some()) + u32::from(self.default.is_some());
        count * XATTR_CREDITS
    }
}

impl Attributes {
    /// An ACL of an inode, if it has one.
    ///
    /// # Locks
    /// `xattr`, unless it is known; may read from the device then.
    ///
    /// # Errors
    /// Damage, the device's.
    pub(crate) fn acl(&self, inode: &Inode, subject: Subject) -> Result<Option<Arc<[AclEntry]>>> {
        let cache: &AclCache = &inode.acls;
        if cache.has_none(subject) {
            return Ok(None);
        }
        if let Some(acl) = cache.get(subject) {
            return Ok(Some(acl));
        }
        let change_count = cache.change_count();
        let (index, name) = subject.name();
        let acl: Option<Arc<[AclEntry]>> = match self.get_xattr(inode, index, name) {
            Ok(value) => {
                let acl = acl_decode_disk(&value).map_err(|e| e.ino(inode.ino))?;
                if !acl.is_empty() && !is_valid(&acl) {
                    let why = Corrupt::new(CorruptKind::AclTag).ino(inode.ino);
                    return Err(why.detail("entries missing or out of order").into());
                }
                (!acl.is_empty()).then(|| acl.into())
            }
            Err(Ext4Error::NoAttribute) => None,
            Err(why) => return Err(why),
        };
        cache.keep(subject, acl.as_ref(), change_count);
        Ok(acl)
    }

    /// Refuses a caller that may not do `want` with an inode that has these attributes.
    ///
    /// # Errors
    /// As [`permission::check_access`]; damage.
    pub(crate) fn check_access(
        &self,
        caller: &Caller,
        inode: &Inode,
        attr: &Attr,
        want: Access,
    ) -> Result<()> {
        // As in the kernel: where the group's bits, the mask, are empty, the mode is all there is.
        if caller.uid == attr.uid || attr.mode & GROUP_BITS == 0 {
            return Ok(permission::check_access(attr, caller, want)?);
        }
        match self.acl(inode, Subject::Access)? {
            None => Ok(permission::check_access(attr, caller, want)?),
            Some(acl) => Ok(permission::check_access_with(attr, caller, want, || {
                grants(&acl, attr, caller, want)
            })?),
        }
    }

    /// Sets or removes an ACL (setxattr(2) of `system.posix_acl_*`); an access ACL that the permission bits can
    /// say becomes these.
    ///
    /// # Locks
    /// The inode's `ilock`, alone.
    ///
    /// # Errors
    /// `EPERM`: not the owner, immutable, append-only. `EACCES`: a default ACL of no directory. `EOPNOTSUPP`: a
    /// symbolic link. `EINVAL`: entries missing or out of order.
    pub(crate) fn set_acl(
        &self,
        caller: &Caller,
        inode: &InodeRef,
        subject: Subject,
        acl: Option<&[AclEntry]>,
    ) -> Result<()> {
        self.volume.check_writable()?;
        let _locked = ilock(&inode.ilock, LockMode::Exclusive);
        let attr = self.attr(inode);
        if attr.flags & (Attr::FLAG_IMMUTABLE | Attr::FLAG_APPEND) != 0 {
            return Err(Ext4Error::NotPermitted);
        }
        if attr.kind == FileKind::Symlink {
            return Err(Error::new(Errno::EOPNOTSUPP).into());
        }
        if subject == Subject::Default && !inode.is_dir() {
            return acl.map_or(Ok(()), |_| Err(Ext4Error::AccessDenied));
        }
        if !permission::is_owner_or_capable(&attr, caller) {
            return Err(Ext4Error::NotPermitted);
        }
        if acl.is_some_and(|acl| !is_valid(acl)) {
            return Err(Ext4Error::Invalid(
                "an access control list that is incomplete",
            ));
        }
        let (mut mode, mut stored) = (attr.mode, acl);
        if let (Subject::Access, Some(acl)) = (subject, acl) {
            let (bits, is_trivial) = mode_of(acl);
            mode = mode & !0o777 | bits;
            if !permission::keeps_sgid(caller, attr.gid) {
                mode &= !S_ISGID;
            }
            stored = stored.filter(|_| !is_trivial);
        }
        let mode = (mode != attr.mode).then_some(mode);
        let store = || {
            self.blocks
                .retry_no_space(|| self.store_acl_and_mode(inode, subject, stored, mode))
        };
        match store() {
            // Data in the inode makes room.
            Err(why) if why.is_no_space() && inode.is_inline() => {
                self.inline.convert_inline(inode, true)?;
                store()
            }
            done => done,
        }
    }

    fn store_acl_and_mode(
        &self,
        inode: &InodeRef,
        subject: Subject,
        acl: Option<&[AclEntry]>,
        mode: Option<u16>,
    ) -> Result<()> {
        self.volume.with_handle(XATTR_CREDITS + 1, |handle| {
            self.store_acl(handle, inode, subject, acl)?;
            let Some(mode) = mode else {
                return Ok(());
            };
            let time = now();
            self.table.update_inode(inode, handle, |disk| {
                disk.mode = disk.mode & 0o170_000 | mode;
                disk.ctime = time;
            })
        })
    }

    /// What chmod(2) to `mode` means for an inode's access ACL: what it becomes, if there is one.
    pub(crate) fn acl_after_chmod(
        &self,
        inode: &Inode,
        mode: u16,
    ) -> Result<Option<Vec<AclEntry>>> {
        if inode.file_type == FileType::Symlink {
            return Ok(None);
        }
        let acl = self.acl(inode, Subject::Access)?;
        Ok(acl.map(|acl| with_mode(&acl, mode)))
    }

    /// Stores an ACL, or removes it.
    ///
    /// # Journal
    /// [`XATTR_CREDITS`].
    pub(crate) fn store_acl(
        &self,
        handle: &Handle<'_>,
        inode: &InodeRef,
        subject: Subject,
        acl: Option<&[AclEntry]>,
    ) -> Result<()> {
        let (index, name) = subject.name();
        let value = acl.map(acl_encode_disk);
        self.put_xattr_in(handle, inode, index, name, value.as_deref())
    }

    /// Owner, group, mode and ACLs of a file that the caller makes in `dir`.
    ///
    /// # Errors
    /// Damage, the device's.
    pub(crate) fn inherit(
        &self,
        caller: &Caller,
        dir: &Inode,
        attr: &Attr,
        kind: FileKind,
        mode: u16,
    ) -> Result<(NewOwner, NewAcls)> {
        let default = match kind {
            FileKind::Symlink => None,
            _ => self.acl(dir, Subject::Default)?,
        };
        let Some(default) = default else {
            let owner = permission::new_owner(attr, caller, kind, mode);
            return Ok((owner, NewAcls::default()));
        };
        let mut owner = permission::new_owner_unmasked(attr, caller, kind, mode);
        let access = inherited(&default, owner.mode);
        let (bits, is_trivial) = mode_of(&access);
        owner.mode = owner.mode & !0o777 | bits;
        let acls = NewAcls {
            access: (!is_trivial).then_some(access),
            default: (kind == FileKind::Directory).then_some(default),
        };
        Ok((owner, acls))
    }

    /// Stores the ACLs of a new inode.
    ///
    /// # Journal
    /// [`NewAcls::credits`].
    pub(crate) fn store_new_acls(
        &self,
        handle: &Handle<'_>,
        inode: &InodeRef,
        acls: &NewAcls,
    ) -> Result<()> {
        if acls.default.is_some() {
            self.store_acl(handle, inode, Subject::Default, acls.default.as_deref())?;
        }
        if acls.access.is_some() {
            self.store_acl(handle, inode, Subject::Access, acls.access.as_deref())?;
        }
        Ok(())
    }

    /// Whether the inode has capabilities, which go when it is written to or given away.
    pub(crate) fn has_capability(&self, inode: &Inode) -> Result<bool> {
        if inode.acls.has_none(Subject::Capability) {
            return Ok(false);
        }
        let change_count = inode.acls.change_count();
        let (index, name) = Subject::Capability.name();
        match self.get_xattr(inode, index, name) {
            Ok(_) => Ok(true),
            Err(Ext4Error::NoAttribute) => {
                inode.acls.keep(Subject::Capability, None, change_count);
                Ok(false)
            }
            Err(why) => Err(why),
        }
    }

    /// Takes an inode's capabilities away, as part of `handle`.
    ///
    /// # Journal
    /// [`XATTR_CREDITS`].
    pub(crate) fn drop_capability(&self, handle: &Handle<'_>, inode: &InodeRef) -> Result<()> {
        let (index, name) = Subject::Capability.name();
        self.put_xattr_in(handle, inode, index, name, None)
    }

    /// Takes the capabilities of a program away that is being changed, for any caller.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock` alone.
    #[inline]
    pub(crate) fn forfeit_capability(&self, inode: &InodeRef) -> Result<()> {
        if !self.has_capability(inode)? {
            return Ok(());
        }
        self.volume
            .with_handle(XATTR_CREDITS, |handle| self.drop_capability(handle, inode))
    }
}
