//! A tiny file system in memory, for the tests of this crate: as much as they need, under one lock.

use crate::attr::{
    Attr, DirEntry, FileHandle, FileKind, NewKind, NewNode, RenameFlags, SetAttr, StatFs,
    Timestamp, XattrFlags,
};
use crate::caller::Caller;
use crate::errno::{Errno, Result};
use crate::filesystem::{FileSystem, NAME_BYTES_MAX};
use crate::io::{Fallocate, IoFlags, Written};
use crate::permission::{self, Access};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Node {
    attr: Attr,
    data: Vec<u8>,
    entries: BTreeMap<Vec<u8>, u64>,
    parent: u64,
}

/// Nodes are inode numbers; the root is 1.
pub(crate) struct MemoryFs {
    nodes: Mutex<BTreeMap<u64, Node>>,
}

type Nodes<'a> = MutexGuard<'a, BTreeMap<u64, Node>>;

impl MemoryFs {
    pub(crate) fn new() -> MemoryFs {
        let root = Node::new(1, 1, FileKind::Directory, (0, 0, 0o755));
        MemoryFs {
            nodes: Mutex::new(BTreeMap::from([(1, root)])),
        }
    }

    pub(crate) fn set_mode(&self, ino: u64, mode: u16) {
        if let Some(node) = self.lock().get_mut(&ino) {
            node.attr.mode = mode;
        }
    }

    fn lock(&self) -> Nodes<'_> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, ino: u64, f: impl FnOnce(&mut Node) -> Result<R>) -> Result<R> {
        match self.lock().get_mut(&ino) {
            Some(node) => f(node),
            None => Err(Errno::ESTALE.into()),
        }
    }

    fn file<R>(&self, ino: u64, f: impl FnOnce(&mut Node) -> R) -> Result<R> {
        self.with(ino, |node| match node.attr.kind {
            FileKind::Regular => Ok(f(node)),
            FileKind::Directory => Err(Errno::EISDIR.into()),
            _ => Err(Errno::EINVAL.into()),
        })
    }
}

impl Node {
    fn new(ino: u64, parent: u64, kind: FileKind, (uid, gid, mode): (u32, u32, u16)) -> Node {
        let time = Timestamp::default();
        Node {
            attr: Attr {
                ino,
                generation: 1,
                kind,
                mode,
                nlink: 1,
                uid,
                gid,
                size: 0,
                blocks: 0,
                block_size: 1024,
                atime: time,
                mtime: time,
                ctime: time,
                crtime: time,
                rdev_major: 0,
                rdev_minor: 0,
                flags: 0,
            },
            data: Vec::new(),
            entries: BTreeMap::new(),
            parent,
        }
    }

    fn set_data(&mut self, data: Vec<u8>) {
        self.attr.size = data.len() as u64;
        self.data = data;
    }
}

impl FileSystem for MemoryFs {
    type Node = u64;

    fn root(&self) -> Result<&u64> {
        Ok(&1)
    }

    fn handle(&self, node: &u64) -> FileHandle {
        FileHandle {
            ino: *node,
            generation: 1,
        }
    }

    fn open_handle(&self, handle: FileHandle) -> Result<u64> {
        self.with(handle.ino, |node| Ok(node.attr.ino))
    }

    fn getattr(&self, node: &u64) -> Result<Attr> {
        self.with(*node, |node| Ok(node.attr))
    }

    fn setattr(&self, caller: &Caller, node: &u64, change: &SetAttr) -> Result<Attr> {
        self.with(*node, |node| {
            let change = permission::prepare_setattr(&node.attr, caller, change)?;
            if let Some(mode) = change.mode {
                node.attr.mode = mode;
            }
            if let Some(size) = change.size {
                let mut data = std::mem::take(&mut node.data);
                data.resize(size as usize, 0);
                node.set_data(data);
            }
            Ok(node.attr)
        })
    }

