//! A larger file system: its superblock, and groups whose metadata lies at their own start.
//!
//! Source: Linux documentation, filesystems/ext4, "Layout", "Block Group Descriptors".

use crate::features::Incompat;
use crate::geometry::Geometry;
use crate::group_desc::{GroupDesc, GroupFlags};
use crate::raw_superblock::RawSuperblock;
use crate::superblock::Superblock;
use crate::types::{GroupNo, Pblk};

/// Free blocks that a last group must have beyond its metadata, or it is left out, as mke2fs has it.
const LAST_GROUP_SPARE: u64 = 50;

impl RawSuperblock {
    /// The same with so many blocks, and with the inodes of as many groups as they make. `None` if those were 2^32 or more.
    pub fn with_blocks(&self, blocks: u64) -> Option<RawSuperblock> {
        let groups = blocks.saturating_sub(self.first_data_block.get().into());
        let groups = groups.div_ceil(u64::from(self.blocks_per_group.get()).max(1));
        let inodes = groups.saturating_mul(self.inodes_per_group.get().into());
        let mut made = self.clone();
        made.set_blocks_count(blocks);
        made.inodes_count = u32::try_from(inodes).ok()?.into();
        Some(made)
    }

    /// Reserves the same share of the blocks as `old`, the superblock before the size changed, and leaves it to the next mount to
    /// count what metadata takes.
    pub fn keep_shares(&mut self, old: &RawSuperblock) {
        let share = u128::from(old.reserved_blocks_count()) * u128::from(self.blocks_count());
        let share = share / u128::from(old.blocks_count().max(1));
        self.set_reserved_blocks_count(u64::try_from(share).unwrap_or(0));
        self.overhead_clusters = 0.into();
    }

    /// The backup of this superblock in a group.
    pub fn backup_in(&self, group: GroupNo) -> RawSuperblock {
        let of_primary = Incompat::RECOVER | Incompat::JOURNAL_DEV;
        let mut copy = self.clone();
        copy.feature_incompat = (self.incompat() & !of_primary).bits().into();
        copy.block_group_nr = (group.0 as u16).into();
        copy.update_checksum();
        copy
    }
}

impl Geometry {
    /// Blocks that the metadata of a group takes which is all at its start.
    pub fn own_blocks(&self, group: GroupNo) -> u32 {
        self.base_meta_blocks(group)
            .saturating_add(2)
            .saturating_add(self.itable_blocks_per_group)
    }

    /// Where the file system ends without its last group, if that is too short for its metadata and is not one of the first
    /// `old_groups`, which have theirs.
    pub fn end_before_short_group(&self, old_groups: u32) -> Option<u64> {
        let last = GroupNo(self.groups_count.saturating_sub(1));
        let needs = u64::from(self.own_blocks(last)) + LAST_GROUP_SPARE;
        let is_short = u64::from(self.blocks_in_group(last)) < needs;
        (last.0 >= old_groups && is_short).then(|| self.group_first_block(last).0)
    }

    /// Where the backups of descriptor block `nr` lie: after the superblocks of the backup groups, or in the second and the last
    /// group of its meta group.
    pub fn desc_backups(&self, nr: u32) -> Vec<Pblk> {
        let place = |g: GroupNo, after: u32| {
            let at = self.group_first_block(g).0;
            Pblk(at.saturating_add(after.into()))
        };
        if self.meta_bg && nr >= self.first_meta_bg {
            let first = nr.saturating_mul(self.desc_per_block);
            let last = first.saturating_add(self.desc_per_block - 1);
            let mut groups = vec![first.saturating_add(1), last];
            groups.dedup();
            groups.retain(|g| *g > first && *g < self.groups_count);
            let groups = groups.into_iter().map(GroupNo);
            return groups.map(|g| place(g, self.has_super(g).into())).collect();
        }
        // Behind those, groups have the descriptors of their meta groups.
        let end = match self.meta_bg {
            true => self.first_meta_bg.saturating_mul(self.desc_per_block),
            false => self.groups_count,
        };
        let groups = (1..self.groups_count.min(end)).map(GroupNo);
        let groups = groups.filter(|g| self.has_super(*g));
        groups.map(|g| place(g, nr.saturating_add(1))).collect()
    }
}

/// Sets the bits of a bitmap block from bit `from` on, which stand for nothing.
pub fn pad_bitmap(block: &mut [u8], from: usize) {
    if let Some(byte) = block.get_mut(from / 8) {
        *byte |= (0xffu16 << (from % 8)) as u8;
    }
    if let Some(rest) = block.get_mut(from / 8 + 1..) {
        rest.fill(0xff);
    }
}

/// A group in which nothing but its metadata is: block bitmap, inode bitmap and inode table, one behind the other, after the
/// backups that it has.
#[derive(Clone, Debug)]
pub struct NewGroup {
    /// The descriptor, with the checksums of the bitmaps.
    pub desc: GroupDesc,
    /// The block of the block bitmap.
    pub block_bitmap: Vec<u8>,
    /// The block of the inode bitmap.
    pub inode_bitmap: Vec<u8>,
}

