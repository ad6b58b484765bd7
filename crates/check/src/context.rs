//! What all passes share: the file system's shape, and what is known of blocks and inodes.
//!
//! # Locking
//! Everything is immutable after [`crate::layout`] but the atomics, which are relaxed: a pass reads
//! what an earlier pass wrote, and threads are joined in between.

use crate::bitmap::{ClaimBitmap, Runs};
use crate::journal::Log;
use crate::prelude::*;
use crate::report::Progress;
use crate::view::View;
use std::sync::OnceLock;
use uext4_ondisk::{BlockBounds, CsumSeed, InodeParams, Tid};
use uext4_sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

/// State of an inode: its file type, and these bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InodeState(pub(crate) u8);

impl InodeState {
    /// The inode is encrypted.
    pub(crate) const ENCRYPTED: u8 = 0x08;
    /// The inode is in use.
    pub(crate) const USED: u8 = 0x10;
    /// The inode has no links and waits for its deletion.
    pub(crate) const ORPHAN: u8 = 0x20;
    /// The inode holds an attribute value.
    pub(crate) const VALUE: u8 = 0x40;
    /// The directory is hashed.
    pub(crate) const HASHED: u8 = 0x80;

    pub(crate) fn used(self) -> bool {
        self.0 & Self::USED != 0
    }

    pub(crate) fn orphan(self) -> bool {
        self.0 & Self::ORPHAN != 0
    }

    pub(crate) fn value(self) -> bool {
        self.0 & Self::VALUE != 0
    }

    pub(crate) fn encrypted(self) -> bool {
        self.0 & Self::ENCRYPTED != 0
    }

    pub(crate) fn hashed(self) -> bool {
        self.0 & Self::HASHED != 0
    }

    pub(crate) fn file_type(self) -> FileType {
        FileType::from_dirent(self.0 & 7)
    }
}

/// Inodes of a chunk.
const CHUNK_INODES: usize = 1024;

/// State of inodes whose numbers follow each other.
#[derive(Debug)]
struct InodeChunk {
    state: [AtomicU8; CHUNK_INODES],
    links: [AtomicU16; CHUNK_INODES],
    found: [AtomicU32; CHUNK_INODES],
}

impl InodeChunk {
    fn new() -> Box<InodeChunk> {
        Box::new(InodeChunk {
            state: std::array::from_fn(|_| AtomicU8::new(0)),
            links: std::array::from_fn(|_| AtomicU16::new(0)),
            found: std::array::from_fn(|_| AtomicU32::new(0)),
        })
    }
}

/// State of every inode, in chunks that are made where an inode is in use or has a name.
#[derive(Debug)]
pub(crate) struct InodeTable {
    chunks: Vec<OnceLock<Box<InodeChunk>>>,
    count: u32,
}

impl InodeTable {
    fn new(count: u32) -> Self {
        let mut chunks = Vec::new();
        chunks.resize_with((count as usize).div_ceil(CHUNK_INODES), OnceLock::new);
        InodeTable { chunks, count }
    }

    /// Where an inode's chunk is, and the inode in it; `None` for a number out of range.
    #[inline]
    fn place(&self, ino: Ino) -> Option<(&OnceLock<Box<InodeChunk>>, usize)> {
        let index = ino.0.checked_sub(1).filter(|i| *i < self.count)? as usize;
        let chunk = self.chunks.get(index / CHUNK_INODES)?;
        Some((chunk, index % CHUNK_INODES))
    }

    /// Where an inode's chunk is, if it was made.
    #[inline]
    fn known(&self, ino: Ino) -> Option<(&InodeChunk, usize)> {
        let (chunk, at) = self.place(ino)?;
        Some((chunk.get()?, at))
    }

    /// Notes an inode in use.
    #[inline]
    pub(crate) fn set(&self, ino: Ino, file_type: FileType, bits: u8, links: u16) {
        let Some((chunk, at)) = self.place(ino) else {
            return;
        };
        let chunk = chunk.get_or_init(InodeChunk::new);
        if let Some(s) = chunk.state.get(at) {
            s.store(file_type.to_dirent() | bits, Ordering::Relaxed);
        }
        if let Some(l) = chunk.links.get(at) {
            l.store(links, Ordering::Relaxed);
        }
    }

    /// State of an inode; nothing for a number out of range.
    #[inline]
    pub(crate) fn state(&self, ino: Ino) -> InodeState {
        let s = self.known(ino).and_then(|(chunk, at)| chunk.state.get(at));
        InodeState(s.map_or(0, |s| s.load(Ordering::Relaxed)))
    }

    /// Links that the inode says it has.
    #[inline]
    pub(crate) fn links(&self, ino: Ino) -> u16 {
        let l = self.known(ino).and_then(|(chunk, at)| chunk.links.get(at));
        l.map_or(0, |l| l.load(Ordering::Relaxed))
    }

    /// Counts a name. There are fewer names than 2^32 on any device that fits memory.
    #[inline]
    pub(crate) fn add_found(&self, ino: Ino) {
        let Some((chunk, at)) = self.place(ino) else {
            return;
        };
        if let Some(f) = chunk.get_or_init(InodeChunk::new).found.get(at) {
            f.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Names found.
    #[inline]
    pub(crate) fn found(&self, ino: Ino) -> u32 {
        let f = self.known(ino).and_then(|(chunk, at)| chunk.found.get(at));
        f.map_or(0, |f| f.load(Ordering::Relaxed))
    }

    /// True if nothing is known of `count` inodes from `first` on; false where something is of one near them.
    pub(crate) fn is_untouched(&self, first: Ino, count: u32) -> bool {
        let start = first.0.saturating_sub(1) as usize;
        let end = (start + count as usize).div_ceil(CHUNK_INODES);
        let range = start / CHUNK_INODES..end.min(self.chunks.len());
        let chunks = self.chunks.get(range).unwrap_or(&[]);
        chunks.iter().all(|chunk| chunk.get().is_none())
    }

    /// Inodes that something may be known of, in order.
    pub(crate) fn touched(&self) -> impl Iterator<Item = Ino> {
        let made = self.chunks.iter().enumerate();
        let made = made.filter(|(_, chunk)| chunk.get().is_some());
        made.flat_map(|(i, _)| {
            let first = (i * CHUNK_INODES) as u32;
            let len = (self.count - first).min(CHUNK_INODES as u32);
            (0..len).map(move |i| Ino(first + 1 + i))
        })
    }
}

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

    /// Inodes of a group's table that have ever been used.
    pub(crate) fn inodes_in_use_max(&self, g: GroupNo) -> u32 {
        let Some(d) = self.desc(g) else {
            return 0;
        };
        if !self.sb.has_group_csum() {
            return self.geo.inodes_per_group;
        }
        if d.flags.contains(uext4_ondisk::GroupFlags::INODE_UNINIT) {
            return 0;
        }
        self.geo.inodes_per_group.saturating_sub(d.itable_unused)
    }
}
