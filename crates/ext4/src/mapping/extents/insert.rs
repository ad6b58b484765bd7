//! Adding extents.

use crate::inode::Inode;
use crate::inode::MapTree;
use crate::mapping::Mapping;
use crate::mapping::extents::Path;
use crate::prelude::*;
use uext4_ondisk::{ExtentIdx, NodeFull};

/// Whether an extent may become one with its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neighbours {
    Merge,
    /// Its own writer is to convert it, as it is.
    Apart,
}

impl Mapping {
    /// Adds an extent where the file has a hole, merging it with its neighbours where that fits.
    ///
    /// # Journal
    /// One credit for the leaf and one for the inode; four more for each level that splits.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`] when the tree needs a block; nothing is mapped then.
    pub(crate) fn insert_extent(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        tree: &mut MapTree,
        extent: Extent,
        privileged: bool,
    ) -> Result<()> {
        self.insert_extent_as(handle, inode, tree, extent, Neighbours::Merge, privileged)
    }

    /// As [`Mapping::insert_extent`], with its neighbours or apart from them.
    pub(crate) fn insert_extent_as(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        _tree: &mut MapTree,
        extent: Extent,
        neighbours: Neighbours,
        privileged: bool,
    ) -> Result<()> {
        // Each round makes room one level further down; a tree has at most five.
        for _ in 0..16 {
            let mut path = self.path(inode, extent.lblk)?;
            if neighbours == Neighbours::Merge && self.merge(handle, inode, &mut path, extent)? {
                return Ok(());
            }
            let leaf = path.leaf_level();
            if !path.with_node(leaf, |node| node.is_full()) {
                let at = path.leaf_at().map_or(0, |at| at + 1);
                self.change_node(handle, inode, &mut path, leaf, |node| {
                    node.insert_extent_at(at, extent)
                })?
                .map_err(|NodeFull| full(inode))?;
                return self.sync_keys(handle, inode, &mut path, leaf);
            }
            self.split_full(handle, inode, &mut path, extent.lblk, privileged)?;
        }
        Err(full(inode))
    }

