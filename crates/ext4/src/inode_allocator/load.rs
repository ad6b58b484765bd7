//! Loading a group's inode bitmap, and leaving a group alone whose bitmap is damaged.

use crate::group::inode_bits::InodeBits;
use crate::group::{Group, bitmap};
use crate::inode_allocator::InodeAllocator;
use crate::inode_allocator::claim::reserved_is_free;
use crate::kinds;
use crate::prelude::*;

impl InodeAllocator {
    /// The inode bitmap of a group, loaded on first touch.
    ///
    /// # Locks
    /// May read from the device, so no lock of rank `group` or below may be held.
    pub(crate) fn inode_bits<'g>(&self, group: &'g Group) -> Result<&'g InodeBits> {
        match group.inode_bits() {
            Some(bits) => Ok(bits),
            None => self.load_inode_bits(group),
        }
    }

    #[cold]
    fn load_inode_bits<'g>(&self, group: &'g Group) -> Result<&'g InodeBits> {
        let loaded = self.read_inode_bits(group);
        // Another thread may have changed flags, content and checksum under our eyes.
        match (group.inode_bits(), loaded) {
            (Some(bits), _) => Ok(bits),
            (None, Ok(bits)) => Ok(group.publish_inodes(bits)),
            (None, Err(why)) => Err(why),
        }
    }

    fn read_inode_bits(&self, group: &Group) -> Result<InodeBits> {
        let geometry = self.volume.geometry();
        let uninit =
            group.flags().contains(GroupFlags::INODE_UNINIT) && self.volume.csum != GroupCsum::None;
        let buffer = if uninit {
            self.volume.cache().get_unread(group.inode_bitmap().0)
        } else {
            self.volume.cache().get(group.inode_bitmap().0)?
        };
        kinds::take(&buffer, kinds::INODE_BITMAP, group.no.0)?;
        self.volume.allocate_bitmap(group.inode_bitmap())?;
        let mut bytes = vec![0u8; self.volume.cache().block_size()];
        if uninit {
            // Before it can change: content that is not on disk yet.
            let mut content = buffer.write();
            buffer.set_uptodate(&mut content);
        } else {
            bytes.copy_from_slice(buffer.read().data());
            if let Some(seed) = self.volume.seed() {
                // The descriptor as mounted: the group is not loaded, so it has not changed.
                group
                    .descriptor(self.volume.bitmap_bytes, true)
                    .verify_inode_bitmap(seed, geometry, &bytes)?;
            }
        }
        let bits = InodeBits::new(buffer, &bytes);
        let end = geometry.inodes_per_group;
        let all = (bytes.len() * 8) as u32;
        bitmap::assign_run(&bits.words, end, all - end, true);
        if !bitmap::run_is(&bits.words, 0, self.reserved_in(group), true) {
            return Err(reserved_is_free(group).into());
        }
        let (free, said) = (
            bitmap::count_clear(&bits.words),
            group.free_inodes_at_first(),
        );
        if free != said {
            return Err(Corrupt::new(CorruptKind::InodeBitmapCount)
                .pblk(group.inode_bitmap())
                .detail(format_args!("{free} are free, the descriptor says {said}"))
                .into());
        }
        Ok(bits)
    }
}
