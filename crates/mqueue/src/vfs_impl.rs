//! A namespace as a file system: one directory, whose files are the queues.
//!
//! This is the one adapter to [`FileSystem`]. What can be done, and which error is reported where several
//! could, is as on Linux's mount of type `mqueue`; `docs/SEMANTICS.md` says where it is not.
//!
//! # Invariants
//! An inode number is never used again in a namespace, so that handles need no generation.

use crate::namespace::{FIRST_QUEUE_INO, Namespace};
use crate::node::Node;
use crate::root::ROOT_INO;
use std::sync::Arc;
use uext4_vfs::permission::{check_access, may_create, may_delete};
use uext4_vfs::{
    Access, Attr, Caller, DirEntry, Errno, Fallocate, FileHandle, FileKind, FileSystem, IoFlags,
    NAME_BYTES_MAX, NewKind, NewNode, RenameFlags, Result, SetAttr, StatFs, Written, XattrFlags,
};

/// Names that are taken from the namespace at a time, when the directory is read.
const NAMES_AT_A_TIME: usize = 64;
/// Positions in the directory: after `.`, and after `..`; after a queue, it is the queue's number.
const AFTER_DOT: u64 = 1;
const AFTER_DOTDOT: u64 = FIRST_QUEUE_INO - 1;
/// The end of the longest range that Linux's limit for such a file allows.
const RANGE_END_MAX: u64 = (1 << 31) - 1;
/// The longest value of an extended attribute in bytes (xattr(7)).
const XATTR_VALUE_BYTES_MAX: usize = 65_536;

/// A file of a namespace.
#[derive(Clone)]
pub enum MqFile {
    /// The directory of the queues.
    Root,
    /// A queue. The reference keeps it, also without its name.
    Queue(Arc<Node>),
}

impl MqFile {
    /// The queue, if it is one.
    pub fn queue(&self) -> Option<&Arc<Node>> {
        match self {
            MqFile::Root => None,
            MqFile::Queue(node) => Some(node),
        }
    }

    /// `ENOTDIR` unless it is the root directory.
    fn check_is_dir(&self) -> Result<()> {
        match self {
            MqFile::Root => Ok(()),
            MqFile::Queue(_) => Err(Errno::ENOTDIR.into()),
        }
    }
}

impl Namespace {
    /// As `lookup`, where the permission to search is checked.
    fn entry(&self, name: &[u8]) -> Result<MqFile> {
        match name {
            _ if is_dot(name) => Ok(MqFile::Root),
            _ if name.len() > NAME_BYTES_MAX => Err(Errno::ENAMETOOLONG.into()),
            _ => self.get(name).map(MqFile::Queue),
        }
    }

    /// Whether an entry can be added, `name` being free by now.
    fn check_new_name(&self, caller: &Caller, dir: &MqFile, name: &[u8]) -> Result<()> {
        match self.lookup(caller, dir, name) {
            Ok(_) => Err(Errno::EEXIST.into()),
            Err(e) if e == Errno::ENOENT => may_create(&self.root_attr(), caller),
            Err(e) => Err(e),
        }
    }

    fn check_removable(&self, caller: &Caller, victim: &MqFile, as_dir: bool) -> Result<()> {
        may_delete(&self.root_attr(), &self.getattr(victim)?, caller, as_dir)
    }
}

/// What names and values of extended attributes can be refused for, whichever file it is; then that the
/// file has none.
fn no_xattr(name: &[u8], value: &[u8]) -> Errno {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        Errno::ERANGE
    } else if value.len() > XATTR_VALUE_BYTES_MAX {
        Errno::E2BIG
    } else {
        Errno::EOPNOTSUPP
    }
}

/// The limit that an attribute of the directory is, by what `/proc/sys/fs/mqueue` calls it.
fn limit_name(attribute: &[u8]) -> Option<&str> {
    let name = attribute.strip_prefix(b"uext4.")?;
    std::str::from_utf8(name).ok()
}

fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

impl FileSystem for Namespace {
    type Node = MqFile;

    fn root(&self) -> Result<&MqFile> {
        Ok(&MqFile::Root)
    }

    fn handle(&self, node: &MqFile) -> FileHandle {
        let ino = node.queue().map_or(ROOT_INO, |queue| queue.ino());
        FileHandle { ino, generation: 0 }
    }

    /// Finds a queue while it has its name.
    fn open_handle(&self, handle: FileHandle) -> Result<MqFile> {
        if handle.generation != 0 {
            return Err(Errno::ESTALE.into());
        }
        if handle.ino == ROOT_INO {
            return Ok(MqFile::Root);
        }
        let found = self.by_ino(handle.ino).ok_or(Errno::ESTALE)?;
        Ok(MqFile::Queue(found))
    }

