//! The resize inode: a file whose blocks are those that every group with backups reserves for more group descriptors.
//!
//! # Data model
//! Its doubly indirect block names the reserved blocks of group 0, each at the index that it would have among all blocks of
//! descriptors. A reserved block of group 0 is a block of pointers to the reserved blocks at the same place in the backup groups.
//!
//! Source: Linux documentation, filesystems/ext4, "Block Group Descriptors".

use crate::bytes::put_le32;
use crate::geometry::Geometry;
use crate::types::{GroupNo, Pblk};

/// Byte of the doubly indirect pointer, the only one that the inode has, in its area of pointers.
pub const RESIZE_DOUBLE_AT: usize = 13 * 4;

/// What the resize inode of a file system maps.
#[derive(Clone, Debug)]
pub struct ResizeMap<'g> {
    geo: &'g Geometry,
    /// From a block of group 0 to those at the same place in the groups with backups.
    distances: Vec<u64>,
}

impl<'g> ResizeMap<'g> {
    /// That of a file system with this geometry.
    pub fn of(geo: &'g Geometry) -> ResizeMap<'g> {
        let per_block = (geo.block_size / 4) as usize;
        let distances = (1..geo.groups_count)
            .filter(|g| geo.has_super(GroupNo(*g)))
            .take(per_block)
            .map(|g| u64::from(g).saturating_mul(u64::from(geo.blocks_per_group)))
            .collect();
        ResizeMap { geo, distances }
    }

    fn per_block(&self) -> u32 {
        self.geo.block_size / 4
    }

    fn block_of(&self, pointers: impl Iterator<Item = (u32, u64)>) -> Vec<u8> {
        let mut block = vec![0; self.geo.block_size as usize];
        for (entry, at) in pointers {
            // An entry is below the pointers of a block.
            let _ = put_le32(&mut block, entry as usize * 4, at as u32);
        }
        block
    }

    /// The reserved blocks of group 0.
    fn places(&self) -> impl Iterator<Item = u64> + use<'g> {
        // Blocks of 1 KiB in clusters have one in front of the superblock.
        let (geo, first) = (self.geo, u64::from(self.geo.block_size == 1024) + 1);
        let first = first.saturating_add(geo.desc_blocks.into());
        (0..geo.reserved_gdt_blocks).map(move |i| first.saturating_add(i.into()))
    }

    /// The content of the doubly indirect block.
    pub fn double(&self) -> Vec<u8> {
        let per_block = self.per_block();
        let first = self.geo.desc_blocks % per_block;
        let entries = (0..).map(|i| (first + i) % per_block);
        self.block_of(entries.zip(self.places()))
    }

    /// The reserved blocks of group 0, and the content of each.
    pub fn reserved(&self) -> impl Iterator<Item = (Pblk, Vec<u8>)> + '_ {
        self.places().map(|at| {
            let pointers = self.distances.iter().map(|far| at.saturating_add(*far));
            (Pblk(at), self.block_of((0..).zip(pointers)))
        })
    }

    /// How many blocks of 512 bytes the inode counts.
    pub fn sectors(&self) -> u64 {
        let each = 1 + self.distances.len() as u64;
        let blocks = 1 + u64::from(self.geo.reserved_gdt_blocks) * each;
        blocks.saturating_mul(self.geo.cluster_size() / 512)
    }

    /// The size of the inode in bytes.
    pub fn bytes(&self) -> u64 {
        let per_block = u64::from(self.per_block());
        (12 + per_block + per_block * per_block) << self.geo.block_bits
    }
}
