//! What follows from the superblock: sizes, groups, and where the fixed metadata lies.
//!
//! Source: Linux documentation, filesystems/ext4, "Layout", "Block Group Descriptors", "Meta Block
//! Groups".

use crate::corrupt::{Corrupt, CorruptKind, FormatError, Result};
use crate::features::{Compat, Incompat, RoCompat};
use crate::raw_superblock::RawSuperblock;
use crate::types::{GroupBlk, GroupNo, Ino, Pblk};

/// Sizes and places, checked against each other. Immutable until the size changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a feature")]
pub struct Geometry {
    /// Bytes in a block, 1024 to 65536.
    pub block_size: u32,
    /// Binary logarithm of `block_size`.
    pub block_bits: u32,
    /// Blocks in a cluster; 1 without `bigalloc`.
    pub cluster_ratio: u32,
    /// Blocks in the file system.
    pub blocks_count: u64,
    /// Inodes in the file system.
    pub inodes_count: u32,
    /// First block of group 0: 1 with 1 KiB blocks, else 0.
    pub first_data_block: u32,
    /// Block groups.
    pub groups_count: u32,
    /// Blocks in every group but the last.
    pub blocks_per_group: u32,
    /// Clusters in every group but the last.
    pub clusters_per_group: u32,
    /// Inodes in every group.
    pub inodes_per_group: u32,
    /// Bytes of an inode, a power of two.
    pub inode_size: u16,
    /// Inodes in a block.
    pub inodes_per_block: u32,
    /// Blocks of a group's inode table.
    pub itable_blocks_per_group: u32,
    /// Bytes of a group descriptor, 32 to 1024.
    pub desc_size: u16,
    /// Group descriptors in a block.
    pub desc_per_block: u32,
    /// Blocks that all group descriptors need.
    pub desc_blocks: u32,
    /// First inode that is not reserved.
    pub first_ino: Ino,
    /// Binary logarithm of the number of groups in a flex group.
    pub log_groups_per_flex: u32,
    /// Blocks reserved for growing the descriptors.
    pub reserved_gdt_blocks: u32,
    /// First descriptor block in `meta_bg` placement.
    pub first_meta_bg: u32,
    /// Bytes of inode fields beyond 128 that new inodes get.
    pub want_extra_isize: u16,
    /// Groups with backups, with `sparse_super2`.
    pub backup_bgs: [u32; 2],
    /// Descriptors are in every meta group.
    pub meta_bg: bool,
    /// Backups in few groups.
    pub sparse_super: bool,
    /// Backups in at most two groups.
    pub sparse_super2: bool,
    /// Block numbers have 64 bits.
    pub bit64: bool,
}

fn bad<T>(what: &'static str, value: impl Into<u64>) -> std::result::Result<T, FormatError> {
    Err(FormatError::BadGeometry {
        what,
        value: value.into(),
    })
}

/// The block size in bytes of any ext4 superblock.
pub(crate) fn block_size(raw: &RawSuperblock) -> std::result::Result<u32, FormatError> {
    let log = raw.log_block_size.get();
    if log > 6 {
        return bad("logarithm of the block size", log);
    }
    Ok(1024 << log)
}

/// Cluster ratio, blocks per group and clusters per group.
fn group_size(
    raw: &RawSuperblock,
    block_size: u32,
) -> std::result::Result<(u32, u32, u32), FormatError> {
    let bpg = raw.blocks_per_group.get();
    let cpg = raw.clusters_per_group.get();
    let bigalloc = raw.ro_compat().contains(RoCompat::BIGALLOC);
    let ratio = if bigalloc {
        let (bs, cs) = (raw.log_block_size.get(), raw.log_cluster_size.get());
        match cs.checked_sub(bs) {
            Some(d) if cs <= 20 => 1u32 << d,
            _ => return bad("logarithm of the cluster size", cs),
        }
    } else {
        1
    };
    let clusters = if bigalloc { cpg } else { bpg };
    if clusters == 0 || clusters > block_size * 8 || !clusters.is_multiple_of(8) {
        return bad("blocks or clusters per group", clusters);
    }
    if u64::from(clusters) * u64::from(ratio) != u64::from(bpg) {
        return bad("blocks per group for that many clusters", bpg);
    }
    Ok((ratio, bpg, clusters))
}