    fn getattr(&self, node: &MqFile) -> Result<Attr> {
        Ok(match node {
            MqFile::Root => self.root_attr(),
            MqFile::Queue(queue) => queue.attr(),
        })
    }

    fn setattr(&self, caller: &Caller, node: &MqFile, change: &SetAttr) -> Result<Attr> {
        match node {
            MqFile::Root => self.set_root(caller, change),
            MqFile::Queue(queue) => queue.setattr(caller, change),
        }
    }

    fn lookup(&self, caller: &Caller, dir: &MqFile, name: &[u8]) -> Result<MqFile> {
        dir.check_is_dir()?;
        check_access(&self.root_attr(), caller, Access::EXEC)?;
        self.entry(name)
    }

    /// A regular file is a queue of the default size; there is nothing else.
    fn create(
        &self,
        caller: &Caller,
        dir: &MqFile,
        name: &[u8],
        new: &NewNode<'_>,
    ) -> Result<MqFile> {
        self.check_new_name(caller, dir, name)?;
        match new.kind {
            NewKind::Regular => {
                let made = self.make(caller, name, new.mode, None)?;
                Ok(MqFile::Queue(made))
            }
            _ => Err(Errno::EPERM.into()),
        }
    }

    fn tmpfile(&self, caller: &Caller, dir: &MqFile, _mode: u16) -> Result<MqFile> {
        dir.check_is_dir()?;
        may_create(&self.root_attr(), caller)?;
        Err(Errno::EOPNOTSUPP.into())
    }

    /// A queue has one name.
    fn link(&self, caller: &Caller, _node: &MqFile, dir: &MqFile, name: &[u8]) -> Result<()> {
        self.check_new_name(caller, dir, name)?;
        Err(Errno::EPERM.into())
    }

    fn unlink(&self, caller: &Caller, dir: &MqFile, name: &[u8]) -> Result<()> {
        match self.lookup(caller, dir, name)? {
            MqFile::Root => Err(Errno::EISDIR.into()),
            MqFile::Queue(_) => Namespace::remove(self, caller, name),
        }
    }

    fn rmdir(&self, caller: &Caller, dir: &MqFile, name: &[u8]) -> Result<()> {
        match name {
            b"." => return Err(Errno::EINVAL.into()),
            b".." => return Err(Errno::ENOTEMPTY.into()),
            _ => {}
        }
        let victim = self.lookup(caller, dir, name)?;
        self.check_removable(caller, &victim, true)?;
        Err(Errno::EPERM.into())
    }

    /// A queue keeps its name.
    fn rename(
        &self,
        caller: &Caller,
        old_dir: &MqFile,
        old_name: &[u8],
        new_dir: &MqFile,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        let noreplace = flags.contains(RenameFlags::NOREPLACE);
        let exchange = flags.contains(RenameFlags::EXCHANGE);
        if exchange && flags != RenameFlags::EXCHANGE {
            return Err(Errno::EINVAL.into());
        }
        if is_dot(old_name) || is_dot(new_name) && !noreplace {
            return Err(Errno::EBUSY.into());
        }
        if is_dot(new_name) {
            return Err(Errno::EEXIST.into());
        }
        let old = self.lookup(caller, old_dir, old_name)?;
        match self.lookup(caller, new_dir, new_name) {
            Ok(_) if noreplace => return Err(Errno::EEXIST.into()),
            Ok(_) if old_name == new_name => return Ok(()),
            Ok(new) => {
                self.check_removable(caller, &old, false)?;
                self.check_removable(caller, &new, false)?;
            }
            Err(e) if e == Errno::ENOENT && !exchange => {
                self.check_removable(caller, &old, false)?;
            }
            Err(e) => return Err(e),
        }
        Err(Errno::EPERM.into())
    }

    fn readlink(&self, _caller: &Caller, _node: &MqFile) -> Result<Vec<u8>> {
        Err(Errno::EINVAL.into())
    }

