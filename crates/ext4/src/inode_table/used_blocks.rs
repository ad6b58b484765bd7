//! The blocks of inode tables in which this mount made an inode: their content is on the device or in memory, whatever the
//! group's descriptor said when it was mounted.

use crate::group::inode_bits::LINE_BITS;
use crate::prelude::*;

/// A bit for each block of which the inodes have their bits on one line of the inode bitmap: one CPU makes those.
type Line = CachePadded<[AtomicU64; LINE_BITS as usize / 64]>;

/// A bit for each block of each inode table, made with the first block of a group.
pub(super) struct UsedBlocks {
    groups: Box<[OnceLock<Box<[Line]>>]>,
    /// Of each group; immutable.
    lines: usize,
    /// Immutable.
    blocks_per_line: u32,
}

impl UsedBlocks {
    /// None yet, of so many groups whose tables have so many blocks.
    pub(super) fn new(groups: usize, blocks: u32, inodes_per_block: u32) -> UsedBlocks {
        let blocks_per_line = (LINE_BITS / inodes_per_block).max(1);
        UsedBlocks {
            groups: (0..groups).map(|_| OnceLock::new()).collect(),
            lines: blocks.div_ceil(blocks_per_line) as usize,
            blocks_per_line,
        }
    }

    /// The word of a block among those of its group, and its bit.
    fn word<'a>(&self, lines: &'a [Line], block: u32) -> Option<(&'a AtomicU64, u64)> {
        let line = lines.get((block / self.blocks_per_line) as usize)?;
        let at = block % self.blocks_per_line;
        let word = line.get(at as usize / 64)?;
        Some((word, 1 << (at % 64)))
    }

    /// Whether an inode was made in this block of the group's table.
    pub(super) fn contains(&self, group: GroupNo, block: u32) -> bool {
        let lines = self.groups.get(group.0 as usize).and_then(OnceLock::get);
        let word = lines.and_then(|lines| self.word(lines, block));
        word.is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// Notes that an inode is being made in this block. The block leaves memory only after a transaction that has it is
    /// written to its place, and the locks of that order this before the block is read again.
    pub(super) fn insert(&self, group: GroupNo, block: u32) {
        let Some(lines) = self.groups.get(group.0 as usize) else {
            return;
        };
        let lines = lines.get_or_init(|| (0..self.lines).map(|_| Line::default()).collect());
        if let Some((word, bit)) = self.word(lines, block)
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
        let used = UsedBlocks::new(3, 100, 16);
        for (group, block) in [(0, 0), (0, 64), (2, 99)] {
            let group = GroupNo(group);
            assert!(!used.contains(group, block));
            used.insert(group, block);
            assert!(used.contains(group, block));
            used.insert(group, block);
        }
        for (group, block) in [(0, 1), (0, 63), (0, 65), (1, 0), (1, 99), (2, 98), (3, 0)] {
            assert!(!used.contains(GroupNo(group), block), "{group}, {block}");
        }
        used.insert(GroupNo(3), 0);
        used.insert(GroupNo(0), 128);
        assert!(!used.contains(GroupNo(0), 128));
    }
}
