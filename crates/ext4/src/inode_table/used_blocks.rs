//! The blocks of inode tables in which this mount made an inode: their content is on the device or in memory, whatever the
//! group's descriptor said when it was mounted.

use crate::prelude::*;

/// A bit for each block of each inode table, made with the first block of a group.
pub(super) struct UsedBlocks {
    groups: Box<[OnceLock<Box<[AtomicU64]>>]>,
    /// Of each group; immutable.
    words: usize,
}

impl UsedBlocks {
    /// None yet, of so many groups whose tables have so many blocks.
    pub(super) fn new(groups: usize, blocks: u32) -> UsedBlocks {
        UsedBlocks {
            groups: (0..groups).map(|_| OnceLock::new()).collect(),
            words: blocks.div_ceil(64) as usize,
        }
    }

    /// Whether an inode was made in this block of the group's table.
    pub(super) fn contains(&self, group: GroupNo, block: u32) -> bool {
        let words = self.groups.get(group.0 as usize).and_then(OnceLock::get);
        let word = words.and_then(|words| words.get(block as usize / 64));
        word.is_some_and(|word| word.load(Relaxed) >> (block % 64) & 1 != 0)
    }

    /// Notes that an inode is being made in this block. The block leaves memory only after a transaction that has it is
    /// written to its place, and the locks of that order this before the block is read again.
    pub(super) fn insert(&self, group: GroupNo, block: u32) {
        let Some(words) = self.groups.get(group.0 as usize) else {
            return;
        };
        let words = words.get_or_init(|| (0..self.words).map(|_| AtomicU64::new(0)).collect());
        let bit = 1 << (block % 64);
        if let Some(word) = words.get(block as usize / 64)
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
        let used = UsedBlocks::new(3, 100);
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
