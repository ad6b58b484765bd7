//! fallocate(2): blocks for ranges of a file, and ranges that lose theirs.
//!
//! # Invariants
//! What is allocated is unwritten and reads as zeros. Every handle leaves a file that is right by itself, so
//! that a crash leaves a part of the range done.
//!
//! # Locking
//! The inode's `ilock`, alone; then handles; then the `map` lock.

use crate::file::encrypted::check_not_encrypted;
use crate::file::flags::FIXED_DATA;
use crate::file::{FileIo, check_regular};
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::mapping::extents::convert::Written;
use crate::mapping::extents::insert::Neighbours;
use crate::mapping::extents::remove::Restart;
use crate::prelude::*;
use crate::quota::OwnerIds;
use crate::run::Run;
use uext4_ondisk::EXTENT_LEN_MAX_UNWRITTEN;
use uext4_vfs::io::Fallocate;

/// What publishing a run of unwritten blocks changes: descriptors, bitmap, inode, extent nodes.
pub(crate) const PUBLISH_CREDITS: u32 = 24;

impl FileIo {
    /// Allocates, frees or zeroes a range of a file, in bytes, takes it out or puts it in.
    ///
    /// # Locks
    /// The inode's `ilock`, alone.
    ///
    /// # Crash
    /// What was not synced is there in part.
    ///
    /// # Errors
    /// [`Ext4Error::Invalid`] for an empty range, [`Ext4Error::TooLarge`], [`Ext4Error::NoSpace`] with a part
    /// allocated, [`Ext4Error::NotPermitted`] as the file's flags say,
    /// [`Ext4Error::Unsupported`] for all but punching a hole into a file without extents.
    pub fn fallocate(
        &self,
        inode: &InodeRef,
        what: Fallocate,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        check_regular(inode)?;
        if len == 0 {
            return Err(Ext4Error::Invalid("an empty range"));
        }
        let end = offset.checked_add(len).ok_or(Ext4Error::TooLarge)?;
        self.mapping.check_end(inode, end)?;
        let _locked = ilock(&inode.ilock, LockMode::Exclusive);
        self.volume.check_writable()?;
        let flags = inode.flags();
        let changes_data = !matches!(what, Fallocate::Allocate | Fallocate::AllocateKeepSize);
        if flags.intersects(FIXED_DATA) || changes_data && flags.contains(InodeFlags::APPEND) {
            return Err(Ext4Error::NotPermitted);
        }
        check_not_encrypted(inode)?;
        self.attributes.forfeit_capability(inode)?;
        if inode.is_inline() {
            self.inline.convert_inline(inode, true)?;
        }
        match what {
            Fallocate::PunchHole => return self.punch(inode, offset, end),
            Fallocate::CollapseRange => return self.collapse_range(inode, offset, end),
            Fallocate::InsertRange => return self.insert_range(inode, offset, end),
            _ => {}
        }
        // What is allocated and not written reads as zeros; a block map cannot say that of a block.
        if !inode.has_extents() {
            return Err(Ext4Error::Unsupported(
                "allocating blocks of a file without extents",
            ));
        }
        let old_size = inode.size();
        let size = (!what.keeps_size() && end > old_size).then_some(end);
        if size.is_some() {
            self.zero_tail(inode, old_size, end)?;
        }
        if changes_data {
            self.zero_edges(inode, offset, end)?;
        }
        let block = self.volume.block_size();
        self.allocate_range(inode, offset / block, end.div_ceil(block), size)?;
        if changes_data {
            self.unwrite(inode, offset.div_ceil(block), end / block)?;
        }
        self.finish_fallocate(inode, size)
    }

    /// Gives every hole in blocks `[at, to)` blocks; `size`: what the size is to become.
    pub(crate) fn allocate_range(
        &self,
        inode: &Inode,
        mut at: u64,
        to: u64,
        size: Option<u64>,
    ) -> Result<()> {
        while at < to {
            let mapping = self.mapping.map_block(inode, Lblk(at as u32))?;
            let blocks = u64::from(mapping.len).min(to - at);
            if mapping.pblk.is_some() {
                at += blocks;
                continue;
            }
            let allocated = self.blocks.retry_no_space(|| {
                let publish = Publish {
                    inode,
                    lblk: Lblk(at as u32),
                    neighbours: Neighbours::Merge,
                    size,
                    privileged: true,
                };
                self.reserve_and_publish(&publish, blocks)
            })?;
            at += u64::from(allocated.len);
        }
        Ok(())
    }

    /// Gives a hole up to `blocks` unwritten blocks from `lblk` on, an extent that stays apart.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`]; nothing is mapped then.
    pub(crate) fn allocate_unwritten(
        &self,
        inode: &Inode,
        lblk: Lblk,
        blocks: u32,
        privileged: bool,
    ) -> Result<Run> {
        let publish = Publish {
            inode,
            lblk,
            neighbours: Neighbours::Apart,
            size: None,
            privileged,
        };
        self.reserve_and_publish(&publish, u64::from(blocks))
    }

