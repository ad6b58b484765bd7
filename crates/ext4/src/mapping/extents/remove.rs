//! Taking extents away and freeing what they hold.

use crate::inode::Inode;
use crate::inode::MapTree;
use crate::mapping::Mapping;
use crate::mapping::extents::Path;
use crate::prelude::*;
use crate::run::Run;

/// Blocks that one step may change: inode, path, two groups' bitmaps and descriptors.
pub(crate) const STEP_CREDITS: u32 = 14;
/// Blocks of a directory that one step frees, each of which is revoked.
const METADATA_STEP: u64 = 64;
/// Blocks that a step changes which frees what was written through the journal.
pub(crate) const METADATA_STEP_CREDITS: u32 = STEP_CREDITS + METADATA_STEP as u32 + 1;

/// How the blocks of a file were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// To the device.
    Data,
    /// Through the journal: each is revoked.
    Metadata,
}

/// Whether the handle may be restarted between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    /// The inode is on record as an orphan, or the rest can wait.
    Allowed,
    /// All of it belongs to one transaction; it is little.
    Never,
}

impl Mapping {
    /// Frees the end of the last extent in `[from, to)`, or cuts it at `to` first; returns where the rest
    /// ends.
    ///
    /// # Journal
    /// [`STEP_CREDITS`].
    ///
    /// # Errors
    /// [`crate::error::Ext4Error::NoSpace`] when a hole splits an extent and the tree needs a block.
    pub(crate) fn remove_step(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        tree: &mut MapTree,
        from: u64,
        to: u64,
        content: Content,
    ) -> Result<u64> {
        let last = Lblk((to - 1) as u32);
        let mut path = self.path(inode, last)?;
        let Some(extent) = path.extent().filter(|e| e.end() > from) else {
            // Nothing in this leaf before `to`; the leaf may start after it, though.
            return Ok(self.previous_end(&path, from, to));
        };
        if extent.end() > to {
            self.split_extent(handle, inode, tree, to, true)?;
            return Ok(to);
        }
        let start = u64::from(extent.lblk.0);
        let mut cut_from = start.max(from);
        let cut_to = extent.end();
        if content == Content::Metadata {
            cut_from = cut_from.max(cut_to.saturating_sub(METADATA_STEP));
        }
        let len = (cut_to - cut_from) as u32;
        let pblk = Pblk(extent.pblk.0 + (cut_from - start));
        self.cut(handle, inode, &mut path, extent, cut_from)?;
        if content == Content::Metadata {
            self.forget_run(handle, Run { pblk, len })?;
        }
        let removed = Extent {
            lblk: Lblk(cut_from as u32),
            len: len as u16,
            pblk,
            ..extent
        };
        let own = self.own_clusters(inode, &removed)?;
        let end = pblk.0 + u64::from(len);
        let is_all = |run: Run| run.pblk <= pblk && run.pblk.0 + u64::from(run.len) >= end;
        if !own.is_some_and(is_all) {
            self.note_partly_freed(handle, inode);
        }
        let Some(run) = own else {
            return Ok(cut_from);
        };
        self.blocks.free_run(handle, run)?;
        let sectors = u64::from(run.len) * (self.volume.block_size() / 512);
        self.table.update_inode(inode, handle, |disk| {
            disk.blocks = disk.blocks.saturating_sub(sectors)
        })?;
        Ok(cut_from)
    }

    /// Says of every block of a run, all written through the journal, that it is being freed.
    pub(crate) fn forget_run(&self, handle: &Handle<'_>, run: Run) -> Result<()> {
        for pblk in run.pblk.0..run.pblk.0 + u64::from(run.len) {
            match self.volume.cache().peek(pblk) {
                Some(buffer) => handle.forget(&buffer)?,
                None => handle.revoke(pblk),
            }
        }
        Ok(())
    }

    /// Where to go on when the leaf of `path` maps nothing between `from` and `to`.
    fn previous_end(&self, path: &Path, from: u64, to: u64) -> u64 {
        if path.extent().is_some() {
            return from;
        }
        // The leaf starts after `to` although its parent's key is before: what else there is before `to` lies before
        // the key that leads there, in another leaf.
        let key_at = |level: usize| {
            let at = path.steps.get(level).and_then(|s| s.at).unwrap_or(0);
            path.with_node(level, |node| node.lblk(at))
        };
        let keys = (0..path.leaf_level()).rev().filter_map(key_at);
        keys.map(|key| u64::from(key.0))
            .find(|key| *key < to)
            .map_or(from, |key| key.max(from))
    }

    /// Takes what is at `cut_from` and after it out of the extent that `path` leads to.
    fn cut(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        path: &mut Path,
        extent: Extent,
        cut_from: u64,
    ) -> Result<()> {
        let start = u64::from(extent.lblk.0);
        let level = path.leaf_level();
        let at = path.extent_at()?;
        if cut_from > start {
            let len = (cut_from - start) as u16;
            return self.change_node(handle, inode, path, level, |node| {
                node.set_extent(at, Extent { len, ..extent });
            });
        }
        self.change_node(handle, inode, path, level, |node| {
            node.remove_range(at..at + 1);
        })?;
        self.drop_empty(handle, inode, path)
    }

    /// Frees the nodes of the path that became empty, from the leaf up.
    fn drop_empty(&self, handle: &Handle<'_>, inode: &Inode, path: &mut Path) -> Result<()> {
        let mut freed = 0;
        for level in (1..path.steps.len()).rev() {
            if !path.with_node(level, |node| node.is_empty()) {
                self.sync_keys(handle, inode, path, level)?;
                break;
            }
            let Some(buffer) = path.steps.get_mut(level).and_then(|s| s.buffer.take()) else {
                break;
            };
            let at = path.steps.get(level - 1).and_then(|s| s.at).unwrap_or(0);
            self.change_node(handle, inode, path, level - 1, |node| {
                node.remove_range(at..at + 1);
            })?;
            self.blocks.free_metadata(handle, Pblk(buffer.block()))?;
            freed += 1;
        }
        let root_empty = path.with_node(0, |node| node.is_empty() && node.depth() > 0);
        if root_empty {
            ExtentNodeMut::new(&mut path.root).set_depth(0);
        }
        if freed > 0 || root_empty {
            let sectors = self.blocks.sectors_of(freed);
            let root = path.root;
            self.table.update_inode(inode, handle, |disk| {
                disk.i_block = root;
                disk.blocks = disk.blocks.saturating_sub(sectors);
            })?;
        }
        Ok(())
    }
}