/// Inode size and first inode.
fn inode_shape(
    raw: &RawSuperblock,
    block_size: u32,
) -> std::result::Result<(u16, Ino), FormatError> {
    if raw.rev_level.get() == 0 {
        return Ok((128, Ino::GOOD_OLD_FIRST));
    }
    let size = raw.inode_size.get();
    if size < 128 || !size.is_power_of_two() || u32::from(size) > block_size {
        return bad("inode size", size);
    }
    let first = raw.first_ino.get();
    if first < Ino::GOOD_OLD_FIRST.0 || first > raw.inodes_count.get() {
        return bad("first inode", first);
    }
    Ok((size, Ino(first)))
}

fn desc_size(raw: &RawSuperblock) -> std::result::Result<u16, FormatError> {
    if !raw.incompat().contains(Incompat::BIT64) {
        return Ok(32);
    }
    let size = raw.desc_size.get();
    if !(64..=1024).contains(&size) || !size.is_power_of_two() {
        return bad("group descriptor size", size);
    }
    Ok(size)
}

fn groups_count(
    raw: &RawSuperblock,
    block_size: u32,
    ratio: u32,
    bpg: u32,
) -> std::result::Result<u32, FormatError> {
    let first = raw.first_data_block.get();
    let want = u32::from(block_size == 1024 && ratio == 1);
    if first != want {
        return bad("first data block", first);
    }
    let blocks = raw.blocks_count();
    // Byte offsets must fit a signed 64-bit file offset.
    if blocks <= u64::from(first) || blocks > i64::MAX as u64 / u64::from(block_size) {
        return bad("block count", blocks);
    }
    let groups = (blocks - u64::from(first)).div_ceil(u64::from(bpg));
    u32::try_from(groups)
        .ok()
        .filter(|g| *g < u32::MAX - 1024)
        .map_or_else(|| bad("group count", groups), Ok)
}

impl Geometry {
    /// Derives and checks everything.
    pub(crate) fn from_raw(raw: &RawSuperblock) -> std::result::Result<Self, FormatError> {
        let block_size = block_size(raw)?;
        let (cluster_ratio, blocks_per_group, clusters_per_group) = group_size(raw, block_size)?;
        let (inode_size, first_ino) = inode_shape(raw, block_size)?;
        let desc_size = desc_size(raw)?;
        let groups_count = groups_count(raw, block_size, cluster_ratio, blocks_per_group)?;
        let (compat, incompat, ro) = (raw.compat(), raw.incompat(), raw.ro_compat());
        let inodes_per_block = block_size / u32::from(inode_size);
        let inodes_per_group = raw.inodes_per_group.get();
        if inodes_per_group < inodes_per_block.min(8)
            || inodes_per_group > block_size * 8
            || !inodes_per_group.is_multiple_of(8)
        {
            return bad("inodes per group", inodes_per_group);
        }
        let inodes_count = raw.inodes_count.get();
        if u64::from(inodes_per_group) * u64::from(groups_count) != u64::from(inodes_count) {
            return bad("inode count for that many groups", inodes_count);
        }
        let desc_per_block = block_size / u32::from(desc_size);
        let meta_bg = incompat.contains(Incompat::META_BG);
        let g = Geometry {
            block_size,
            block_bits: block_size.trailing_zeros(),
            cluster_ratio,
            blocks_count: raw.blocks_count(),
            inodes_count,
            first_data_block: raw.first_data_block.get(),
            groups_count,
            blocks_per_group,
            clusters_per_group,
            inodes_per_group,
            inode_size,
            inodes_per_block,
            itable_blocks_per_group: inodes_per_group.div_ceil(inodes_per_block),
            desc_size,
            desc_per_block,
            desc_blocks: groups_count.div_ceil(desc_per_block),
            first_ino,
            log_groups_per_flex: if incompat.contains(Incompat::FLEX_BG) {
                u32::from(raw.log_groups_per_flex)
            } else {
                0
            },
            reserved_gdt_blocks: u32::from(raw.reserved_gdt_blocks.get()),
            first_meta_bg: if meta_bg { raw.first_meta_bg.get() } else { 0 },
            want_extra_isize: raw.want_extra_isize.get().min(inode_size - 128),
            backup_bgs: raw.backup_bgs.map(|b| b.get()),
            meta_bg,
            sparse_super: ro.contains(RoCompat::SPARSE_SUPER),
            sparse_super2: compat.contains(Compat::SPARSE_SUPER2),
            bit64: incompat.contains(Incompat::BIT64),
        };
        g.check_metadata_fits()?;
        Ok(g)
    }

