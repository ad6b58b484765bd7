//! Moving the extents of a file along it: what collapsing and inserting a range does to the tree.
//!
//! # Invariants
//! A leaf at a time, in the order in which nothing ever overlaps: from the left to move down, from the right
//! to move up. Blocks stay where they are on disk, and no node is made or freed, so nothing can run out.

use crate::inode::Inode;
use crate::mapping::Mapping;
use crate::mapping::extents::Path;
use crate::prelude::*;

/// Blocks that moving a leaf changes: a path, and the inode.
pub(crate) const SHIFT_CREDITS: u32 = 8;

/// Where extents go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift {
    /// So many blocks towards the start of the file, where nothing is mapped.
    Down(u32),
    /// So many blocks away from it.
    Up(u32),
}

impl Shift {
    fn apply(self, e: Extent) -> Option<Extent> {
        let lblk = match self {
            Shift::Down(by) => e.lblk.0.checked_sub(by),
            Shift::Up(by) => e.lblk.0.checked_add(by),
        };
        lblk.map(|lblk| Extent {
            lblk: Lblk(lblk),
            ..e
        })
    }
}

impl Mapping {
    /// Refuses to move extents up `by` blocks if one would leave the numbers that a file's blocks have.
    ///
    /// # Locks
    /// The caller holds the `ilock` alone and not the `map` lock.
    ///
    /// # Errors
    /// [`Ext4Error::Invalid`], or damage.
    pub(crate) fn check_room_above(&self, inode: &Inode, by: u32) -> Result<()> {
        let _map = inode.map.read();
        let last = self.path(inode, Lblk(u32::MAX))?.extent();
        match last {
            Some(e) if e.end() + u64::from(by) > u64::from(u32::MAX) => {
                Err(Ext4Error::Invalid("blocks past the largest file"))
            }
            _ => Ok(()),
        }
    }

    /// Moves every extent that begins at `from` or after it. None covers the block before and `from`.
    ///
    /// # Locks
    /// The caller holds the `ilock` alone and not the `map` lock, which is taken for each leaf.
    ///
    /// # Journal
    /// [`SHIFT_CREDITS`] a leaf; the handle is restarted when there are none left, and every leaf leaves a
    /// file that is right by itself.
    ///
    /// # Errors
    /// The journal's, or damage.
    pub(crate) fn shift_extents<'h>(
        &self,
        mut handle: Handle<'h>,
        inode: &Inode,
        from: Lblk,
        shift: Shift,
    ) -> Result<Handle<'h>> {
        let mut at = match shift {
            Shift::Down(_) => Some(from),
            Shift::Up(_) => Some(Lblk(u32::MAX)),
        };
        while let Some(lblk) = at {
            handle = handle.extend_or_restart(SHIFT_CREDITS)?;
            inode.touch_data(&handle);
            let _map = inode.map.write();
            let mut path = self.path(inode, lblk)?;
            at = match shift {
                Shift::Down(_) => {
                    let next = path.next_leaf_start();
                    u32::try_from(next).ok().map(Lblk)
                }
                Shift::Up(_) => path.previous_leaf_end().filter(|end| *end >= from),
            };
            self.shift_leaf(&handle, inode, &mut path, from, shift)?;
            handle.complete();
        }
        Ok(handle)
    }

    /// Moves those extents of one leaf that begin at `from` or after it.
    fn shift_leaf(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        path: &mut Path,
        from: Lblk,
        shift: Shift,
    ) -> Result<()> {
        let leaf = path.leaf_level();
        let moves = path.with_node(leaf, |node| node.extents().any(|e| e.lblk >= from));
        if !moves {
            return Ok(());
        }
        self.change_node(handle, inode, path, leaf, |node| {
            for at in 0..usize::from(node.as_node().len()) {
                let extent = node.as_node().extent(at).filter(|e| e.lblk >= from);
                if let Some(moved) = extent.and_then(|e| shift.apply(e)) {
                    node.set_extent(at, moved);
                }
            }
        })?;
        self.sync_keys(handle, inode, path, leaf)
    }
}

impl Path {
    /// A block that is in the leaf before the path's, if there is one.
    fn previous_leaf_end(&self) -> Option<Lblk> {
        let is_first = |level: &usize| self.steps.get(*level).and_then(|s| s.at).unwrap_or(0) == 0;
        let level = (0..self.leaf_level())
            .rev()
            .find(|level| !is_first(level))?;
        let at = self.steps.get(level)?.at?;
        let start = self.with_node(level, |node| node.lblk(at))?;
        start.0.checked_sub(1).map(Lblk)
    }

    /// Where the leaf after the path's begins; past every block if there is none.
    fn next_leaf_start(&self) -> u64 {
        for level in (0..self.leaf_level()).rev() {
            let at = self.steps.get(level).and_then(|s| s.at);
            let next = self.with_node(level, |node| node.lblk(at.map_or(0, |at| at + 1)));
            if let Some(next) = next {
                return u64::from(next.0);
            }
        }
        1 << 32
    }
}