    fn reserve_and_publish(&self, publish: &Publish<'_>, blocks: u64) -> Result<Run> {
        let want = blocks.min(u64::from(EXTENT_LEN_MAX_UNWRITTEN)) as u32;
        let goal = self.mapping.data_goal(publish.inode, publish.lblk)?;
        let owners = OwnerIds::of(&publish.inode.state());
        let run = self
            .blocks
            .reserve_for(owners, goal, want, publish.privileged)?;
        self.publish_unwritten(publish, run)
            .inspect_err(|why| self.blocks.unreserve_after(why, run))?;
        Ok(run)
    }

    fn publish_unwritten(&self, publish: &Publish<'_>, run: Run) -> Result<()> {
        let inode = publish.inode;
        let extent = Extent {
            lblk: publish.lblk,
            len: run.len as u16,
            unwritten: true,
            pblk: run.pblk,
        };
        let block = self.volume.block_size();
        let end = (u64::from(publish.lblk.0) + u64::from(run.len)) * block;
        let reached = publish.size.map(|size| size.min(end));
        self.volume.with_handle(PUBLISH_CREDITS, |handle| {
            {
                let mut map = inode.map.write();
                let (neighbours, privileged) = (publish.neighbours, publish.privileged);
                self.mapping
                    .insert_extent_as(handle, inode, &mut map, extent, neighbours, privileged)?;
            }
            let added = self.blocks.publish_run(handle, run)?;
            let sectors = self.blocks.sectors_of(added);
            inode.touch_data(handle);
            self.table.update_inode(inode, handle, |disk| {
                disk.blocks += sectors;
                disk.size = disk.size.max(reached.unwrap_or(0));
            })
        })
    }

    /// Frees blocks of `[from, to)`, in bytes, and zeroes what is left of it.
    fn punch(&self, inode: &InodeRef, from: u64, to: u64) -> Result<()> {
        let block = self.volume.block_size();
        // Past the size there is nothing to read; what is allocated there stays.
        let size = inode.size();
        let to = match to <= size {
            true => to,
            false => size.next_multiple_of(block),
        };
        if from >= to {
            return self.finish_fallocate(inode, None);
        }
        self.zero_edges(inode, from, to)?;
        let (first, last) = (from.div_ceil(block), to / block);
        if first < last {
            self.mapping.check_removable(inode, first, last)?;
            // What a hole frees may have to make room for the tree of the next one.
            self.blocks.retry_no_space(|| {
                let handle = self.volume.journal().start(PUBLISH_CREDITS)?;
                let (content, restart) = (self.mapping.content_of(inode), Restart::Allowed);
                self.mapping
                    .remove_blocks(handle, inode, first, last, content, restart)
                    .map(Handle::finish)
            })?;
        }
        self.finish_fallocate(inode, None)
    }

    /// Zeroes the parts of blocks at both ends of `[from, to)`, in bytes, where they hold data.
    fn zero_edges(&self, inode: &Inode, from: u64, to: u64) -> Result<()> {
        let block = self.volume.block_size();
        let head_end = from.next_multiple_of(block).min(to);
        self.zero_data(inode, from, head_end)?;
        let tail = to - to % block;
        if tail >= head_end {
            self.zero_data(inode, tail, to)?;
        }
        Ok(())
    }

    /// Makes blocks `[at, to)`, all of them mapped, unwritten.
    fn unwrite(&self, inode: &Inode, mut at: u64, to: u64) -> Result<()> {
        while at < to {
            // An extent at a time, so that credits are enough.
            let mapping = self.mapping.map_block(inode, Lblk(at as u32))?;
            let most = u64::from(EXTENT_LEN_MAX_UNWRITTEN);
            let end = at + u64::from(mapping.len).min(to - at).min(most);
            if !mapping.unwritten {
                self.blocks.retry_no_space(|| {
                    self.volume.with_handle(PUBLISH_CREDITS * 2, |handle| {
                        let mut map = inode.map.write();
                        self.mapping.convert_extents(
                            handle,
                            inode,
                            &mut map,
                            (at, end),
                            Written::No,
                            true,
                        )
                    })
                })?;
            }
            at = end;
        }
        Ok(())
    }

    /// The size, if it grows, and the times, whatever was done.
    fn finish_fallocate(&self, inode: &Inode, size: Option<u64>) -> Result<()> {
        let time = crate::clock::now();
        self.volume.with_handle(2, |handle| {
            inode.touch_data(handle);
            self.table.update_inode(inode, handle, |disk| {
                disk.size = disk.size.max(size.unwrap_or(0));
                disk.ctime = time;
                disk.mtime = time;
            })
        })
    }
}

/// Where a run of unwritten blocks goes.
struct Publish<'a> {
    inode: &'a Inode,
    lblk: Lblk,
    neighbours: Neighbours,
    /// What the size is to become, when all is allocated.
    size: Option<u64>,
    privileged: bool,
}
