//! What all passes share: the file system's shape, and what is known of blocks and inodes.
//!
//! # Locking
//! Everything is immutable after [`crate::layout`] but the atomics, which are relaxed: a pass reads
//! what an earlier pass wrote, and threads are joined in between.

use crate::bitmap::{ClaimBitmap, Runs};
use crate::inode_table::InodeTable;
use crate::journal::Log;
use crate::prelude::*;
use crate::report::Progress;
use crate::view::View;
use uext4_ondisk::{BlockBounds, CsumSeed, GroupFlags, InodeParams, Tid};

/// A run of fixed metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetaRange {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) what: &'static str,
    pub(crate) group: GroupNo,
}

/// The file system that is being checked.
pub(crate) struct Context<'d> {
    pub(crate) view: View<'d>,
    pub(crate) sb: Superblock,
    pub(crate) geo: Geometry,
    pub(crate) params: InodeParams,
    /// The seed of metadata checksums, with `metadata_csum`.
    pub(crate) seed: Option<CsumSeed>,
    pub(crate) descs: Vec<GroupDesc>,
    /// Groups whose descriptors are usable.
    pub(crate) usable: Vec<bool>,
    /// Clusters in use.
    pub(crate) claimed: ClaimBitmap,
    /// Clusters of fixed metadata.
    pub(crate) metadata: Runs,
    /// Fixed metadata, sorted.
    pub(crate) ranges: Vec<MetaRange>,
    pub(crate) inodes: InodeTable,
    /// Orphans, sorted.
    pub(crate) orphans: Vec<Ino>,
    pub(crate) threads: usize,
    pub(crate) faults_max: usize,
    pub(crate) needs_recovery: bool,
    /// The journal, if it is inside and sound.
    pub(crate) log: Option<Log>,
    /// The transaction after those that replay would find.
    pub(crate) next_tid: Option<Tid>,
    pub(crate) progress: &'d dyn Progress,
}

impl<'d> Context<'d> {
    pub(crate) fn new(
        view: View<'d>,
        sb: Superblock,
        threads: usize,
        faults_max: usize,
        progress: &'d dyn Progress,
    ) -> Self {
        let geo = sb.geometry;
        let clusters = u64::from(geo.clusters_per_group).saturating_mul(geo.groups_count.into());
        Context {
            view,
            params: InodeParams::of(&sb),
            seed: sb.has_metadata_csum().then_some(sb.csum_seed),
            descs: Vec::new(),
            usable: Vec::new(),
            claimed: ClaimBitmap::new(clusters),
            metadata: Runs::default(),
            ranges: Vec::new(),
            inodes: InodeTable::new(geo.inodes_count),
            orphans: Vec::new(),
            threads,
            faults_max,
            needs_recovery: false,
            log: None,
            next_tid: None,
            progress,
            geo,
            sb,
        }
    }

    pub(crate) fn block_size(&self) -> usize {
        self.geo.block_size as usize
    }

    pub(crate) fn incompat(&self, f: Incompat) -> bool {
        self.sb.incompat.contains(f)
    }

    pub(crate) fn ro_compat(&self, f: RoCompat) -> bool {
        self.sb.ro_compat.contains(f)
    }

    /// The blocks that pointers may name.
    pub(crate) fn bounds(&self) -> BlockBounds {
        self.geo.block_bounds()
    }

    /// The cluster of a block, as a bit of [`Context::claimed`].
    #[inline]
    pub(crate) fn cluster(&self, b: Pblk) -> u64 {
        let rel = b.0.saturating_sub(u64::from(self.geo.first_data_block));
        if self.geo.cluster_ratio == 1 {
            rel
        } else {
            rel / u64::from(self.geo.cluster_ratio)
        }
    }

    /// The first block of a cluster.
    pub(crate) fn cluster_block(&self, cluster: u64) -> Pblk {
        let first = u64::from(self.geo.first_data_block);
        Pblk(
            cluster
                .saturating_mul(u64::from(self.geo.cluster_ratio))
                .saturating_add(first),
        )
    }

    /// True if the cluster holds fixed metadata.
    pub(crate) fn is_metadata(&self, cluster: u64) -> bool {
        self.metadata.contain(cluster)
    }

    /// What fixed metadata a block holds.
    pub(crate) fn metadata_at(&self, b: Pblk) -> Option<MetaRange> {
        let ratio = u64::from(self.geo.cluster_ratio);
        let (start, end) = (b.0, b.0.saturating_add(ratio));
        let i = self.ranges.partition_point(|r| r.end <= start);
        self.ranges.get(i).filter(|r| r.start < end).copied()
    }

    pub(crate) fn is_orphan(&self, ino: Ino) -> bool {
        !self.orphans.is_empty() && self.orphans.binary_search(&ino).is_ok()
    }

    /// True for inodes below the first ordinary one.
    pub(crate) fn is_reserved(&self, ino: Ino) -> bool {
        ino < self.geo.first_ino
    }

    /// The descriptor of a group whose places are usable.
    pub(crate) fn desc(&self, g: GroupNo) -> Option<&GroupDesc> {
        let g = g.0 as usize;
        self.descs
            .get(g)
            .filter(|_| self.usable.get(g) == Some(&true))
    }

    /// Whether a bitmap of a group is not on disk.
    pub(crate) fn is_uninit(&self, desc: &GroupDesc, flag: GroupFlags) -> bool {
        self.sb.has_group_csum() && desc.flags.contains(flag)
    }

    /// Inodes of a group's table that have ever been used.
    pub(crate) fn inodes_in_use_max(&self, g: GroupNo) -> u32 {
        let Some(d) = self.desc(g) else {
            return 0;
        };
        if !self.sb.has_group_csum() {
            return self.geo.inodes_per_group;
        }
        if d.flags.contains(GroupFlags::INODE_UNINIT) {
            return 0;
        }
        self.geo.inodes_per_group.saturating_sub(d.itable_unused)
    }
}
