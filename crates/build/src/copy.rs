//! Filling the blocks of files and directories: many small ones go out in one write.
//!
//! A [`Worker`] is given runs of [`Item`]s. It reads files and makes directory blocks straight into a
//! buffer while the next item follows on disk.

use uext4_block::BlockDevice;
use uext4_ondisk::{DirBlocks, DirFormat, InodeSeed, Lblk, NewDirent, xattr_block_checksum_set};

use crate::error::Result;
use crate::place::{Content, Item, inode_seed};
use crate::plan::Plan;
use crate::source::Files;
use crate::tree::{Kind, NodeId};

/// Bytes of a worker's buffer.
const BUFFER: usize = 1 << 20;

/// A thread's state.
pub(crate) struct Worker<'a> {
    plan: &'a Plan,
    format: &'a DirFormat,
    device: &'a dyn BlockDevice,
    files: Files<'a>,
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
            files: Files::new(plan.source.as_ref()),
            buffer: vec![0; BUFFER],
            filled: 0,
            at: 0,
            warnings: Vec::new(),
        }
    }

    /// Fills and writes items; returns warnings.
    ///
    /// # Errors
    /// [`crate::MkfsError::Tree`] for a file that can't be read, [`crate::MkfsError::Device`].
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
        let (inos, entries) = (&plan.places.inos, plan.tree.entries_of(id));
        let blocks = DirBlocks {
            format: self.format,
            layout: plan.needs.dirs.get(&id),
            ino: inos[id.at()],
            parent: inos[plan.tree.node(id).parent.at()],
            seed: self.seed(id).unwrap_or(InodeSeed(0)),
            count: entries.len(),
            entry: &|i| NewDirent {
                name: plan.tree.bytes(entries[i].name),
                ino: inos[entries[i].node.at()],
                file_type: plan.tree.node(entries[i].node).file_type(),
            },
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
        let tree = &self.plan.tree;
        let done = self.files.read(tree, id, from, &mut bytes[..want])?;
        bytes[done..].fill(0);
        if from + (bytes.len() as u64) >= size && self.files.has_changed(tree, id)? {
            let path = tree.path(id);
            let warning = format!("{}: changed while it was copied", path.display());
            self.warnings.push(warning);
        }
        Ok(())
    }
}
