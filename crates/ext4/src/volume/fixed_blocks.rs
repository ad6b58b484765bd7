//! Blocks that belong to no file: superblocks, descriptors, bitmaps and inode tables.
//!
//! # Locking
//! None: immutable, and they never move while mounted. A growth adds some.

use crate::group::Group;
use std::sync::Arc;
use uext4_ondisk::{Geometry, Pblk};

/// Where the fixed metadata lies, as sorted runs `[first, end)` that do not touch.
#[derive(Debug)]
pub(crate) struct FixedBlocks(Vec<(u64, u64)>);

impl FixedBlocks {
    /// That of all groups.
    pub fn of(groups: &[Arc<Group>], geometry: &Geometry) -> FixedBlocks {
        let table = u64::from(geometry.itable_blocks_per_group);
        let runs = groups.iter().flat_map(|group| {
            let base = u64::from(geometry.base_meta_blocks(group.no));
            [
                (geometry.group_first_block(group.no), base),
                (group.block_bitmap(), 1),
                (group.inode_bitmap(), 1),
                (group.inode_table(), table),
            ]
        });
        FixedBlocks::new(runs.collect())
    }

    fn new(mut runs: Vec<(Pblk, u64)>) -> FixedBlocks {
        runs.retain(|(_, len)| *len > 0);
        runs.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (Pblk(first), len) in runs {
            let end = first.saturating_add(len);
            match merged.last_mut() {
                Some(last) if first <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((first, end)),
            }
        }
        merged.shrink_to_fit();
        FixedBlocks(merged)
    }

    /// Whether any of `len` blocks from `pblk` on is one of them.
    pub fn overlaps(&self, pblk: Pblk, len: u64) -> bool {
        let at = self.0.partition_point(|(_, end)| *end <= pblk.0);
        self.0
            .get(at)
            .is_some_and(|(first, _)| *first < pblk.0.saturating_add(len))
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_found_at_both_ends() {
        let run = |first, len| (Pblk(first), len);
        let fixed = FixedBlocks::new(vec![run(50, 2), run(10, 5), run(15, 1), run(30, 0)]);
        assert_eq!(fixed.0, [(10, 16), (50, 52)]);
        for (pblk, len, wanted) in [
            (9, 1, false),
            (9, 2, true),
            (15, 1, true),
            (16, 34, false),
            (16, 35, true),
            (30, 1, false),
            (51, 100, true),
            (52, u64::MAX, false),
        ] {
            assert_eq!(fixed.overlaps(Pblk(pblk), len), wanted, "{pblk} {len}");
        }
    }
}
