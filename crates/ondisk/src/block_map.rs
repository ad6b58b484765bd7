//! The block map of a file without extents: twelve pointers to data in the inode, then one each to
//! trees of pointers of one, two and three levels.
//!
//! Source: Linux documentation, filesystems/ext4, "Direct/Indirect Block Addressing".
//!
//! # Data model
//! A pointer is 32 bits; 0 is a hole, also where it stands for a whole tree. Blocks of pointers hold
//! nothing else: no header, and no checksum even with `metadata_csum`.

use crate::bytes::{le32, put_le32};
use crate::types::{Lblk, Pblk};

/// Pointers of an inode that lead to data.
pub const MAP_DIRECT: usize = 12;
/// Pointers of an inode.
pub const MAP_ROOTS: usize = 15;
/// The most levels of pointer blocks.
pub const MAP_LEVELS: usize = 3;

/// How many pointers a block holds, which decides the shape of all maps of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapShape {
    per_block: u64,
}

/// The way to a block: the pointer in the inode, and one for each level of pointer blocks below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapPlace {
    /// How many pointer blocks lie between the inode and the data, 0 to 3.
    pub levels: usize,
    slots: [usize; MAP_LEVELS + 1],
}

impl MapPlace {
    /// The pointer to take at `depth`: 0 in the inode, then in the pointer blocks, one after the other.
    #[inline]
    pub fn slot(&self, depth: usize) -> usize {
        self.slots.get(depth).copied().unwrap_or(0)
    }
}

impl MapShape {
    /// The shape with blocks of so many bytes.
    pub fn new(block_size: u32) -> MapShape {
        MapShape {
            per_block: u64::from(block_size / 4).max(1),
        }
    }

    /// Pointers in a block.
    #[inline]
    pub fn per_block(self) -> usize {
        self.per_block as usize
    }

    /// How many file blocks a pointer covers that has `levels` levels of pointer blocks below it.
    #[inline]
    pub fn span(self, levels: usize) -> u64 {
        // 64 KiB blocks: 16384 to the third fits 64 bits.
        (0..levels.min(MAP_LEVELS)).fold(1, |span, _| span * self.per_block)
    }

    /// The levels below a pointer of the inode, and the first file block that it covers.
    pub fn root(self, slot: usize) -> (usize, u64) {
        let levels = (slot + 1).saturating_sub(MAP_DIRECT).min(MAP_LEVELS);
        if levels == 0 {
            return (0, slot as u64);
        }
        let before: u64 = (1..levels).map(|level| self.span(level)).sum();
        (levels, MAP_DIRECT as u64 + before)
    }

    /// The first file block that no map has a pointer for; at most the last block number.
    pub fn blocks_max(self) -> u64 {
        let (levels, first) = self.root(MAP_ROOTS - 1);
        (first + self.span(levels)).min(u64::from(u32::MAX))
    }

    /// The way to a file block; `None` past what a map covers.
    #[inline]
    pub fn place(self, lblk: Lblk) -> Option<MapPlace> {
        let lblk = u64::from(lblk.0);
        if lblk >= self.blocks_max() {
            return None;
        }
        let mut slots = [0; MAP_LEVELS + 1];
        let mut slot = lblk.min(MAP_DIRECT as u64) as usize;
        while slot + 1 < MAP_ROOTS && lblk >= self.root(slot + 1).1 {
            slot += 1;
        }
        let (levels, first) = self.root(slot);
        let mut rest = lblk - first;
        for (depth, entry) in slots.iter_mut().enumerate().take(levels + 1) {
            if depth == 0 {
                *entry = slot;
                continue;
            }
            let span = self.span(levels - depth);
            *entry = (rest / span) as usize;
            rest %= span;
        }
        Some(MapPlace { levels, slots })
    }

    /// How many pointer blocks a map without holes of `blocks` file blocks has.
    pub fn pointer_blocks(self, blocks: u64) -> u64 {
        let mut count = 0;
        for slot in MAP_DIRECT..MAP_ROOTS {
            let (levels, first) = self.root(slot);
            let covered = blocks.saturating_sub(first).min(self.span(levels));
            count += (1..=levels)
                .map(|level| covered.div_ceil(self.span(level)))
                .sum::<u64>();
        }
        count
    }

