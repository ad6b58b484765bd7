//! The blocks of an inode table in which this mount made an inode: their content is on the device or in memory, whatever the
//! group's descriptor said when it was mounted.

use crate::group::inode_bits::LINE_BITS;
use crate::prelude::*;

/// A bit for each block of which the inodes have their bits on one line of the inode bitmap: one CPU makes those.
type Line = CachePadded<[AtomicU64; LINE_BITS as usize / 64]>;

/// A bit for each block of a group's inode table, made with the first.
#[derive(Debug, Default)]
pub(crate) struct UsedBlocks(OnceLock<Box<[Line]>>);

/// Where the bits of blocks are, the same in each group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsedBlocksShape {
    lines: usize,
    blocks_per_line: u32,
}

impl UsedBlocksShape {
    /// Of tables of so many blocks.
    pub(crate) fn new(blocks: u32, inodes_per_block: u32) -> UsedBlocksShape {
        let blocks_per_line = (LINE_BITS / inodes_per_block).max(1);
        UsedBlocksShape {
            lines: blocks.div_ceil(blocks_per_line) as usize,
            blocks_per_line,
        }
    }

    /// The word of a block, and its bit.
    fn word(self, lines: &[Line], block: u32) -> Option<(&AtomicU64, u64)> {
        let line = lines.get((block / self.blocks_per_line) as usize)?;
        let at = block % self.blocks_per_line;
        let word = line.get(at as usize / 64)?;
        Some((word, 1 << (at % 64)))
    }
}

impl UsedBlocks {
    /// Whether an inode was made in this block of the table.
    pub(crate) fn contains(&self, shape: UsedBlocksShape, block: u32) -> bool {
        let word = self.0.get().and_then(|lines| shape.word(lines, block));
        word.is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// Notes that an inode is being made in this block. The block leaves memory only after a transaction that has it is
    /// written to its place, and the locks of that order this before the block is read again.
    pub(crate) fn insert(&self, shape: UsedBlocksShape, block: u32) {
        let made = || (0..shape.lines).map(|_| Line::default()).collect();
        if let Some((word, bit)) = shape.word(self.0.get_or_init(made), block)
            && word.load(Relaxed) & bit == 0
        {
            word.fetch_or(bit, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_noted_one_by_one() {
        let (used, shape) = (UsedBlocks::default(), UsedBlocksShape::new(100, 16));
        for block in [0, 64, 99] {
            assert!(!used.contains(shape, block));
            used.insert(shape, block);
            assert!(used.contains(shape, block));
            used.insert(shape, block);
        }
        for block in [1, 63, 65, 98] {
            assert!(!used.contains(shape, block), "{block}");
        }
        used.insert(shape, 128);
        assert!(!used.contains(shape, 128));
    }
}
