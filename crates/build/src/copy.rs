//! Filling the blocks of files and directories: many small ones go out in one write.
//!
//! A [`Worker`] is given runs of [`Item`]s. It reads files and makes directory blocks straight into a
//! buffer while the next item follows on disk, and keeps the directory of the last file open.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::retry_on_intr;
use uext4_block::BlockDevice;
use uext4_ondisk::{InodeSeed, Lblk, Timestamp, xattr_block_checksum_set};

use crate::directory::{DirBlocks, DirFormat};
use crate::error::{MkfsError, Result};
use crate::place::{Content, Item, inode_seed};
use crate::plan::Plan;
use crate::source::{open_at, open_dir};
use crate::tree::{Kind, NodeId};

/// Bytes of a worker's buffer.
const BUFFER: usize = 1 << 20;

/// A thread's state.
pub(crate) struct Worker<'a> {
    plan: &'a Plan,
    format: &'a DirFormat,
    device: &'a dyn BlockDevice,
    source: Option<BorrowedFd<'a>>,
    /// The directory that was opened last.
    dir: Option<(NodeId, OwnedFd)>,
    /// The file that was opened last, if there is more of it to come.
    file: Option<(NodeId, OwnedFd)>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are filled.
    filled: usize,
    /// Where on the device they go.
    at: u64,
    warnings: Vec<String>,
}

impl<'a> Worker<'a> {
    /// A worker with an empty buffer.
    pub fn new(plan: &'a Plan, format: &'a DirFormat, device: &'a dyn BlockDevice) -> Self {
        Worker {
            plan,
            format,
            device,
            source: plan.source.as_ref().map(|fd| fd.as_fd()),
            dir: None,
            file: None,
            buffer: vec![0; BUFFER],
            filled: 0,
            at: 0,
            warnings: Vec::new(),
        }
    }

    /// Fills and writes items; returns warnings.
    ///
    /// # Errors
    /// [`MkfsError::Tree`] for a file that can't be read, [`MkfsError::Device`].
    pub fn write(&mut self, items: &[Item]) -> Result<Vec<String>> {
        let block_size = self.format.block_size;
        for item in items {
            let (len, at) = (
                item.len as usize * block_size,
                item.pblk.0 * block_size as u64,
            );
            if self.filled + len > self.buffer.len() || self.at + self.filled as u64 != at {
                self.flush()?;
                self.at = at;
            }
            if len > self.buffer.len() {
                self.buffer.resize(len, 0);
            }
            let mut buffer = std::mem::take(&mut self.buffer);
            let result = self.fill(item, &mut buffer[self.filled..self.filled + len]);
            self.buffer = buffer;
            result?;
            self.filled += len;
        }
        self.flush()?;
        Ok(std::mem::take(&mut self.warnings))
    }

    fn flush(&mut self) -> Result<()> {
        if self.filled > 0 {
            self.device.write_at(self.at, &self.buffer[..self.filled])?;
            self.filled = 0;
        }
        Ok(())
    }

    fn seed(&self, id: NodeId) -> Option<InodeSeed> {
        inode_seed(&self.plan.layout, self.plan.places.inos[id.at()])
    }

    fn fill(&mut self, item: &Item, bytes: &mut [u8]) -> Result<()> {
        match item.content {
            Content::Data => return self.data(item, bytes),
            Content::Directory => self.directory(item, bytes),
            Content::Symlink => {
                bytes.fill(0);
                if let Kind::Symlink(target) = self.plan.tree.node(item.node).kind {
                    let target = self.plan.tree.bytes(target);
                    bytes[..target.len()].copy_from_slice(target);
                }
            }
            Content::Xattrs => {
                let layout = &self.plan.layout;
                if let Some(i) = self.plan.tree.node(item.node).xattrs {
                    // They were divided so that these fit.
                    let _ = self.plan.needs.xattrs[i as usize].block.encode_block(bytes);
                }
                if layout.features.has_metadata_csum() {
                    xattr_block_checksum_set(bytes, layout.sb.csum_seed, item.pblk);
                }
            }
        }
        Ok(())
    }

    fn directory(&self, item: &Item, bytes: &mut [u8]) {
        let (plan, id) = (self.plan, item.node);
        let inos = &plan.places.inos;
        let blocks = DirBlocks {
            format: self.format,
            tree: &plan.tree,
            dir: id,
            plan: plan.needs.dirs.get(&id),
            ino: inos[id.at()],
            parent: inos[plan.tree.node(id).parent.at()],
            seed: self.seed(id).unwrap_or(InodeSeed(0)),
            inos,
        };
        for (i, block) in bytes.chunks_exact_mut(self.format.block_size).enumerate() {
            blocks.make(Lblk(item.lblk + i as u32), block);
        }
    }

    /// Copies a part of a file: at most what was planned, zeros for what is gone.
    fn data(&mut self, item: &Item, bytes: &mut [u8]) -> Result<()> {
        let id = item.node;
        let size = self.plan.tree.node(id).attributes.size;
        let from = u64::from(item.lblk) * self.format.block_size as u64;
        let want = (size - from.min(size)).min(bytes.len() as u64) as usize;
        let fd = match self.file.take() {
            Some((open, fd)) if open == id => fd,
            _ => self.open(id)?,
        };
        let fail = |op, e| MkfsError::tree(op, self.plan.tree.path(id), e);
        let mut done = 0;
        while done < want {
            let rest = &mut bytes[done..want];
            let at = from + done as u64;
            match retry_on_intr(|| rustix::io::pread(&fd, &mut *rest, at)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) => return Err(fail("read", e)),
            }
        }
        bytes[done..].fill(0);
        if from + (bytes.len() as u64) < size {
            self.file = Some((id, fd));
            return Ok(());
        }
        let stat = rustix::fs::fstat(&fd).map_err(|e| fail("stat", e))?;
        let mtime = Timestamp::new(stat.st_mtime, stat.st_mtime_nsec as u32);
        if stat.st_size as u64 != size || mtime != self.plan.tree.node(id).attributes.mtime {
            let path = self.plan.tree.path(id);
            let warning = format!("{}: changed while it was copied", path.display());
            self.warnings.push(warning);
        }
        Ok(())
    }

    fn open(&mut self, id: NodeId) -> Result<OwnedFd> {
        let tree = &self.plan.tree;
        let node = tree.node(id);
        let fail = |id, e| MkfsError::tree("open", tree.path(id), e);
        let (parent, source) = (node.parent, self.source);
        let dir = match self.dir.take() {
            Some((open, fd)) if open == parent => fd,
            _ => {
                // Only a tree that was read has files with data.
                let root = source.ok_or(MkfsError::NoSize)?;
                let path = tree.relative_path(parent);
                open_dir(root, &path).map_err(|e| fail(parent, e))?
            }
        };
        let name = tree.bytes(node.name);
        let fd = open_at(&dir, name, OFlags::NONBLOCK).map_err(|e| fail(id, e))?;
        self.dir = Some((parent, dir));
        Ok(fd)
    }
}
