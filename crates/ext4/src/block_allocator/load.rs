//! Loading a group's block bitmap.

use crate::block_allocator::BlockAllocator;
use crate::group::{BlockBits, Group, bitmap};
use crate::kinds;
use crate::prelude::*;
use crate::run::Run;

impl BlockAllocator {
    /// The block bitmaps of a group, loaded on first touch.
    ///
    /// # Locks
    /// May read from the device, so no lock of rank `group` or below may be held.
    pub(crate) fn block_bits<'g>(&self, group: &'g Group) -> Result<&'g BlockBits> {
        match group.block_bits() {
            Some(bits) => Ok(bits),
            None => self.load_block_bits(group),
        }
    }

    #[cold]
    fn load_block_bits<'g>(&self, group: &'g Group) -> Result<&'g BlockBits> {
        let loaded = self.read_block_bits(group);
        // Another thread may have changed flags, content and checksum under our eyes.
        match (group.block_bits(), loaded) {
            (Some(bits), _) => Ok(bits),
            (None, Ok(bits)) => Ok(group.publish_blocks(bits)),
            (None, Err(why)) => Err(why),
        }
    }

    fn read_block_bits(&self, group: &Group) -> Result<BlockBits> {
        let geometry = self.volume.geometry();
        let uninit =
            group.flags().contains(GroupFlags::BLOCK_UNINIT) && self.volume.csum != GroupCsum::None;
        let buffer = if uninit {
            self.volume.cache().get_unread(group.block_bitmap().0)
        } else {
            self.volume.cache().get(group.block_bitmap().0)?
        };
        kinds::take(&buffer, kinds::BLOCK_BITMAP, group.no.0)?;
        self.volume.allocate_bitmap(group.block_bitmap())?;
        let mut bytes = vec![0u8; self.volume.cache().block_size()];
        if uninit {
            let mut content = buffer.write();
            buffer.set_uptodate(&mut content);
            drop(content);
            self.fill_uninit_bitmap(group, &mut bytes);
        } else {
            bytes.copy_from_slice(buffer.read().data());
            if let Some(seed) = self.volume.seed() {
                group
                    .descriptor(self.volume.bitmap_bytes, true)
                    .verify_block_bitmap(seed, geometry, &bytes)?;
            }
        }
        let bits = BlockBits::new(buffer, &bytes);
        let end = self.clusters_in_group(group.no);
        let all = (bytes.len() * 8) as u32;
        for words in [&bits.busy, &bits.on_disk] {
            bitmap::assign_run(words, end, all - end, true);
        }
        // The end of the file system may have a part of a cluster, which is not allocated.
        if geometry.blocks_in_group(group.no) & self.in_cluster_mask() != 0 {
            bitmap::assign_run(&bits.busy, end - 1, 1, true);
        }
        self.check_own_metadata(group, &bits)?;
        let (free, said) = (
            bitmap::count_clear(&bits.on_disk),
            group.free_blocks.load(Relaxed),
        );
        if free != said {
            return Err(Corrupt::new(CorruptKind::BlockBitmapCount)
                .pblk(group.block_bitmap())
                .detail(format_args!("{free} are free, the descriptor says {said}"))
                .into());
        }
        Ok(bits)
    }

    /// The bitmap of a group whose flag says that nothing but metadata is in it.
    fn fill_uninit_bitmap(&self, group: &Group, bytes: &mut [u8]) {
        let geometry = self.volume.geometry();
        let first = geometry.group_first_block(group.no).0;
        let end = first + u64::from(geometry.blocks_in_group(group.no));
        let mut mark = |pblk: u64, len: u64| {
            for b in pblk.max(first)..(pblk + len).min(end) {
                let bit = (b - first) as usize >> self.cluster_bits;
                if let Some(byte) = bytes.get_mut(bit / 8) {
                    *byte |= 1 << (bit % 8);
                }
            }
        };
        mark(first, u64::from(geometry.base_meta_blocks(group.no)));
        // With flex_bg the tables of this and of other groups may lie here.
        for g in self.volume.groups() {
            mark(g.block_bitmap().0, 1);
            mark(g.inode_bitmap().0, 1);
            mark(
                g.inode_table().0,
                u64::from(geometry.itable_blocks_per_group),
            );
        }
    }

    /// A bitmap that claims the group's own metadata free is damaged.
    fn check_own_metadata(&self, group: &Group, bits: &BlockBits) -> Result<()> {
        let geometry = self.volume.geometry();
        let places = [
            (group.block_bitmap(), 1),
            (group.inode_bitmap(), 1),
            (group.inode_table(), geometry.itable_blocks_per_group),
        ];
        for (pblk, len) in places {
            if let Some((no, first)) = geometry.group_of_block(pblk)
                && no == group.no
                && !bitmap::run_is(
                    &bits.on_disk,
                    first.0 >> self.cluster_bits,
                    self.clusters_of(Run { pblk, len }).len,
                    true,
                )
            {
                return Err(Corrupt::new(CorruptKind::BlockBitmapChecksum)
                    .pblk(group.block_bitmap())
                    .detail(format_args!("metadata block {pblk} is marked free"))
                    .into());
            }
        }
        Ok(())
    }
}