    fn check_metadata_fits(&self) -> std::result::Result<(), FormatError> {
        if self.log_groups_per_flex > 31 {
            return bad(
                "logarithm of groups per flex group",
                self.log_groups_per_flex,
            );
        }
        if self.reserved_gdt_blocks > self.block_size / 4 {
            return bad("reserved descriptor blocks", self.reserved_gdt_blocks);
        }
        if self.first_meta_bg > self.desc_blocks {
            return bad("first meta block group", self.first_meta_bg);
        }
        // A group's own bitmaps and inode table must fit the average group.
        if u64::from(self.itable_blocks_per_group) + 2 >= u64::from(self.blocks_per_group) {
            return bad("inode table blocks per group", self.itable_blocks_per_group);
        }
        let first_end = self.logical_super_block() + u64::from(self.base_meta_blocks(GroupNo(0)));
        if first_end >= self.blocks_count {
            return bad("block count for the descriptors", self.blocks_count);
        }
        Ok(())
    }

    /// The block that holds the primary superblock.
    fn logical_super_block(&self) -> u64 {
        u64::from(self.block_size == 1024)
    }

    /// Byte offset of a block on the device.
    #[inline]
    pub fn block_offset(&self, b: Pblk) -> u64 {
        b.0 << self.block_bits
    }

    /// True if `len` blocks from `b` lie in the file system, past its first block.
    #[inline]
    pub fn contains_blocks(&self, b: Pblk, len: u64) -> bool {
        b.0 > u64::from(self.first_data_block)
            && b.0
                .checked_add(len)
                .is_some_and(|end| end <= self.blocks_count)
    }

    /// Refuses a block outside the file system.
    ///
    /// # Errors
    /// [`CorruptKind::BlockRange`].
    pub fn check_block(&self, b: Pblk) -> Result<()> {
        if b.0 >= u64::from(self.first_data_block) && b.0 < self.blocks_count {
            Ok(())
        } else {
            Err(Corrupt::new(CorruptKind::BlockRange).pblk(b))
        }
    }

    /// The blocks that extents and pointers may name.
    #[inline]
    pub fn block_bounds(&self) -> BlockBounds {
        BlockBounds {
            first: u64::from(self.first_data_block) + 1,
            end: self.blocks_count,
        }
    }

    /// The group of a block, and the block in it; `None` outside the file system.
    #[inline]
    pub fn group_of_block(&self, b: Pblk) -> Option<(GroupNo, GroupBlk)> {
        if b.0 >= self.blocks_count {
            return None;
        }
        let rel = b.0.checked_sub(u64::from(self.first_data_block))?;
        let bpg = u64::from(self.blocks_per_group);
        Some((GroupNo((rel / bpg) as u32), GroupBlk((rel % bpg) as u32)))
    }

    /// The group of an inode, and its index there.
    ///
    /// # Errors
    /// [`CorruptKind::InoRange`] for 0 and beyond the inode count.
    #[inline]
    pub fn group_of_ino(&self, ino: Ino) -> Result<(GroupNo, u32)> {
        match ino.0.checked_sub(1) {
            Some(rel) if ino.0 <= self.inodes_count => Ok((
                GroupNo(rel / self.inodes_per_group),
                rel % self.inodes_per_group,
            )),
            _ => Err(Corrupt::new(CorruptKind::InoRange).ino(ino)),
        }
    }

    /// The inode at an index of a group's table.
    #[inline]
    pub fn ino_in_group(&self, g: GroupNo, index: u32) -> Ino {
        Ino(g
            .0
            .wrapping_mul(self.inodes_per_group)
            .wrapping_add(index)
            .wrapping_add(1))
    }

    /// Block (relative to the inode table) and byte in it, of an index of the table.
    #[inline]
    pub fn itable_position(&self, index: u32) -> (u32, usize) {
        (
            index / self.inodes_per_block,
            (index % self.inodes_per_block) as usize * usize::from(self.inode_size),
        )
    }

    /// First block of a group.
    #[inline]
    pub fn group_first_block(&self, g: GroupNo) -> Pblk {
        Pblk(u64::from(g.0) * u64::from(self.blocks_per_group) + u64::from(self.first_data_block))
    }

    /// Blocks in a group; the last one may be short; 0 for a group that is not there.
    #[inline]
    pub fn blocks_in_group(&self, g: GroupNo) -> u32 {
        if g.0 >= self.groups_count {
            return 0;
        }
        let left = self
            .blocks_count
            .saturating_sub(self.group_first_block(g).0);
        left.min(u64::from(self.blocks_per_group)) as u32
    }

    /// Clusters in a group.
    #[inline]
    pub fn clusters_in_group(&self, g: GroupNo) -> u32 {
        self.blocks_in_group(g).div_ceil(self.cluster_ratio)
    }