impl NewGroup {
    /// A group of the file system `sb`. Its inode table must be zeros.
    pub fn of(sb: &Superblock, group: GroupNo) -> NewGroup {
        let geo = &sb.geometry;
        let front = geo.group_first_block(group).0 + u64::from(geo.base_meta_blocks(group));
        let (used, blocks) = (geo.own_blocks(group), geo.blocks_in_group(group));
        let mut desc = GroupDesc {
            block_bitmap: Pblk(front),
            inode_bitmap: Pblk(front + 1),
            inode_table: Pblk(front + 2),
            free_blocks: blocks.saturating_sub(used),
            free_inodes: geo.inodes_per_group,
            ..GroupDesc::default()
        };
        if sb.has_group_csum() {
            desc.flags = GroupFlags::INODE_UNINIT | GroupFlags::ITABLE_ZEROED;
            desc.itable_unused = geo.inodes_per_group;
        }
        let mut block_bitmap = vec![0; geo.block_size as usize];
        for bit in 0..used as usize {
            if let Some(byte) = block_bitmap.get_mut(bit / 8) {
                *byte |= 1 << (bit % 8);
            }
        }
        pad_bitmap(&mut block_bitmap, blocks as usize);
        let mut inode_bitmap = vec![0; geo.block_size as usize];
        pad_bitmap(&mut inode_bitmap, geo.inodes_per_group as usize);
        if sb.has_metadata_csum() {
            desc.set_block_bitmap_csum(sb.csum_seed, geo, &block_bitmap);
            desc.set_inode_bitmap_csum(sb.csum_seed, geo, &inode_bitmap);
        }
        NewGroup {
            desc,
            block_bitmap,
            inode_bitmap,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{Compat, RoCompat};
    use crate::resize_inode::ResizeMap;

    /// Blocks of 1 KiB, of which each of descriptors has those of 16 groups, and 20 that are reserved.
    fn superblock(blocks: u64) -> Superblock {
        let mut raw = RawSuperblock::zeroed();
        raw.magic = 0xef53.into();
        raw.rev_level = 1.into();
        raw.blocks_per_group = 8192.into();
        raw.clusters_per_group = 8192.into();
        raw.inodes_per_group = 128.into();
        raw.inode_size = 256.into();
        raw.first_ino = 11.into();
        raw.first_data_block = 1.into();
        raw.desc_size = 64.into();
        raw.reserved_gdt_blocks = 20.into();
        raw.set_features(
            Compat::RESIZE_INODE,
            Incompat::BIT64,
            RoCompat::SPARSE_SUPER | RoCompat::METADATA_CSUM,
        );
        let raw = raw.with_blocks(blocks).expect("inodes");
        Superblock::from_raw(raw).expect("a superblock")
    }

    #[test]
    fn inodes_follow_from_blocks_and_shares_stay() {
        let mut old = superblock(1 + 3 * 8192).raw;
        assert_eq!(old.inodes_count.get(), 3 * 128);
        old.set_reserved_blocks_count(1000);
        let mut new = old.with_blocks(2 * (1 + 3 * 8192)).expect("inodes");
        assert_eq!(new.inodes_count.get(), 7 * 128);
        new.keep_shares(&old);
        assert_eq!(new.reserved_blocks_count(), 2000);
        assert!(old.with_blocks(1 << 60).is_none());
        assert_eq!(old.backup_in(GroupNo(3)).block_group_nr.get(), 3);
    }

    #[test]
    fn a_last_group_needs_room_for_its_metadata() {
        let own = u64::from(superblock(4 * 8192).geometry.own_blocks(GroupNo(3)));
        // Superblock, descriptors and reserved blocks; bitmaps; 128 inodes of 256 bytes.
        assert_eq!(own, 1 + 1 + 20 + 2 + 32);
        let end = 1 + 3 * 8192;
        let left_out = |more: u64, old| superblock(end + more).geometry.end_before_short_group(old);
        assert_eq!(left_out(own + 49, 3), Some(end));
        assert_eq!(left_out(own + 50, 3), None);
        assert_eq!(left_out(own + 49, 4), None);
    }

    #[test]
    fn a_new_group_has_its_metadata_and_nothing_else() {
        let sb = superblock(1 + 4 * 8192 - 100);
        for group in [2, 3].map(GroupNo) {
            let made = NewGroup::of(&sb, group);
            made.desc.validate(&sb.geometry, group).expect("valid");
            let ones = |bytes: &[u8]| bytes.iter().map(|b| b.count_ones()).sum::<u32>();
            let blocks = sb.geometry.blocks_in_group(group);
            let used = sb.geometry.own_blocks(group);
            assert_eq!(made.desc.free_blocks, blocks - used);
            assert_eq!(ones(&made.block_bitmap), used + 8192 - blocks);
            assert_eq!(ones(&made.inode_bitmap), 8192 - 128);
        }
    }

    #[test]
    fn reserved_blocks_keep_their_entries_when_others_hold_descriptors() {
        let old = superblock(1 + 16 * 8192).geometry;
        let mut raw = superblock(1 + 40 * 8192).raw;
        raw.reserved_gdt_blocks = 18.into();
        let new = Superblock::from_raw(raw).expect("a superblock").geometry;
        assert_eq!((old.desc_blocks, new.desc_blocks), (1, 3));
        let (before, after) = (ResizeMap::of(&old), ResizeMap::of(&new));
        let mut double = before.double();
        double.get_mut(4..12).expect("two entries").fill(0);
        assert_eq!(double, after.double());
        let mut kept = before.reserved().skip(2).zip(after.reserved());
        assert!(kept.all(|((at, old), (same, new))| {
            // Groups 1, 3, 5, 7 and 9, then also 25 and 27.
            at == same && old.get(..20) == new.get(..20) && old != new
        }));
        assert_eq!(after.sectors(), 2 * (1 + 18 * (1 + 7)));
    }
}
