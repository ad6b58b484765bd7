//! fallocate(2) that takes a range out of a file, or puts one in: what follows moves.
//!
//! # Invariants
//! Only whole blocks, with `bigalloc` whole clusters, of files with extents; no data is copied. A file whose tree has a few leaves changes in
//! one handle; a larger one leaf by leaf, each of which leaves a file that is right by itself. Nothing is written to
//! moved blocks before it is durable where they are.
//!
//! # Locking
//! The inode's `ilock`, alone; then handles; then the `map` lock.

use crate::clock::now;
use crate::file::FileIo;
use crate::inode::Inode;
use crate::mapping::extents::remove::Restart;
use crate::mapping::extents::shift::Shift;
use crate::prelude::*;

/// Blocks that cutting an extent and freeing a run changes.
const CREDITS: u32 = 48;

impl FileIo {
    /// Takes bytes `[from, to)` out of a file, which gets shorter.
    ///
    /// # Locks
    /// The caller holds the `ilock` alone.
    ///
    /// # Crash
    /// A large file may keep its size, and have its end moved only in part.
    ///
    /// # Errors
    /// [`Ext4Error::Invalid`]: the range is not of whole blocks, or reaches the end of the file.
    /// [`Ext4Error::Unsupported`]: a file without extents. [`Ext4Error::NoSpace`]: the tree needs a block.
    pub(crate) fn collapse_range(&self, inode: &Inode, from: u64, to: u64) -> Result<()> {
        let (first, last) = self.whole_blocks(inode, from, to)?;
        if to >= inode.size() {
            return Err(Ext4Error::Invalid(
                "a range that reaches the end of the file",
            ));
        }
        // All of the mapping that changes, also what only moves.
        self.mapping.check_removable(inode, first.into(), 1 << 32)?;
        self.blocks.retry_no_space(|| {
            let handle = self.volume.journal().start(CREDITS)?;
            let content = self.mapping.content_of(inode);
            let handle = self.mapping.remove_blocks(
                handle,
                inode,
                first.into(),
                last.into(),
                content,
                Restart::Allowed,
            )?;
            let shift = Shift::Down(last - first);
            let handle = self
                .mapping
                .shift_extents(handle, inode, Lblk(last), shift)?;
            let size = inode.size() - (to - from);
            self.resize_moved(handle, inode, size).map(Handle::finish)
        })?;
        self.settle_moved(inode)
    }

    /// Puts a hole of bytes `[from, to)` into a file, which gets longer.
    ///
    /// # Locks
    /// The caller holds the `ilock` alone.
    ///
    /// # Crash
    /// A large file may have its end moved only in part.
    ///
    /// # Errors
    /// [`Ext4Error::TooLarge`]; [`Ext4Error::Invalid`]: the range is not of whole blocks, or begins at or
    /// past the end of the file. [`Ext4Error::Unsupported`]: a file without extents.
    /// [`Ext4Error::NoSpace`]: the tree needs a block.
    pub(crate) fn insert_range(&self, inode: &Inode, from: u64, to: u64) -> Result<()> {
        let (first, last) = self.whole_blocks(inode, from, to)?;
        let size = inode.size().checked_add(to - from);
        let size = size.ok_or(Ext4Error::TooLarge)?;
        self.mapping.check_end(inode, size)?;
        if from >= inode.size() {
            return Err(Ext4Error::Invalid("a range past the end of the file"));
        }
        self.mapping.check_room_above(inode, last - first)?;
        self.mapping.check_removable(inode, first.into(), 1 << 32)?;
        self.blocks.retry_no_space(|| {
            self.volume.with_handle(CREDITS, |handle| {
                let mut map = inode.map.write();
                self.mapping
                    .split_extent(handle, inode, &mut map, first.into(), true)
            })?;
            let handle = self.volume.journal().start(CREDITS)?;
            // First: no data is ever past the size, which would be damage.
            let handle = self.resize_moved(handle, inode, size)?;
            let shift = Shift::Up(last - first);
            self.mapping
                .shift_extents(handle, inode, Lblk(first), shift)
                .map(Handle::finish)
        })?;
        self.settle_moved(inode)
    }

    /// Waits until it is durable where blocks moved: data that is written in place from now on would after a crash be
    /// found where they were, in parts of the file that were never written.
    fn settle_moved(&self, inode: &Inode) -> Result<()> {
        if self.mapping.journals_data(inode) || !self.volume.journal().has_log() {
            return Ok(());
        }
        self.volume.sync_tid(inode.sync_tid(true), false)
    }

    /// The blocks of a range of bytes, if it is of whole ones.
    fn whole_blocks(&self, inode: &Inode, from: u64, to: u64) -> Result<(u32, u32)> {
        if !inode.has_extents() {
            return Err(Ext4Error::Unsupported(
                "moving blocks of a file without extents",
            ));
        }
        let block = self.volume.block_size();
        if !(from | to).is_multiple_of(self.volume.cluster_size()) {
            return Err(Ext4Error::Invalid(
                "a range that is not of whole blocks or clusters",
            ));
        }
        let number = |at: u64| u32::try_from(at / block).map_err(|_| Ext4Error::TooLarge);
        Ok((number(from)?, number(to)?))
    }

    fn resize_moved<'h>(&self, handle: Handle<'h>, inode: &Inode, size: u64) -> Result<Handle<'h>> {
        let handle = handle.extend_or_restart(2)?;
        inode.touch_data(&handle);
        let time = now();
        self.table.update_inode(inode, &handle, |disk| {
            disk.size = size;
            disk.mtime = time;
            disk.ctime = time;
        })?;
        Ok(handle)
    }
}
