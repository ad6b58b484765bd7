//! The data of the files of a directory of the host.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::retry_on_intr;
use uext4_ondisk::Timestamp;

use super::open::{open_at, open_dir};
use crate::error::{MkfsError, Result};
use crate::tree::{NodeId, Tree};

/// The root of a tree, open.
#[derive(Debug)]
pub(crate) struct Root(pub OwnedFd);

/// Reads files one after the other; the directory of the last one stays open.
pub(crate) struct HostFiles<'a> {
    root: &'a Root,
    /// The directory that was opened last.
    dir: Option<(NodeId, OwnedFd)>,
    /// The file that was opened last.
    file: Option<(NodeId, OwnedFd)>,
}

impl<'a> HostFiles<'a> {
    pub fn new(root: &'a Root) -> HostFiles<'a> {
        HostFiles {
            root,
            dir: None,
            file: None,
        }
    }

    /// Reads from the byte `from` of a file until `bytes` are full or the file ends; the number of bytes that it
    /// has.
    pub fn read(&mut self, tree: &Tree, id: NodeId, from: u64, bytes: &mut [u8]) -> Result<usize> {
        let fd = self.open(tree, id)?;
        let mut done = 0;
        while done < bytes.len() {
            let at = from + done as u64;
            match retry_on_intr(|| rustix::io::pread(fd, &mut bytes[done..], at)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) => return Err(MkfsError::tree("read", tree.path(id), e)),
            }
        }
        Ok(done)
    }

    /// Whether the file has changed since the tree was read; closes it.
    pub fn has_changed(&mut self, tree: &Tree, id: NodeId) -> Result<bool> {
        let stat = rustix::fs::fstat(self.open(tree, id)?)
            .map_err(|e| MkfsError::tree("stat", tree.path(id), e))?;
        self.file = None;
        let mtime = Timestamp::new(stat.st_mtime, stat.st_mtime_nsec as u32);
        let planned = tree.node(id).attributes;
        Ok(stat.st_size as u64 != planned.size || mtime != planned.mtime)
    }

    fn open(&mut self, tree: &Tree, id: NodeId) -> Result<&OwnedFd> {
        let fd = match self.file.take() {
            Some((open, fd)) if open == id => fd,
            _ => self.open_anew(tree, id)?,
        };
        Ok(&self.file.insert((id, fd)).1)
    }

    fn open_anew(&mut self, tree: &Tree, id: NodeId) -> Result<OwnedFd> {
        let node = tree.node(id);
        let fail = |id, e| MkfsError::tree("open", tree.path(id), e);
        let parent = node.parent;
        let dir = match self.dir.take() {
            Some((open, fd)) if open == parent => fd,
            _ => {
                let path = tree.relative_path(parent);
                open_dir(self.root.0.as_fd(), &path).map_err(|e| fail(parent, e))?
            }
        };
        let name = tree.bytes(node.name);
        let fd = open_at(&dir, name, OFlags::NONBLOCK).map_err(|e| fail(id, e))?;
        self.dir = Some((parent, dir));
        Ok(fd)
    }
}
