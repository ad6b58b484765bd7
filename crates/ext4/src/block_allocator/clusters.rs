//! Clusters, which bits of the block bitmaps stand for, and the blocks in them.
//!
//! # Data model
//! Outside of the allocator there are blocks. A run of blocks stands for all clusters that it touches: so a block of metadata is
//! the first of its cluster, and data has the place in its clusters that it has in those of the file. Without `bigalloc` a cluster is
//! a block.
//!
//! Source: Linux documentation, filesystems/ext4, "Bigalloc".

use crate::block_allocator::{BlockAllocator, Goal};
use crate::prelude::*;
use crate::run::Run;
use uext4_ondisk::Cluster;

/// A run of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClusterRun {
    pub first: Cluster,
    pub len: u32,
}

impl BlockAllocator {
    #[inline]
    pub(super) fn cluster_of(&self, pblk: Pblk) -> Cluster {
        Cluster(pblk.0 >> self.cluster_bits)
    }

    /// The blocks of a cluster, less one: the bits of a block's number that say where in its cluster it is.
    #[inline]
    pub(super) fn in_cluster_mask(&self) -> u32 {
        (1 << self.cluster_bits) - 1
    }

    /// The clusters that a run touches.
    #[inline]
    pub(super) fn clusters_of(&self, run: Run) -> ClusterRun {
        let mask = u64::from(self.in_cluster_mask());
        let end = run.pblk.0.saturating_add(u64::from(run.len));
        let first = self.cluster_of(run.pblk);
        let end = end.saturating_add(mask) >> self.cluster_bits;
        ClusterRun {
            first,
            len: end.saturating_sub(first.0) as u32,
        }
    }

    /// All blocks of clusters.
    #[inline]
    pub(super) fn blocks_of(&self, clusters: ClusterRun) -> Run {
        Run {
            pblk: Pblk(clusters.first.0 << self.cluster_bits),
            len: clusters.len << self.cluster_bits,
        }
    }

    /// A run with all blocks of the clusters that it touches, as far as the file system has them.
    #[inline]
    pub(super) fn whole_clusters(&self, run: Run) -> Run {
        let all = self.blocks_of(self.clusters_of(run));
        let run_end = run.pblk.0.saturating_add(u64::from(run.len));
        let end = all.pblk.0.saturating_add(u64::from(all.len));
        let end = end.min(run_end.max(self.volume.geometry().blocks_count));
        Run {
            pblk: all.pblk,
            len: end.saturating_sub(all.pblk.0) as u32,
        }
    }

    /// The group of a block, and the bit of its cluster.
    #[inline]
    pub(super) fn bit_of(&self, pblk: Pblk) -> Option<(GroupNo, u32)> {
        let (no, block) = self.volume.geometry().group_of_block(pblk)?;
        Some((no, block.0 >> self.cluster_bits))
    }

    #[inline]
    pub(super) fn clusters_in_group(&self, no: GroupNo) -> u32 {
        let blocks = self.volume.geometry().blocks_in_group(no);
        (blocks + self.in_cluster_mask()) >> self.cluster_bits
    }

    #[inline]
    pub(super) fn clusters_from(&self, no: GroupNo, bit: u32, len: u32) -> ClusterRun {
        let first = self.cluster_of(self.volume.geometry().group_first_block(no));
        ClusterRun {
            first: Cluster(first.0 + u64::from(bit)),
            len,
        }
    }

    /// How far into its cluster what a goal asks for begins.
    #[inline]
    pub(super) fn within_cluster(&self, goal: &Goal) -> u32 {
        match goal.ino.0 {
            0 => 0,
            _ => goal.lblk.0 & self.in_cluster_mask(),
        }
    }

    /// How many clusters hold `want` blocks at a goal.
    #[inline]
    pub(super) fn clusters_for(&self, goal: &Goal, want: u32) -> u32 {
        let blocks = u64::from(self.within_cluster(goal)) + u64::from(want);
        let clusters = (blocks + u64::from(self.in_cluster_mask())) >> self.cluster_bits;
        u32::try_from(clusters).unwrap_or(u32::MAX)
    }

    /// The blocks, `want` at most, that what a goal asks for has in clusters.
    #[inline]
    pub(super) fn run_at(&self, goal: &Goal, clusters: ClusterRun, want: u32) -> Run {
        let within = self.within_cluster(goal);
        let all = self.blocks_of(clusters);
        Run {
            pblk: Pblk(all.pblk.0 + u64::from(within)),
            len: want.min(all.len.saturating_sub(within)),
        }
    }

    /// The 512-byte sectors that an inode counts for so many clusters.
    #[inline]
    pub(crate) fn sectors_of(&self, clusters: u32) -> u64 {
        u64::from(clusters) * (self.volume.cluster_size() / 512)
    }

    /// How many clusters an operation gets that asks for one block at a goal.
    #[inline]
    pub(crate) fn clusters_of_block(&self, goal: &Goal) -> u32 {
        u32::from(goal.has_cluster.is_none())
    }
}