    /// Queues are listed in the order in which they were made.
    fn readdir(
        &self,
        caller: &Caller,
        dir: &MqFile,
        cookie: u64,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<()> {
        dir.check_is_dir()?;
        check_access(&self.root_attr(), caller, Access::READ)?;
        let dots: [(u64, &[u8]); 2] = [(AFTER_DOT, b"."), (AFTER_DOTDOT, b"..")];
        for (after, name) in dots {
            let entry = DirEntry {
                ino: ROOT_INO,
                kind: Some(FileKind::Directory),
                name,
                cookie: after,
            };
            if cookie < after && !emit(&entry) {
                return Ok(());
            }
        }
        let mut last = cookie.max(AFTER_DOTDOT);
        loop {
            let names = self.names_after(last, NAMES_AT_A_TIME);
            if names.is_empty() {
                return Ok(());
            }
            for (ino, name) in names {
                let entry = DirEntry {
                    ino,
                    kind: Some(FileKind::Regular),
                    name: &name,
                    cookie: ino,
                };
                if !emit(&entry) {
                    return Ok(());
                }
                last = ino;
            }
        }
    }

    /// The status line (mq_overview(7)).
    fn read_with(
        &self,
        node: &MqFile,
        offset: u64,
        data: &mut [u8],
        flags: IoFlags,
    ) -> Result<usize> {
        let queue = node.queue().ok_or(Errno::EISDIR)?;
        if flags.contains(IoFlags::DIRECT) {
            return Err(Errno::EINVAL.into());
        }
        if flags.contains(IoFlags::NOWAIT) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        Ok(queue.read_status(offset, data))
    }

    /// Messages are sent otherwise.
    fn write_with(&self, node: &MqFile, _: u64, _: &[u8], _: IoFlags) -> Result<Written> {
        match node {
            MqFile::Root => Err(Errno::EISDIR.into()),
            MqFile::Queue(_) => Err(Errno::EINVAL.into()),
        }
    }

    fn fallocate(&self, node: &MqFile, _what: Fallocate, offset: u64, len: u64) -> Result<()> {
        if node.queue().is_none() {
            return Err(Errno::EISDIR.into());
        }
        if len == 0 {
            return Err(Errno::EINVAL.into());
        }
        if offset.saturating_add(len) > RANGE_END_MAX {
            return Err(Errno::EFBIG.into());
        }
        Err(Errno::EOPNOTSUPP.into())
    }

    fn seek_data(&self, node: &MqFile, offset: u64) -> Result<u64> {
        match self.seek_hole(node, offset) {
            Ok(_) => Ok(offset),
            Err(e) => Err(e),
        }
    }

    fn seek_hole(&self, node: &MqFile, offset: u64) -> Result<u64> {
        let size = node.queue().ok_or(Errno::EINVAL)?.attr().size;
        if offset >= size {
            return Err(Errno::ENXIO.into());
        }
        Ok(size)
    }

    fn fsync(&self, node: &MqFile, _data_only: bool) -> Result<()> {
        match node {
            MqFile::Root => Ok(()),
            MqFile::Queue(_) => Err(Errno::EINVAL.into()),
        }
    }

    fn syncfs(&self) -> Result<()> {
        Ok(())
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(StatFs {
            block_size: 4096,
            fsid: self.id().0,
            name_bytes_max: NAME_BYTES_MAX as u32,
            ..StatFs::default()
        })
    }

    /// The directory has the limits of the namespace as attributes, which no list names.
    fn getxattr(&self, _caller: &Caller, node: &MqFile, name: &[u8]) -> Result<Vec<u8>> {
        if let (MqFile::Root, Some(limit)) = (node, limit_name(name))
            && let Some(value) = self.limits().get(limit)
        {
            return Ok(value.to_string().into_bytes());
        }
        Err(no_xattr(name, b"").into())
    }

    /// The limits are for root and the owner of the directory to set.
    fn setxattr(
        &self,
        caller: &Caller,
        node: &MqFile,
        name: &[u8],
        value: &[u8],
        _flags: XattrFlags,
    ) -> Result<()> {
        let limit = limit_name(name).filter(|limit| self.limits().get(limit).is_some());
        let (MqFile::Root, Some(limit)) = (node, limit) else {
            return Err(no_xattr(name, value).into());
        };
        if caller.uid != 0 && caller.uid != self.root_attr().uid {
            return Err(Errno::EPERM.into());
        }
        let value = std::str::from_utf8(value).map_err(|_| Errno::EINVAL)?;
        let value = value.trim().parse().map_err(|_| Errno::EINVAL)?;
        let mut limits = self.limits();
        limits.set(limit, value)?;
        self.set_limits(limits);
        Ok(())
    }

    fn listxattr(&self, _caller: &Caller, _node: &MqFile) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn removexattr(&self, _caller: &Caller, _node: &MqFile, name: &[u8]) -> Result<()> {
        Err(no_xattr(name, b"").into())
    }
}