    fn lookup(&self, caller: &Caller, dir: &u64, name: &[u8]) -> Result<u64> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        self.with(*dir, |node| {
            if node.attr.kind != FileKind::Directory {
                return Err(Errno::ENOTDIR.into());
            }
            permission::check_access(&node.attr, caller, Access::EXEC)?;
            match name {
                b"." => Ok(*dir),
                b".." => Ok(node.parent),
                _ => node.entries.get(name).copied().ok_or(Errno::ENOENT.into()),
            }
        })
    }

    fn create(&self, caller: &Caller, dir: &u64, name: &[u8], new: &NewNode<'_>) -> Result<u64> {
        match self.lookup(caller, dir, name) {
            Ok(_) => return Err(Errno::EEXIST.into()),
            Err(e) if e == Errno::ENOENT => {}
            Err(e) => return Err(e),
        }
        let mut nodes = self.lock();
        let ino = nodes.last_key_value().map_or(1, |(&last, _)| last + 1);
        let Some(parent) = nodes.get_mut(dir) else {
            return Err(Errno::ENOENT.into());
        };
        permission::may_create(&parent.attr, caller)?;
        let kind = new.kind.file_kind();
        let owner = permission::new_owner(&parent.attr, caller, kind, new.mode);
        parent.entries.insert(name.to_vec(), ino);
        let mut node = Node::new(ino, *dir, kind, (owner.uid, owner.gid, owner.mode));
        if let NewKind::Symlink(target) = new.kind {
            node.set_data(target.to_vec());
        }
        nodes.insert(ino, node);
        Ok(ino)
    }

    fn readlink(&self, _caller: &Caller, node: &u64) -> Result<Vec<u8>> {
        self.with(*node, |node| match node.attr.kind {
            FileKind::Symlink => Ok(node.data.clone()),
            _ => Err(Errno::EINVAL.into()),
        })
    }

    fn read_with(&self, node: &u64, offset: u64, data: &mut [u8], _: IoFlags) -> Result<usize> {
        self.file(*node, |node| {
            let from = node.data.get(offset as usize..).unwrap_or_default();
            let n = from.len().min(data.len());
            data[..n].copy_from_slice(&from[..n]);
            n
        })
    }

    fn write_with(&self, node: &u64, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        self.file(*node, |node| {
            let mut all = std::mem::take(&mut node.data);
            let offset = match flags.contains(IoFlags::APPEND) {
                true => all.len() as u64,
                false => offset,
            };
            let end = offset as usize + data.len();
            all.resize(all.len().max(end), 0);
            all[offset as usize..end].copy_from_slice(data);
            node.set_data(all);
            let len = data.len();
            Written { offset, len }
        })
    }

    fn fallocate(&self, _: &u64, _: Fallocate, _: u64, _: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP.into())
    }

    fn seek_data(&self, node: &u64, offset: u64) -> Result<u64> {
        let size = self.getattr(node)?.size;
        if offset < size {
            Ok(offset)
        } else {
            Err(Errno::ENXIO.into())
        }
    }

    fn seek_hole(&self, node: &u64, offset: u64) -> Result<u64> {
        let size = self.getattr(node)?.size;
        if offset < size {
            Ok(size)
        } else {
            Err(Errno::ENXIO.into())
        }
    }

    fn fsync(&self, _node: &u64, _data_only: bool) -> Result<()> {
        Ok(())
    }

    fn syncfs(&self) -> Result<()> {
        Ok(())
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(StatFs::default())
    }

    fn tmpfile(&self, _: &Caller, _: &u64, _: u16) -> Result<u64> {
        Err(Errno::EOPNOTSUPP.into())
    }

    fn link(&self, _: &Caller, _: &u64, _: &u64, _: &[u8]) -> Result<()> {
        Err(Errno::EOPNOTSUPP.into())
    }

    fn unlink(&self, _: &Caller, _: &u64, _: &[u8]) -> Result<()> {
        Err(Errno::EOPNOTSUPP.into())
    }

    fn rmdir(&self, _: &Caller, _: &u64, _: &[u8]) -> Result<()> {
        Err(Errno::EOPNOTSUPP.into())
    }

    fn rename(
        &self,
        _: &Caller,
        _: &u64,
        _: &[u8],
        _: &u64,
        _: &[u8],
        _: RenameFlags,
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP.into())
    }

    fn readdir(
        &self,
        _: &Caller,
        _: &u64,
        _: u64,
        _: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP.into())
    }

    fn getxattr(&self, _: &Caller, _: &u64, _: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP.into())
    }

    fn setxattr(&self, _: &Caller, _: &u64, _: &[u8], _: &[u8], _: XattrFlags) -> Result<()> {
        Err(Errno::EOPNOTSUPP.into())
    }

    fn listxattr(&self, _: &Caller, _: &u64) -> Result<Vec<Vec<u8>>> {
        Err(Errno::EOPNOTSUPP.into())
    }

    fn removexattr(&self, _: &Caller, _: &u64, _: &[u8]) -> Result<()> {
        Err(Errno::EOPNOTSUPP.into())
    }
}
