//! Changes of the superblock.

use crate::prelude::*;
use crate::superblock::{superblock_place, unix_now, with_superblock};
use crate::volume::Volume;
use uext4_ondisk::RawSuperblock;

impl Volume {
    /// Changes the superblock.
    ///
    /// # Journal
    /// One credit.
    pub(crate) fn change_superblock(
        &self,
        handle: &Handle<'_>,
        change: impl FnOnce(&mut RawSuperblock),
    ) -> Result<()> {
        let (_, at) = superblock_place(self.geometry().block_size);
        let mut content = handle.modify(&self.super_buffer)?;
        with_superblock(content.data_mut(), at, |raw| {
            change(raw);
            raw.set_write_time(unix_now());
        });
        Ok(())
    }

    /// Sets the superblock's counts of free blocks and inodes to the sums of the groups'. As with the kernel they are current
    /// after a mount and an unmount only: a mount, or a check of an image that was not unmounted, sums the groups.
    pub(crate) fn count_free(&self, raw: &mut RawSuperblock) {
        let (mut blocks, mut inodes) = (0u64, 0u32);
        for group in &self.generations.newest().groups {
            blocks += u64::from(group.count_free_blocks());
            inodes = inodes.wrapping_add(group.free_inodes());
        }
        raw.set_free_blocks_count(blocks << self.geometry().cluster_bits());
        raw.free_inodes_count = inodes.into();
    }

    /// Says in the superblock that the file system uses features from now on that it did not have when it
    /// was made, as the kernel does with those that need no more than that.
    ///
    /// # Journal
    /// One credit.
    ///
    /// # Errors
    /// The journal's.
    pub(crate) fn add_features(
        &self,
        handle: &Handle<'_>,
        compat: Compat,
        ro_compat: RoCompat,
    ) -> Result<()> {
        let (_, at) = superblock_place(self.geometry().block_size);
        let mut content = handle.modify(&self.super_buffer)?;
        with_superblock(content.data_mut(), at, |raw| {
            // The first revision has no features, and fixed values of what the second one says.
            if raw.rev_level.get() == 0 {
                raw.rev_level = 1.into();
                raw.first_ino = self.geometry().first_ino.0.into();
                raw.inode_size = self.geometry().inode_size.into();
            }
            let (compat, ro_compat) = (raw.compat() | compat, raw.ro_compat() | ro_compat);
            raw.set_features(compat, raw.incompat(), ro_compat);
        });
        Ok(())
    }
}