    /// Clusters in the file system.
    #[inline]
    pub fn clusters_count(&self) -> u64 {
        self.blocks_count.div_ceil(u64::from(self.cluster_ratio))
    }

    /// Binary logarithm of the number of blocks in a cluster.
    #[inline]
    pub fn cluster_bits(&self) -> u32 {
        self.cluster_ratio.trailing_zeros()
    }

    /// Bytes in a cluster.
    #[inline]
    pub fn cluster_size(&self) -> u64 {
        u64::from(self.block_size) << self.cluster_bits()
    }

    /// True if the group starts with a superblock.
    pub fn has_super(&self, g: GroupNo) -> bool {
        let n = g.0;
        if n == 0 {
            return true;
        }
        if self.sparse_super2 {
            return self.backup_bgs.contains(&n);
        }
        if n == 1 || !self.sparse_super {
            return true;
        }
        n % 2 == 1 && [3, 5, 7].into_iter().any(|base| is_power_of(n, base))
    }

    fn in_meta_area(&self, g: GroupNo) -> bool {
        self.meta_bg && g.0 / self.desc_per_block >= self.first_meta_bg
    }

    /// Descriptor blocks in a group (primary or backup), reserved ones not counted.
    pub fn gdt_blocks(&self, g: GroupNo) -> u32 {
        if self.in_meta_area(g) {
            let at = g.0 % self.desc_per_block;
            return u32::from(at <= 1 || at == self.desc_per_block - 1);
        }
        if !self.has_super(g) {
            0
        } else if self.meta_bg {
            self.first_meta_bg
        } else {
            self.desc_blocks
        }
    }

    /// Blocks at the start of a group that hold superblock, descriptors and reserved descriptors.
    pub fn base_meta_blocks(&self, g: GroupNo) -> u32 {
        let has_super = self.has_super(g);
        let reserved = if has_super && !self.in_meta_area(g) {
            self.reserved_gdt_blocks
        } else {
            0
        };
        // A file system with 1 KiB blocks and clusters keeps block 0 free of the superblock.
        let boot =
            u64::from(g.0 == 0) * (self.logical_super_block() - u64::from(self.first_data_block));
        (boot as u32)
            .saturating_add(u32::from(has_super))
            .saturating_add(self.gdt_blocks(g))
            .saturating_add(reserved)
    }

    /// Block and byte of a group's descriptor (primary copy).
    pub fn group_desc_location(&self, g: GroupNo) -> (Pblk, usize) {
        let nr = g.0 / self.desc_per_block;
        let at = (g.0 % self.desc_per_block) as usize * usize::from(self.desc_size);
        (self.desc_block(nr), at)
    }

    /// The primary copy of the descriptor block `nr`, counted from 0.
    pub fn desc_block(&self, nr: u32) -> Pblk {
        if !self.meta_bg || nr < self.first_meta_bg {
            return Pblk(self.logical_super_block() + u64::from(nr) + 1);
        }
        let g = GroupNo(nr.saturating_mul(self.desc_per_block));
        let boot =
            u64::from(g.0 == 0) * (self.logical_super_block() - u64::from(self.first_data_block));
        Pblk(self.group_first_block(g).0 + u64::from(self.has_super(g)) + boot)
    }

    /// Bytes of an inode bitmap that count.
    pub fn inode_bitmap_bytes(&self) -> usize {
        (self.inodes_per_group / 8) as usize
    }

    /// Bytes of a block bitmap that count.
    pub fn block_bitmap_bytes(&self) -> usize {
        (self.clusters_per_group / 8) as usize
    }
}

/// Blocks that a pointer on disk may name: from `first`, before `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockBounds {
    /// The first block that may be named.
    pub first: u64,
    /// The first that may not.
    pub end: u64,
}

impl BlockBounds {
    /// No bounds but 48 bits.
    pub const ANY: BlockBounds = BlockBounds {
        first: 0,
        end: 1 << 48,
    };

    /// True if all of `len` blocks from `b` may be named.
    #[inline]
    pub fn contains(&self, b: Pblk, len: u64) -> bool {
        b.0 >= self.first && b.0.checked_add(len).is_some_and(|end| end <= self.end)
    }
}

