//! The adapter to `vfs`: the inode-level API for front ends. Every error passes `Volume::report`.

use crate::fs::Ext4;
use crate::inode::acl_cache::Subject;
use crate::inode::kind_of;
use crate::inode::reference::InodeRef;
use crate::prelude::*;
use crate::quota::operation::Scope;
use crate::volume::generations::Generation;
use uext4_ondisk::{acl_decode_xattr, acl_encode_xattr};
use uext4_vfs::attr::{DirEntry, FileHandle, RenameFlags, SetAttr, StatFs, XattrFlags};
use uext4_vfs::errno::{Error, Result};
use uext4_vfs::filesystem::FileSystem;
use uext4_vfs::io::Fallocate;
use uext4_vfs::permission::S_ISVTX;

/// The longest value of an extended attribute, as setxattr(2) takes it.
const XATTR_BYTES_MAX: usize = 1 << 16;

/// The attributes that there are, beside ACLs.
const VISIBLE: [XattrIndex; 3] = [XattrIndex::USER, XattrIndex::TRUSTED, XattrIndex::SECURITY];

fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > 255 {
        return Err(Errno::ERANGE.into());
    }
    Ok(())
}

fn split(name: &[u8]) -> Result<(XattrIndex, &[u8])> {
    match XattrIndex::split_name(name) {
        Some(split) if VISIBLE.contains(&split.0) => Ok(split),
        // A prefix and nothing after it.
        None if matches!(name, b"user." | b"trusted." | b"security.") => Err(Errno::EINVAL.into()),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}

/// The ACL that has this name.
fn acl_of(name: &[u8]) -> Option<Subject> {
    match name {
        b"system.posix_acl_access" => Some(Subject::Access),
        b"system.posix_acl_default" => Some(Subject::Default),
        _ => None,
    }
}

/// Whether it is a value of `security.capability`: of the second form, or of the third, which names a user
/// namespace by its superuser.
fn is_capability(value: &[u8]) -> bool {
    let magic = value.first_chunk().map(|m| u32::from_le_bytes(*m));
    matches!(
        (magic.map(|m| m & 0xff00_0000), value.len()),
        (Some(0x0200_0000), 20) | (Some(0x0300_0000), 24)
    )
}

/// The entries of an ACL as setxattr(2) gets them; none remove it.
fn parse_acl(value: &[u8]) -> Result<Option<Vec<AclEntry>>> {
    if value.is_empty() {
        return Ok(None);
    }
    match acl_decode_xattr(value) {
        Ok(acl) => Ok((!acl.is_empty()).then_some(acl)),
        Err(e) if e.kind == CorruptKind::AclVersion => Err(Errno::EOPNOTSUPP.into()),
        Err(_) => Err(Errno::EINVAL.into()),
    }
}

impl Ext4 {
    /// The names in the blocks of a directory that can be read, and why the other blocks cannot be.
    ///
    /// # Errors
    /// `ENOTDIR`. Those of the encryption context of an encrypted directory.
    pub fn list_readable(&self, dir: &InodeRef) -> Result<(Vec<Vec<u8>>, Vec<Error>)> {
        if !dir.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        let shown = self.volume.report(self.attributes.shown_names(dir))?;
        let (stored, mut faults) = {
            let _locked = ilock(&dir.ilock, LockMode::Shared);
            self.directories.dir_list_readable(dir)
        };
        let mut names = Vec::with_capacity(stored.len());
        for name in stored {
            match shown.name(dir, NameHash::default(), &name) {
                Ok(name) => names.push(name.into_owned()),
                Err(fault) => faults.push(fault),
            }
        }
        let report = |fault| self.volume.report::<()>(Err(fault)).err();
        Ok((names, faults.into_iter().filter_map(report).collect()))
    }

    /// The blocks that can never hold data: as the superblock says, else counted as the kernel does.
    fn overhead_blocks(&self, of: &Generation) -> Result<u64> {
        let (geometry, told) = (&of.geometry, of.overhead_blocks);
        if told != 0 && told < geometry.blocks_count {
            return Ok(told);
        }
        let of_groups = of.groups.iter().map(|group| {
            u64::from(geometry.base_meta_blocks(group.no))
                + u64::from(geometry.itable_blocks_per_group)
                + 2
        });
        let mut overhead = u64::from(geometry.first_data_block) + of_groups.sum::<u64>();
        let journal = Ino(self.volume.sb.raw.journal_inum.get());
        if self.volume.sb.compat.contains(Compat::HAS_JOURNAL) && journal.0 != 0 {
            let journal = self.volume.report(self.inodes.get_inode(journal))?;
            overhead += self.attributes.attr(&journal).size / u64::from(geometry.block_size);
        }
        Ok(overhead)
    }

    /// The inode with that number, whatever its generation is; for a front end that compares generations itself.
    ///
    /// # Errors
    /// `ESTALE`: it is free, or none that files have.
    pub fn inode_by_number(&self, ino: u64) -> Result<InodeRef> {
        let stale = || Error::new(Errno::ESTALE);
        let ino = Ino(u32::try_from(ino).map_err(|_| stale())?);
        if ino != Ino::ROOT && ino < self.volume.geometry().first_ino {
            return Err(stale());
        }
        if ino.0 > self.volume.geometry().inodes_count {
            return Err(stale());
        }
        let inode = self.inodes.get_inode(ino).map_err(|e| match e {
            // Whatever the inode table has there, it is not this handle's inode.
            Ext4Error::Corrupt(_) => stale(),
            e => self.volume.noted(e),
        })?;
        match inode.holds_value() {
            true => Err(stale()),
            false => Ok(inode),
        }
    }

    /// Refuses a caller that may not use attributes of that name, to read or to write one.
    fn check_xattr(
        &self,
        caller: &Caller,
        node: &InodeRef,
        name: &[u8],
        want: Access,
    ) -> Result<()> {
        let attr = self.attributes.attr_snapshot(node);
        let writes = want.contains(Access::WRITE);
        if writes && attr.flags & (Attr::FLAG_IMMUTABLE | Attr::FLAG_APPEND) != 0 {
            return Err(Errno::EPERM.into());
        }
        if name.starts_with(b"system.") {
            return Ok(());
        }
        if name.starts_with(b"security.") {
            let needed = match name {
                b"security.capability" => Capabilities::SETFCAP,
                _ => Capabilities::SYS_ADMIN,
            };
            return match !writes || caller.has(needed) {
                true => Ok(()),
                false => Err(Errno::EPERM.into()),
            };
        }
        let refused = if writes { Errno::EPERM } else { Errno::ENODATA };
        if name.starts_with(b"trusted.") {
            return match caller.has(Capabilities::SYS_ADMIN) {
                true => Ok(()),
                false => Err(refused.into()),
            };
        }
        if name.starts_with(b"user.") {
            if !matches!(attr.kind, FileKind::Regular | FileKind::Directory) {
                return Err(refused.into());
            }
            let sticky = attr.kind == FileKind::Directory && attr.mode & S_ISVTX != 0;
            if sticky && writes && !permission::is_owner_or_capable(&attr, caller) {
                return Err(Errno::EPERM.into());
            }
        }
        self.volume
            .report(self.attributes.check_access(caller, node, &attr, want))
    }
}

impl Ext4 {
    /// Applies the limits of quotas to what the caller does until the result is dropped.
    #[inline]
    fn limits(&self, caller: &Caller) -> Option<Scope> {
        let quotas = self.volume.quotas()?;
        quotas.begin(caller.has(Capabilities::SYS_RESOURCE))
    }
}

impl FileSystem for Ext4 {
    type Node = InodeRef;

    fn root(&self) -> Result<&InodeRef> {
        self.volume.report(self.namei.root())
    }

    fn handle(&self, node: &InodeRef) -> FileHandle {
        FileHandle {
            ino: u64::from(node.ino.0),
            generation: node.generation().0,
        }
    }

    fn open_handle(&self, handle: FileHandle) -> Result<InodeRef> {
        let inode = self.inode_by_number(handle.ino)?;
        if inode.generation().0 != handle.generation {
            return Err(Errno::ESTALE.into());
        }
        Ok(inode)
    }

    fn getattr(&self, node: &InodeRef) -> Result<Attr> {
        let mut attr = self.attributes.attr_snapshot(node);
        if node.file_type == FileType::Symlink && node.is_encrypted() {
            // The length of the target that a caller gets; of one that can't be read, what is stored.
            if let Ok(target) = self.files.target_of(node) {
                attr.size = target.len() as u64;
            }
        }
        Ok(attr)
    }

    #[inline(always)]
    fn kind(&self, node: &InodeRef) -> Result<FileKind> {
        Ok(kind_of(node.file_type))
    }

    fn access(&self, caller: &Caller, node: &InodeRef, want: Access) -> Result<()> {
        let attr = self.attributes.attr_snapshot(node);
        let on_disk = matches!(
            attr.kind,
            FileKind::Regular | FileKind::Directory | FileKind::Symlink
        );
        if want.contains(Access::WRITE) && on_disk && self.volume.is_read_only() {
            return Err(Errno::EROFS.into());
        }
        self.volume
            .report(self.attributes.check_access(caller, node, &attr, want))
    }

    fn check_open(&self, node: &InodeRef, writes: bool) -> Result<()> {
        self.volume
            .report(self.attributes.check_encrypted_open(node, writes))
    }

    fn setattr(&self, caller: &Caller, node: &InodeRef, change: &SetAttr) -> Result<Attr> {
        let _change = self.volume.freeze.begin_change();
        let _limits = self.limits(caller);
        self.volume.report(self.files.setattr(caller, node, change))
    }

    fn lookup(&self, caller: &Caller, dir: &InodeRef, name: &[u8]) -> Result<InodeRef> {
        self.volume.report(self.namei.lookup(caller, dir, name))
    }

    fn lookup_known(
        &self,
        caller: &Caller,
        dir: &InodeRef,
        path: &[u8],
        with_last: bool,
    ) -> Result<Option<(InodeRef, usize)>> {
        let found = self.namei.lookup_known(caller, dir, path, with_last);
        self.volume.report(found)
    }

    fn create(
        &self,
        caller: &Caller,
        dir: &InodeRef,
        name: &[u8],
        new: &NewNode<'_>,
    ) -> Result<InodeRef> {
        let _change = self.volume.freeze.begin_change();
        let _limits = self.limits(caller);
        self.volume
            .report(self.namei.create(caller, dir, name, new))
    }

    fn tmpfile(&self, caller: &Caller, dir: &InodeRef, mode: u16) -> Result<InodeRef> {
        let _change = self.volume.freeze.begin_change();
        let _limits = self.limits(caller);
        self.volume.report(self.namei.tmpfile(caller, dir, mode))
    }

    fn link(&self, caller: &Caller, node: &InodeRef, dir: &InodeRef, name: &[u8]) -> Result<()> {
        let _change = self.volume.freeze.begin_change();
        let _limits = self.limits(caller);
        self.volume.report(self.namei.link(caller, node, dir, name))
    }

    fn unlink(&self, caller: &Caller, dir: &InodeRef, name: &[u8]) -> Result<()> {
        let _change = self.volume.freeze.begin_change();
        let _limits = self.limits(caller);
        self.volume.report(self.namei.unlink(caller, dir, name))
    }

    fn rmdir(&self, caller: &Caller, dir: &InodeRef, name: &[u8]) -> Result<()> {
        let _change = self.volume.freeze.begin_change();
        let _limits = self.limits(caller);
        self.volume.report(self.namei.rmdir(caller, dir, name))
    }

    fn rename(
        &self,
        caller: &Caller,
        old_dir: &InodeRef,
        old_name: &[u8],
        new_dir: &InodeRef,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        let _change = self.volume.freeze.begin_change();
        let _limits = self.limits(caller);
        self.volume.report(
            self.namei
                .rename(caller, old_dir, old_name, new_dir, new_name, flags),
        )
    }

    fn readlink(&self, _caller: &Caller, node: &InodeRef) -> Result<Vec<u8>> {
        self.volume.report(self.files.readlink(node))
    }

    fn readdir(
        &self,
        caller: &Caller,
        dir: &InodeRef,
        cookie: u64,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<()> {
        if !dir.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        self.volume.report(self.attributes.check_access(
            caller,
            dir,
            &self.attributes.attr(dir),
            Access::READ,
        ))?;
        if dir.is_unlinked() {
            return Err(Errno::ENOENT.into());
        }
        let mut cookie = cookie;
        let names = self.volume.report(self.attributes.shown_names(dir))?;
        loop {
            let listed = {
                let _locked = ilock(&dir.ilock, LockMode::Shared);
                self.directories.dir_list(dir, cookie)
            };
            let batch = self.volume.report(listed)?;
            self.table.touch_atime(dir);
            let Some(last) = batch.last() else {
                return Ok(());
            };
            cookie = last.cookie;
            for entry in &batch {
                let name = self
                    .volume
                    .report(names.name(dir, entry.hash, &entry.name))?;
                let known = entry.file_type != FileType::Unknown;
                let more = emit(&DirEntry {
                    ino: u64::from(entry.ino.0),
                    kind: known.then(|| kind_of(entry.file_type)),
                    name: &name,
                    cookie: entry.cookie,
                });
                if !more {
                    return Ok(());
                }
            }
        }
    }

    fn read_with(
        &self,
        node: &InodeRef,
        offset: u64,
        data: &mut [u8],
        flags: IoFlags,
    ) -> Result<usize> {
        self.volume
            .report(self.files.read_with(node, offset, data, flags))
    }

    fn write_with(
        &self,
        node: &InodeRef,
        offset: u64,
        data: &[u8],
        flags: IoFlags,
    ) -> Result<Written> {
        let _change = match flags.contains(IoFlags::NOWAIT) {
            true => self.volume.freeze.try_change().ok_or(Errno::EAGAIN)?,
            false => self.volume.freeze.begin_change(),
        };
        let privileged = !flags.contains(IoFlags::NO_RESERVE);
        let quotas = self.volume.quotas();
        let _limits = quotas.and_then(|quotas| quotas.begin(privileged));
        let written = self.files.write_with(node, offset, data, flags, privileged);
        self.volume.report(written)
    }

    fn direct_alignment(&self) -> u32 {
        self.files.direct_alignment()
    }

    fn fallocate(&self, node: &InodeRef, what: Fallocate, offset: u64, len: u64) -> Result<()> {
        self.fallocate_with(node, what, offset, len, IoFlags::empty())
    }

    fn fallocate_with(
        &self,
        node: &InodeRef,
        what: Fallocate,
        offset: u64,
        len: u64,
        flags: IoFlags,
    ) -> Result<()> {
        let _change = self.volume.freeze.begin_change();
        let quotas = self.volume.quotas();
        let _limits = quotas.and_then(|q| q.begin(!flags.contains(IoFlags::NO_RESERVE)));
        self.volume
            .report(self.files.fallocate(node, what, offset, len))
    }

    fn seek_data(&self, node: &InodeRef, offset: u64) -> Result<u64> {
        self.volume.report(self.files.seek_data(node, offset))
    }

    fn seek_hole(&self, node: &InodeRef, offset: u64) -> Result<u64> {
        self.volume.report(self.files.seek_hole(node, offset))
    }

    fn fsync(&self, node: &InodeRef, data_only: bool) -> Result<()> {
        let Some(_change) = self.volume.freeze.change_unless_frozen() else {
            // The freeze has made all of it durable.
            return self
                .volume
                .report(self.volume.journal().check_aborted().map_err(Into::into));
        };
        self.volume.report(self.files.fsync(node, data_only))
    }

    fn syncfs(&self) -> Result<()> {
        self.volume.report(self.sync())
    }

    fn statfs(&self) -> Result<StatFs> {
        let free = self.blocks.free_blocks_total();
        // Only then the size, which free blocks never exceed.
        let of = self.volume.generations.current();
        let (geometry, reserved) = (&of.geometry, of.reserved_blocks);
        let inodes_free = of.groups.iter().map(|g| u64::from(g.free_inodes())).sum();
        let overhead = self.overhead_blocks(of)?;
        let uuid = u128::from_le_bytes(self.volume.sb.raw.uuid);
        Ok(StatFs {
            block_size: geometry.block_size,
            blocks: geometry.blocks_count.saturating_sub(overhead),
            blocks_free: free,
            blocks_available: free.saturating_sub(reserved),
            inodes: u64::from(geometry.inodes_count),
            inodes_free,
            fsid: (uuid as u64) ^ ((uuid >> 64) as u64),
            name_bytes_max: 255,
            read_only: self.volume.is_read_only(),
        })
    }

    fn getxattr(&self, caller: &Caller, node: &InodeRef, name: &[u8]) -> Result<Vec<u8>> {
        check_name(name)?;
        if let Some(subject) = acl_of(name) {
            if node.file_type == FileType::Symlink {
                return Err(Errno::EOPNOTSUPP.into());
            }
            let acl = self
                .volume
                .report(self.attributes.acl(node, subject))?
                .ok_or(Errno::ENODATA)?;
            return Ok(acl_encode_xattr(&acl));
        }
        self.check_xattr(caller, node, name, Access::READ)?;
        let (index, rest) = split(name)?;
        self.volume
            .report(self.attributes.get_xattr(node, index, rest))
    }

    fn setxattr(
        &self,
        caller: &Caller,
        node: &InodeRef,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        let _change = self.volume.freeze.begin_change();
        let _limits = self.limits(caller);
        check_name(name)?;
        if value.len() > XATTR_BYTES_MAX {
            return Err(Errno::E2BIG.into());
        }
        if let Some(subject) = acl_of(name) {
            let acl = parse_acl(value)?;
            return self.volume.report(self.attributes.set_acl(
                caller,
                node,
                subject,
                acl.as_deref(),
            ));
        }
        if name == b"security.capability" && !value.is_empty() && !is_capability(value) {
            return Err(Errno::EINVAL.into());
        }
        self.check_xattr(caller, node, name, Access::WRITE)?;
        let (index, rest) = split(name)?;
        self.volume
            .report(self.attributes.set_xattr(node, index, rest, value, flags))
    }

    fn listxattr(&self, caller: &Caller, node: &InodeRef) -> Result<Vec<Vec<u8>>> {
        let mut names = self.volume.report(self.attributes.list_xattrs(node))?;
        if !caller.has(Capabilities::SYS_ADMIN) {
            names.retain(|n| !n.starts_with(b"trusted."));
        }
        Ok(names)
    }

    fn removexattr(&self, caller: &Caller, node: &InodeRef, name: &[u8]) -> Result<()> {
        let _change = self.volume.freeze.begin_change();
        let _limits = self.limits(caller);
        check_name(name)?;
        if let Some(subject) = acl_of(name) {
            return self
                .volume
                .report(self.attributes.set_acl(caller, node, subject, None));
        }
        self.check_xattr(caller, node, name, Access::WRITE)?;
        let (index, rest) = split(name)?;
        self.volume
            .report(self.attributes.remove_xattr(node, index, rest))
    }
}
