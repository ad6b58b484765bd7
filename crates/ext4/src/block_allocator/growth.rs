//! Blocks that a larger file system has more.

use crate::block_allocator::BlockAllocator;
use crate::group::{Group, bitmap};
use crate::prelude::*;

impl BlockAllocator {
    /// Marks blocks of the last group free that lay behind the end of the file system. The allocator finds them once the geometry has them.
    ///
    /// # Journal
    /// Two credits: descriptors, bitmap.
    ///
    /// # Errors
    /// A damaged bitmap, or the device's.
    pub(crate) fn add_to_group(
        &self,
        handle: &Handle<'_>,
        group: &Group,
        added: Range<u32>,
    ) -> Result<()> {
        let bits = self.block_bits(group)?;
        self.volume.access_group(handle, group)?;
        handle.access_native(&bits.buffer)?;
        let count = added.end - added.start;
        let _locked = group.changes.lock();
        for words in [&bits.on_disk, &bits.busy] {
            bitmap::assign_run(words, added.start, count, false);
        }
        bits.mark_dirty();
        group.clear_flags(GroupFlags::BLOCK_UNINIT);
        group.free_blocks.fetch_add(count, Relaxed);
        Ok(())
    }

    /// Counts free blocks that the current geometry has more than the one before.
    pub(crate) fn count_new_blocks(&self, free: u64) {
        self.free_blocks
            .add(isize::try_from(free).unwrap_or(isize::MAX));
    }
}
