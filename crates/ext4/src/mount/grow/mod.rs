//! Growing: a larger file system while it is in use.
//!
//! # Data model
//! New groups have their metadata at their own start. Their descriptors lie behind those there are: in the same blocks, in blocks that the
//! resize inode reserves for them, or, with `meta_bg`, in the new groups.
//!
//! # Locking
//! One growth runs at a time. While it writes what lies behind the old end, it passes the gate of changes as each change does; for its
//! transaction it closes the gate, so that no other handle runs.
//!
//! # Crash
//! What lies behind the old end is written first and flushed: nothing reads it before the superblock has the new size. The rest is one
//! transaction: blocks of descriptors, the bitmap of the last group, the resize inode and the superblock. Without a journal the superblock
//! is written after the others. The backups in the old groups follow; until then they have the old size, which is sound by itself.
//!
//! | module | holds |
//! | --- | --- |
//! | `size` | the superblock with the new size, or why there is none |
//! | `plan` | what changes |
//! | `resize_inode` | what of that is the resize inode's |
//! | `new_groups` | what is written behind the old end |
//! | `backups` | copies of the superblock and of descriptors |

mod backups;
mod new_groups;
mod plan;
mod resize_inode;
mod size;
#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;

use crate::fs::Ext4;
use crate::mount::grow::plan::Plan;
use crate::prelude::*;
use crate::volume::generations::{Generation, Growth};
use crate::volume::handles::end;

impl Ext4 {
    /// Makes the file system larger while it is in use: so many blocks, or as many of them as make groups, as a last group that is too short
    /// for its metadata is left out. Returns how many blocks there are then. Nothing changes if there are as many.
    ///
    /// A device that is a file, and shorter, gets the length that is needed.
    ///
    /// # Locks
    /// Waits for the changes that run, and for commits; changes wait during the transaction. Starts handles.
    ///
    /// # Errors
    /// `EINVAL`: there are more blocks already, the device is too short, or there would be more blocks or inodes than numbers for them.
    /// `EOPNOTSUPP`: there is no place for more descriptors. `EROFS`. `EBUSY`: it is frozen, another growth runs, or there were
    /// 1000 since the mount.
    /// `EUCLEAN`: damage was found, now or before. `ENOSPC`: the host is full, or the journal is too small. `EIO`: the device failed, or the
    /// journal was aborted. After an error the size is the old one, but the device may be longer.
    ///
    /// # Crash
    /// The old size or the new one, and every file.
    pub fn grow(&self, blocks: u64) -> Result<u64> {
        let growth = self.volume.generations.begin_growth()?;
        let Some(change) = self.volume.freeze.change_unless_frozen() else {
            return Err(Ext4Error::Busy("frozen"));
        };
        self.check_can_grow()?;
        let Some(mut plan) = Plan::of(self, blocks)? else {
            return Ok(self.volume.geometry().blocks_count);
        };
        self.make_device_longer(plan.sb.geometry.blocks_count)?;
        self.write_new_part(&mut plan)?;
        drop(change);
        let alone = self.volume.freeze.stop_changes();
        let grown = self.grow_locked(&growth, &plan);
        drop(alone);
        self.delete_what_was_put_off();
        grown
    }

    fn check_can_grow(&self) -> Result<()> {
        self.volume.check_writable()?;
        self.volume.journal().check_aborted()?;
        self.volume.record_errors_now();
        if self.superblock_now()?.state.get() & uext4_ondisk::STATE_ERROR != 0 {
            return Err(Ext4Error::DamageRecorded);
        }
        Ok(())
    }

    fn make_device_longer(&self, blocks: u64) -> Result<()> {
        let device = self.volume.device();
        let bytes = blocks
            .checked_mul(self.volume.block_size())
            .ok_or(Ext4Error::Invalid("more bytes than a device has"))?;
        if device.len() >= bytes {
            return Ok(());
        }
        device
            .set_len(bytes)
            .map_err(|why| match why.raw_os_error() == Some(Errno::EINVAL.0) {
                true => Ext4Error::Invalid("the device is too short; make it longer first"),
                false => why.into(),
            })
    }

    /// The growth itself, with the gate of changes closed.
    fn grow_locked(&self, growth: &Growth<'_>, plan: &Plan) -> Result<u64> {
        if self.volume.freeze.is_frozen() {
            return Err(Ext4Error::Busy("frozen"));
        }
        self.volume.check_writable()?;
        self.commit_growth(growth, plan)?;
        growth.publish();
        self.blocks.count_new_blocks(plan.new_free());
        if let Err(why) = self.write_old_backups(plan) {
            tracing::warn!("backups of the superblock and of descriptors have the old size: {why}");
        }
        let blocks = plan.sb.geometry.blocks_count;
        tracing::info!(
            "made larger: {blocks} blocks, {} before",
            plan.old.blocks_count
        );
        Ok(blocks)
    }

    fn commit_growth(&self, growth: &Growth<'_>, plan: &Plan) -> Result<()> {
        self.blocks.release_ahead();
        let journal = self.volume.journal();
        let device_bytes = self.volume.device().len();
        let next = Generation::of(&plan.sb, plan.groups.clone().into(), device_bytes);
        let mut handle = journal.start(plan.credits())?;
        let done = self.change_metadata(&handle, growth, plan, next);
        if done.is_ok() && !journal.has_log() {
            handle.finish();
            journal.sync()?;
            handle = journal.start(1)?;
        }
        let done = done.and_then(|()| self.change_size(&handle, plan));
        end(handle, done)?;
        Ok(journal.sync()?)
    }

    /// All but the superblock.
    fn change_metadata(
        &self,
        handle: &Handle<'_>,
        growth: &Growth<'_>,
        plan: &Plan,
        next: Generation,
    ) -> Result<()> {
        let volume = &self.volume;
        volume.access_group(handle, &plan.last)?;
        plan.access_descs(handle)?;
        // From here on the blocks of descriptors are encoded with the new groups.
        growth.prepare(next);
        let added = plan.added_to_last();
        if !added.is_empty() {
            self.blocks.add_to_group(handle, &plan.last, added)?;
        }
        match &plan.resize {
            Some(resize) => resize.apply(handle, &volume.params),
            None => Ok(()),
        }
    }

    fn change_size(&self, handle: &Handle<'_>, plan: &Plan) -> Result<()> {
        let new = &plan.sb.raw;
        self.volume.change_superblock(handle, |raw| {
            raw.set_blocks_count(new.blocks_count());
            raw.set_reserved_blocks_count(new.reserved_blocks_count());
            raw.inodes_count = new.inodes_count;
            raw.overhead_clusters = new.overhead_clusters;
            raw.reserved_gdt_blocks = new.reserved_gdt_blocks;
            self.volume.count_free(raw);
        })
    }
}