    /// Tries to make the extent part of one beside it.
    fn merge(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        path: &mut Path,
        extent: Extent,
    ) -> Result<bool> {
        let leaf = path.leaf_level();
        let left = path.leaf_at();
        let right = left.map_or(0, |at| at + 1);
        let (before, after) = path.with_node(leaf, |node| {
            (left.and_then(|at| node.extent(at)), node.extent(right))
        });
        if let (Some(at), Some(before)) = (left, before)
            && before.can_merge(&extent)
        {
            let merged = Extent {
                len: before.len + extent.len,
                ..before
            };
            let both = after.filter(|after| merged.can_merge(after));
            self.change_node(handle, inode, path, leaf, |node| {
                let len = both.map_or(merged.len, |after| merged.len + after.len);
                node.set_extent(at, Extent { len, ..merged });
                if both.is_some() {
                    node.remove_range(right..right + 1);
                }
            })?;
            return Ok(true);
        }
        if let Some(after) = after
            && extent.can_merge(&after)
        {
            let merged = Extent {
                len: extent.len + after.len,
                ..extent
            };
            self.change_node(handle, inode, path, leaf, |node| {
                node.set_extent(right, merged);
            })?;
            if right == 0 {
                self.sync_keys(handle, inode, path, leaf)?;
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Changes the node at `level` of the path, the root being in the inode.
    pub(super) fn change_node<R>(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        path: &mut Path,
        level: usize,
        change: impl FnOnce(&mut ExtentNodeMut<'_>) -> R,
    ) -> Result<R> {
        inode.touch_data(handle);
        let result = match path.steps.get(level).and_then(|s| s.buffer.as_ref()) {
            Some(buffer) => {
                let mut content = handle.modify(buffer)?;
                change(&mut ExtentNodeMut::new(content.data_mut()))
            }
            None => {
                let result = change(&mut ExtentNodeMut::new(&mut path.root));
                let root = path.root;
                self.table
                    .update_inode(inode, handle, |disk| disk.i_block = root)?;
                result
            }
        };
        inode.snapshot.changed();
        Ok(result)
    }

    /// After the first entry of the node at `child` changed, makes the keys above it say so.
    pub(super) fn sync_keys(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        path: &mut Path,
        child: usize,
    ) -> Result<()> {
        for level in (0..child).rev() {
            let first = path.with_node(level + 1, |node| node.lblk(0));
            let at = path.steps.get(level).and_then(|s| s.at);
            let (Some(first), Some(at)) = (first, at) else {
                break;
            };
            if path.with_node(level, |node| node.lblk(at)) == Some(first) {
                break;
            }
            self.change_node(handle, inode, path, level, |node| node.set_lblk(at, first))?;
            if at > 0 {
                break;
            }
        }
        Ok(())
    }

    /// Splits one node so that the path to `lblk` has more room than before.
    pub(super) fn split_full(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        path: &mut Path,
        lblk: Lblk,
        privileged: bool,
    ) -> Result<()> {
        let roomy = (0..path.leaf_level())
            .rev()
            .find(|&level| !path.with_node(level, |node| node.is_full()));
        match roomy {
            Some(parent) => self.split(handle, inode, path, parent, lblk, privileged),
            None => self.grow(handle, inode, path, privileged),
        }
    }

    /// A new block for a node.
    fn claim_node(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        path: &Path,
        privileged: bool,
    ) -> Result<Arc<Buffer>> {
        let goal = match path.steps.last().and_then(|s| s.buffer.as_ref()) {
            Some(buffer) => Pblk(buffer.block()),
            None => path
                .extent()
                .map_or_else(|| self.blocks.goal_of(inode.ino), |e| e.pblk),
        };
        let run = self.blocks.claim_blocks(handle, goal, 1, privileged)?;
        let buffer = self.volume.cache().get_unread(run.pblk.0);
        let (kind, seed) = self.loader(inode).role();
        buffer.set_kind(kind, seed);
        let sectors = self.blocks.sectors_of(1);
        self.table
            .update_inode(inode, handle, |disk| disk.blocks += sectors)?;
        Ok(buffer)
    }

    /// Moves what the root holds into a new block, so that the tree is one level deeper.
    fn grow(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        path: &mut Path,
        privileged: bool,
    ) -> Result<()> {
        let buffer = self.claim_node(handle, inode, path, privileged)?;
        let depth = path.with_node(0, |node| node.depth());
        let first = path.with_node(0, |node| node.lblk(0)).unwrap_or_default();
        let mut content = handle.create(&buffer)?;
        let mut child = ExtentNodeMut::init(content.data_mut(), depth);
        let mut root = ExtentNodeMut::new(&mut path.root);
        root.move_tail(0, &mut child)
            .map_err(|NodeFull| full(inode))?;
        drop(content);
        root.set_depth(depth + 1);
        let idx = ExtentIdx {
            lblk: first,
            child: Pblk(buffer.block()),
        };
        root.insert_idx_at(0, idx).map_err(|NodeFull| full(inode))?;
        let root = path.root;
        self.table
            .update_inode(inode, handle, |disk| disk.i_block = root)
    }

    /// Splits the child of the node at level `parent` on the path.
    fn split(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        path: &mut Path,
        parent: usize,
        lblk: Lblk,
        privileged: bool,
    ) -> Result<()> {
        let buffer = self.claim_node(handle, inode, path, privileged)?;
        let level = parent + 1;
        let is_leaf = level == path.leaf_level();
        let at = path.steps.get(level).and_then(|s| s.at);
        let (len, depth) = path.with_node(level, |node| (usize::from(node.len()), node.depth()));
        // Not where an extent that covers the block is to be cut there.
        let covered = is_leaf && path.extent().is_some_and(|e| e.contains(lblk));
        let appends = at.is_some_and(|at| at + 1 == len) && !covered;
        // A file that grows at its end leaves full nodes behind.
        let cut = match (is_leaf, appends) {
            (true, true) => len,
            (false, true) => len - 1,
            _ => len / 2,
        };
        let key = path.with_node(level, |node| node.lblk(cut)).unwrap_or(lblk);
        {
            let Some(left) = path.steps.get(level).and_then(|s| s.buffer.as_ref()) else {
                return Err(full(inode));
            };
            let mut left = handle.modify(left)?;
            let mut right = handle.create(&buffer)?;
            let mut right = ExtentNodeMut::init(right.data_mut(), depth);
            ExtentNodeMut::new(left.data_mut())
                .move_tail(cut, &mut right)
                .map_err(|NodeFull| full(inode))?;
        }
        let idx = ExtentIdx {
            lblk: key,
            child: Pblk(buffer.block()),
        };
        let after = path
            .steps
            .get(parent)
            .and_then(|s| s.at)
            .map_or(0, |at| at + 1);
        self.change_node(handle, inode, path, parent, |node| {
            node.insert_idx_at(after, idx)
        })?
        .map_err(|NodeFull| full(inode))
    }
}

#[cold]
pub(super) fn full(inode: &Inode) -> Ext4Error {
    Corrupt::new(CorruptKind::ExtentMax)
        .ino(inode.ino)
        .detail("no room after splitting")
        .into()
}