fn is_power_of(n: u32, base: u32) -> bool {
    let mut p = u64::from(base);
    while p < u64::from(n) {
        p *= u64::from(base);
    }
    p == u64::from(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::Superblock;

    /// A 1 GiB file system with 4 KiB blocks.
    fn raw() -> RawSuperblock {
        let mut r = RawSuperblock::zeroed();
        r.magic = 0xef53.into();
        r.rev_level = 1.into();
        r.log_block_size = 2.into();
        r.log_cluster_size = 2.into();
        r.set_blocks_count(262_144);
        r.blocks_per_group = 32768.into();
        r.clusters_per_group = 32768.into();
        r.inodes_per_group = 8192.into();
        r.inodes_count = 65536.into();
        r.inode_size = 256.into();
        r.first_ino = 11.into();
        r.desc_size = 64.into();
        r.set_features(Compat::empty(), Incompat::BIT64, RoCompat::SPARSE_SUPER);
        r
    }

    fn geometry(f: impl FnOnce(&mut RawSuperblock)) -> std::result::Result<Geometry, FormatError> {
        let mut r = raw();
        f(&mut r);
        Superblock::from_raw(r).map(|s| s.geometry)
    }

    #[test]
    fn places() {
        let g = geometry(|_| ()).unwrap();
        assert_eq!(
            (g.groups_count, g.desc_blocks, g.itable_blocks_per_group),
            (8, 1, 512)
        );
        let supers: Vec<u32> = (0..8).filter(|n| g.has_super(GroupNo(*n))).collect();
        assert_eq!(supers, [0, 1, 3, 5, 7]);
        assert_eq!(g.group_of_ino(Ino(8193)).unwrap(), (GroupNo(1), 0));
        assert_eq!(
            g.group_of_ino(Ino(0)).unwrap_err().kind,
            CorruptKind::InoRange
        );
        assert_eq!(
            g.group_of_ino(Ino(65537)).unwrap_err().kind,
            CorruptKind::InoRange
        );
        assert_eq!(
            g.group_of_block(Pblk(32768)),
            Some((GroupNo(1), GroupBlk(0)))
        );
        assert_eq!(g.group_of_block(Pblk(262_144)), None);
        assert_eq!(g.group_desc_location(GroupNo(3)), (Pblk(1), 192));
        assert!(!g.contains_blocks(Pblk(u64::MAX), 2) && !g.contains_blocks(Pblk(0), 1));
        assert!(is_power_of(3486784401, 3) && is_power_of(2187, 3) && !is_power_of(15, 3));
    }

    #[test]
    fn each_bad_field_is_refused() {
        type Change = fn(&mut RawSuperblock);
        #[rustfmt::skip]
        let cases: [(&str, Change); 17] = [
            ("logarithm of the block size", |r| { r.log_block_size = 7.into() }),
            ("blocks or clusters per group", |r| { r.blocks_per_group = 0.into() }),
            ("blocks or clusters per group", |r| { r.blocks_per_group = 40000.into() }),
            ("inode size", |r| r.inode_size = 200.into()),
            ("inode size", |r| r.inode_size = 0.into()),
            ("inode size", |r| r.inode_size = 8192.into()),
            ("first inode", |r| r.first_ino = 2.into()),
            ("group descriptor size", |r| r.desc_size = 32.into()),
            ("group descriptor size", |r| r.desc_size = 96.into()),
            ("first data block", |r| r.first_data_block = 1.into()),
            ("block count", |r| r.set_blocks_count(0)),
            ("block count", |r| r.set_blocks_count(u64::MAX)),
            ("group count", |r| r.set_blocks_count(u64::MAX >> 14)),
            ("inodes per group", |r| r.inodes_per_group = 0.into()),
            ("inodes per group", |r| r.inodes_per_group = 0x10000.into()),
            ("inode count for that many groups", |r| { r.inodes_count = 65535.into() }),
            ("reserved descriptor blocks", |r| { r.reserved_gdt_blocks = 2000.into() }),
        ];
        for (want, change) in cases {
            match geometry(change) {
                Err(FormatError::BadGeometry { what, .. }) => assert_eq!(what, want),
                other => panic!("{want}: {other:?}"),
            }
        }
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..20000 {
            let mut r = raw();
            let bytes = zerocopy::IntoBytes::as_mut_bytes(&mut r);
            for _ in 0..rng.usize(1..6) {
                let at = rng.usize(..0x180);
                bytes[at] = rng.u8(..);
            }
            if let Ok(s) = Superblock::from_raw(r) {
                let g = s.geometry;
                for n in [0, 1, g.groups_count - 1] {
                    g.base_meta_blocks(GroupNo(n));
                    g.group_desc_location(GroupNo(n));
                    g.blocks_in_group(GroupNo(n));
                }
            }
        }
    }
}
