//! From the inode to blocks.
//!
//! # Crash
//! One handle takes the data out of the inode and maps the block that has it, which was written before: a
//! crash leaves the one or the other.

use crate::inline::{IN_BLOCK, InlineData, PARENT, clear_body};
use crate::inode::Inode;
use crate::kinds;
use crate::prelude::*;
use crate::quota::OwnerIds;
use crate::run::Run;
use uext4_ondisk::dir_insert;

/// Descriptors, bitmap, inode, the directory's block.
const CONVERT_CREDITS: u32 = 12;

impl InlineData {
    /// Moves the data of a file or a directory to a block; an empty file has none then.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock` alone, and no handle.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`], damage, the device's, the journal's; nothing changed then.
    pub(crate) fn convert_inline(&self, inode: &Inode, privileged: bool) -> Result<()> {
        self.blocks.retry_no_space(|| {
            if inode.is_dir() {
                return self.volume.with_handle(CONVERT_CREDITS, |handle| {
                    self.convert_inline_dir(handle, inode)
                });
            }
            let mut data = self.inline_load(inode)?;
            data.truncate(usize::try_from(inode.size()).unwrap_or(usize::MAX));
            if data.is_empty() {
                return self.volume.with_handle(CONVERT_CREDITS, |handle| {
                    self.take_out(handle, inode, |_| {})
                });
            }
            let (owners, goal) = (OwnerIds::of(&inode.state()), self.blocks.goal_of(inode.ino));
            let run = self.blocks.reserve_for(owners, goal, 1, privileged)?;
            self.convert_file(inode, run, &data)
                .inspect_err(|why| self.blocks.unreserve_after(why, run))
        })
    }

    fn convert_file(&self, inode: &Inode, run: Run, data: &[u8]) -> Result<()> {
        self.blocks.fill_run(run, 0, data)?;
        self.volume.with_handle(CONVERT_CREDITS, |handle| {
            let added = self.blocks.publish_run(handle, run)?;
            let sectors = self.blocks.sectors_of(added);
            self.take_out(handle, inode, |disk| disk.blocks += sectors)?;
            self.mapping.map_run(handle, inode, Lblk(0), run, true)
        })
    }

    /// As [`InlineData::convert_inline`] of a directory, as part of `handle`.
    ///
    /// # Locks
    /// The caller holds the directory's `ilock` alone.
    ///
    /// # Journal
    /// Eight credits.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`], damage, the journal's; nothing changed then.
    pub(super) fn convert_inline_dir(&self, handle: &Handle<'_>, dir: &Inode) -> Result<()> {
        let all = self.inline_load(dir)?;
        let parent = self.inline_parent(dir)?;
        let owners = OwnerIds::of(&dir.state());
        let run = self
            .blocks
            .claim_block_for(handle, owners, self.blocks.goal_of(dir.ino))?;
        let buffer = self.volume.cache().get_unread(run.pblk.0);
        buffer.set_kind(kinds::DIR_LEAF, dir.seed().0);
        buffer.set_hint(0);
        let filled = handle
            .create(&buffer)
            .map_err(Ext4Error::from)
            .and_then(|mut content| self.fill_first(content.data_mut(), dir, parent, &all));
        if let Err(why) = filled {
            handle.forget(&buffer)?;
            self.blocks.free_run(handle, run)?;
            return Err(why);
        }
        let (size, sectors) = (self.volume.block_size(), self.blocks.sectors_of(1));
        self.take_out(handle, dir, |disk| {
            disk.size = size;
            disk.blocks += sectors;
        })?;
        self.mapping.map_run(handle, dir, Lblk(0), run, true)?;
        dir.blocks().put(Lblk(0), &buffer);
        Ok(())
    }

    /// Makes a directory's first block of the records in its inode.
    fn fill_first(&self, block: &mut [u8], dir: &Inode, parent: Ino, all: &[u8]) -> Result<()> {
        let (end, tail) = (self.volume.dir_end(), self.volume.dir_tail());
        uext4_ondisk::dir_block_init_dots(block, tail, dir.ino, parent, self.volume.has_filetype());
        let (first, rest) = all.split_at(IN_BLOCK);
        let first = &first[PARENT..];
        let mut hint = 0;
        for records in [first, rest] {
            for d in dir_entries(records, records.len()) {
                let d = d.map_err(|e| e.ino(dir.ino))?;
                if d.ino.0 == 0 {
                    continue;
                }
                let inserted = dir_insert(block, end, d.name, d.ino, d.file_type, hint)
                    .map_err(|e| e.ino(dir.ino))?;
                hint = inserted.ok_or(Ext4Error::DirectoryFull)?.hint;
            }
        }
        Ok(())
    }

    /// Makes the inode one with blocks, of which it has none yet.
    fn take_out(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        change: impl FnOnce(&mut uext4_ondisk::Inode),
    ) -> Result<()> {
        inode.touch_data(handle);
        self.change_body(handle, inode, clear_body, |disk| {
            disk.flags -= InodeFlags::INLINE_DATA;
            self.mapping.init_mapping(disk);
            change(disk);
        })
    }
}
