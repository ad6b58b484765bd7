//! Extents that become written or unwritten, and the cuts that this takes.
//!
//! # Invariants
//! A cut finds room in the tree before it changes anything, so that one that fails leaves all as it was.
//! Extents that begin and end where a conversion does are converted without a new node: that cannot
//! fail for lack of space.

use crate::inode::Inode;
use crate::inode::MapTree;
use crate::mapping::Mapping;
use crate::mapping::extents::Path;
use crate::mapping::extents::insert::full;
use crate::prelude::*;
use uext4_ondisk::EXTENT_LEN_MAX_UNWRITTEN;

/// What blocks are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// Holding data.
    Yes,
    /// Reading as zeros.
    No,
}

impl Mapping {
    /// Makes an extent that covers `at` and begins before it two.
    ///
    /// # Journal
    /// As `insert_extent`.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`] when the tree needs a block; nothing changed then.
    pub(crate) fn split_extent(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        tree: &mut MapTree,
        at: u64,
        privileged: bool,
    ) -> Result<()> {
        self.split_extent_if(handle, inode, tree, at, privileged, |_| true)
    }

    /// As [`Mapping::split_extent`], if the extent is such a one.
    fn split_extent_if(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        _tree: &mut MapTree,
        at: u64,
        privileged: bool,
        is_such: impl Fn(&Extent) -> bool,
    ) -> Result<()> {
        let Ok(lblk) = u32::try_from(at).map(Lblk) else {
            return Ok(());
        };
        // Each round makes room one level further down; a tree has at most five.
        for _ in 0..16 {
            let mut path = self.path(inode, lblk)?;
            let Some(extent) = path.extent().filter(|e| e.contains(lblk) && e.lblk < lblk) else {
                return Ok(());
            };
            if !is_such(&extent) {
                return Ok(());
            }
            let leaf = path.leaf_level();
            if path.with_node(leaf, |node| node.is_full()) {
                self.split_full(handle, inode, &mut path, lblk, privileged)?;
                continue;
            }
            let pos = path.extent_at()?;
            let (left, right) = cut_at(extent, lblk);
            return self
                .change_node(handle, inode, &mut path, leaf, |node| {
                    node.set_extent(pos, left);
                    node.insert_extent_at(pos + 1, right)
                })?
                .map_err(|_| full(inode));
        }
        Err(full(inode))
    }

    /// Makes `[from, to)` written or unwritten, all of which must be mapped.
    ///
    /// # Journal
    /// A credit for each leaf and one for the inode; what `split_extent` takes, twice, unless extents
    /// begin and end there.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`] when a cut needs a block; a hole, which is damage.
    pub(crate) fn convert_extents(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        tree: &mut MapTree,
        (from, to): (u64, u64),
        written: Written,
        privileged: bool,
    ) -> Result<()> {
        let unwritten = written == Written::No;
        // What is as it is to be needs no cut.
        for end in [from, to] {
            let changes = |e: &Extent| e.unwritten != unwritten;
            self.split_extent_if(handle, inode, tree, end, privileged, changes)?;
        }
        let mut at = from;
        while at < to {
            let mut path = self.path(inode, Lblk(at as u32))?;
            let Some(extent) = path.extent().filter(|e| e.contains(Lblk(at as u32))) else {
                return Err(Corrupt::new(CorruptKind::ExtentOrder)
                    .ino(inode.ino)
                    .detail(format_args!("a hole at block {at}"))
                    .into());
            };
            if unwritten && extent.len > EXTENT_LEN_MAX_UNWRITTEN && !extent.unwritten {
                let most = u64::from(extent.lblk.0) + u64::from(EXTENT_LEN_MAX_UNWRITTEN);
                self.split_extent(handle, inode, tree, most, privileged)?;
                continue;
            }
            at = extent.end();
            if extent.unwritten != unwritten {
                let converted = Extent {
                    unwritten,
                    ..extent
                };
                self.replace_and_merge(handle, inode, &mut path, converted)?;
            }
        }
        Ok(())
    }

    /// Makes the unwritten extent that covers `at`, if it is one, a written one of zeros: for that the tree
    /// needs no room.
    ///
    /// # Locks
    /// As `convert_extents`. Writes to the device: no other write may be in flight to this extent.
    ///
    /// # Journal
    /// A credit for the leaf and one for the inode.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`] if it extends past the size; the device's or the journal's.
    pub(crate) fn zero_extent(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        _tree: &mut MapTree,
        at: Lblk,
    ) -> Result<()> {
        let mut path = self.path(inode, at)?;
        let Some(extent) = path.extent().filter(|e| e.contains(at) && e.unwritten) else {
            return Ok(());
        };
        let block = self.volume.block_size();
        // What is written lies within the size.
        if extent.end() > inode.size().div_ceil(block) {
            return Err(Ext4Error::NoSpace);
        }
        self.volume
            .device()
            .zero(extent.pblk.0 * block, u64::from(extent.len) * block)?;
        let converted = Extent {
            unwritten: false,
            ..extent
        };
        self.replace_and_merge(handle, inode, &mut path, converted)
    }

    /// Puts `extent` where the path leads, as one with its neighbours where that fits.
    fn replace_and_merge(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        path: &mut Path,
        extent: Extent,
    ) -> Result<()> {
        let leaf = path.leaf_level();
        let pos = path.extent_at()?;
        self.change_node(handle, inode, path, leaf, |node| {
            node.set_extent(pos, extent);
            merge_with_next(node, pos);
            if let Some(before) = pos.checked_sub(1) {
                merge_with_next(node, before);
            }
        })
    }
}

/// Makes the extent at `pos` and the one after it one, if they fit.
fn merge_with_next(node: &mut ExtentNodeMut<'_>, pos: usize) {
    let (this, next) = {
        let node = node.as_node();
        (node.extent(pos), node.extent(pos + 1))
    };
    if let (Some(this), Some(next)) = (this, next)
        && this.can_merge(&next)
    {
        let len = this.len + next.len;
        node.set_extent(pos, Extent { len, ..this });
        node.remove_range(pos + 1..pos + 2);
    }
}

/// The parts of an extent before `at`, which it covers, and from there on.
fn cut_at(e: Extent, at: Lblk) -> (Extent, Extent) {
    let len = (at.0 - e.lblk.0) as u16;
    let right = Extent {
        lblk: at,
        len: e.len - len,
        pblk: Pblk(e.pblk.0 + u64::from(len)),
        ..e
    };
    (Extent { len, ..e }, right)
}