    /// How many file blocks a file may have whose blocks, those of pointers included, are `all` at most:
    /// what is left when as many pointer blocks are taken off as `all` file blocks would need. A little
    /// more would fit, but that is where the kernel ends.
    pub fn data_blocks_within(self, all: u64) -> u64 {
        let max = self.blocks_max();
        if max + self.pointer_blocks(max) <= all {
            return max;
        }
        all.saturating_sub(self.pointer_blocks(all)).min(max)
    }
}

/// The block that the pointer `slot` names; `None` for a hole, and past the end.
#[inline]
pub fn map_pointer(pointers: &[u8], slot: usize) -> Option<Pblk> {
    let pointer = le32(pointers, slot.checked_mul(4)?)?;
    (pointer != 0).then_some(Pblk(u64::from(pointer)))
}

/// Makes the pointer `slot` name `to`; false if that takes more than 32 bits, or there is no such pointer.
#[inline]
#[must_use]
pub fn map_pointer_set(pointers: &mut [u8], slot: usize, to: Option<Pblk>) -> bool {
    let Ok(pointer) = u32::try_from(to.unwrap_or_default().0) else {
        return false;
    };
    slot.checked_mul(4)
        .and_then(|at| put_le32(pointers, at, pointer))
        .is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(shape: MapShape, lblk: u64) -> Vec<usize> {
        let place = shape.place(Lblk(lblk as u32)).unwrap();
        (0..=place.levels).map(|depth| place.slot(depth)).collect()
    }

    #[test]
    fn places_at_the_borders_of_levels() {
        let shape = MapShape::new(1024);
        let (p, direct) = (256, 12);
        assert_eq!(slots(shape, 0), [0]);
        assert_eq!(slots(shape, 11), [11]);
        assert_eq!(slots(shape, 12), [12, 0]);
        assert_eq!(slots(shape, direct + p - 1), [12, 255]);
        assert_eq!(slots(shape, direct + p), [13, 0, 0]);
        assert_eq!(slots(shape, direct + p + p * p - 1), [13, 255, 255]);
        assert_eq!(slots(shape, direct + p + p * p), [14, 0, 0, 0]);
        let end = direct + p + p * p + p * p * p;
        assert_eq!(slots(shape, end - 1), [14, 255, 255, 255]);
        assert_eq!(
            (shape.place(Lblk(end as u32)), shape.blocks_max()),
            (None, end)
        );
    }

    #[test]
    fn places_name_each_block_once() {
        let shape = MapShape::new(16);
        let mut seen = std::collections::BTreeSet::new();
        for lblk in 0..shape.blocks_max() {
            assert!(seen.insert(slots(shape, lblk)), "block {lblk}");
        }
        assert_eq!(seen.len() as u64, 12 + 4 + 16 + 64);
    }

    #[test]
    fn large_blocks_end_with_the_block_numbers() {
        let shape = MapShape::new(65536);
        assert_eq!(shape.blocks_max(), u64::from(u32::MAX));
        assert!(shape.place(Lblk(u32::MAX)).is_none());
        assert_eq!(shape.place(Lblk(u32::MAX - 1)).unwrap().levels, 3);
    }

    #[test]
    fn pointer_blocks_are_counted() {
        let shape = MapShape::new(16);
        let count = |blocks| shape.pointer_blocks(blocks);
        assert_eq!((count(12), count(13), count(16)), (0, 1, 1));
        assert_eq!((count(17), count(21), count(32)), (3, 4, 6));
        assert_eq!((count(33), count(96)), (9, 1 + 5 + 21));
        for all in 0..130 {
            let n = shape.data_blocks_within(all);
            assert!(
                n + count(n) <= all && n + count(all) >= all.min(96),
                "{all}"
            );
        }
        let sectors = u64::from(u32::MAX);
        let ext3 = MapShape::new(4096).data_blocks_within(sectors / 8);
        assert_eq!(ext3 * 4096, 2_196_873_666_560);
    }

    #[test]
    fn pointers_round_trip() {
        let mut bytes = [0; 60];
        assert!(map_pointer_set(&mut bytes, 14, Some(Pblk(0xfedc_ba98))));
        assert_eq!(map_pointer(&bytes, 14), Some(Pblk(0xfedc_ba98)));
        assert!(!map_pointer_set(&mut bytes, 15, Some(Pblk(1))));
        assert!(!map_pointer_set(&mut bytes, 0, Some(Pblk(1 << 32))));
        assert!(map_pointer_set(&mut bytes, 14, None));
        assert_eq!((bytes, map_pointer(&bytes, 20)), ([0; 60], None));
    }
}
