//! The files that belong to the file system: bad blocks, quota files, journal, resize inode, orphan file.

use uext4_ondisk::{
    Compat, Extent, FileType, Generation, GroupNo, Incompat, Ino, Inode, JOURNAL_SUPER_SIZE,
    MMP_INTERVAL_DEFAULT, Mmp, Pblk, QuotaKind, RawJournalSuper, Timestamp, orphan_block_init,
    orphan_checksum_set,
};
use zerocopy::IntoBytes;

use crate::error::{MkfsError, Result};
use crate::extents;
use crate::layout::Layout;
use crate::mapping::Mapping;
use crate::place::Places;
use crate::quota::{Owners, blocks_of_file};
use crate::space::{Run, Space};
use crate::tree::Tree;

/// The MMP sequence number of a file system that is not mounted.
const MMP_CLEAN: u32 = 0xff4d_4d50;
/// Blocks that an inode maps itself, without extents.
const DIRECT: u64 = 12;

/// The system's files: inodes and what is written for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct System {
    /// Inodes with their numbers, ascending.
    pub inodes: Vec<(Ino, Inode)>,
    /// Blocks to be written.
    pub blocks: Vec<(Pblk, Vec<u8>)>,
    /// Runs of blocks that must read as zeros.
    pub zeros: Vec<Run>,
    /// The journal, which has its space on the host from the start.
    pub journal: Vec<Run>,
    /// The first inode for files of the tree.
    pub first_ino: Ino,
    /// The inodes of the files of quotas, with their kinds.
    pub quota_inodes: Vec<(QuotaKind, Ino)>,
    /// The blocks of those files.
    pub quota_runs: Vec<Vec<Run>>,
    /// The block of multi-mount protection, or 0.
    pub mmp_block: Pblk,
}

impl System {
    /// Places the system's files.
    ///
    /// # Errors
    /// [`MkfsError::NoSpace`].
    pub fn place(
        layout: &Layout,
        space: &mut Space,
        time: i64,
        owners: &[Owners],
    ) -> Result<System> {
        let mut system = System {
            first_ino: Ino(12),
            ..System::default()
        };
        let file = |bytes: u64| new_inode(layout, time, bytes);
        let mut bad_blocks = file(0);
        (bad_blocks.mode, bad_blocks.links) = (0, 0);
        bad_blocks.extra_isize = 0;
        system.inodes.push((Ino::BAD_BLOCKS, bad_blocks));
        // The journal first: it should be one contiguous run.
        let journal = match layout.journal_blocks {
            0 => None,
            n => Some(system.journal(layout, space, file(0), n)?),
        };
        if layout.features.compat.contains(Compat::RESIZE_INODE) {
            system.resize(layout, space, file(0))?;
        }
        system.inodes.extend(journal.map(|i| (Ino::JOURNAL, i)));
        if layout.features.incompat.contains(Incompat::MMP) {
            system.mmp(layout, space, time)?;
        }
        if layout.orphan_blocks > 0 {
            system.orphan_file(layout, space, file(0))?;
        }
        for owners in owners {
            system.quota_file(layout, space, file(0), owners)?;
        }
        system.inodes.sort_by_key(|(ino, _)| *ino);
        Ok(system)
    }

    /// Takes blocks near `goal` in one run, or anywhere.
    fn take(layout: &Layout, space: &mut Space, goal: u64, n: u64) -> Result<Vec<Run>> {
        let one = space
            .take_contiguous(goal, n)
            .or_else(|| space.take_contiguous(0, n));
        if let Some(start) = one {
            return Ok(vec![Run {
                start: start.0,
                len: n,
            }]);
        }
        let mut runs = Vec::new();
        if space.take_first(n, |run| runs.push(run)) {
            return Ok(runs);
        }
        Err(MkfsError::NoSpace {
            blocks: layout.geo().blocks_count,
            what: "the files of the file system",
        })
    }

    /// Maps runs.
    fn map(
        &mut self,
        layout: &Layout,
        space: &mut Space,
        file: &mut FileOf,
        runs: &[Run],
    ) -> Result<()> {
        let block_size = layout.geo().block_size;
        let mut list: Vec<Extent> = Vec::new();
        let mut lblk = 0;
        for run in runs {
            extents::push_run(&mut list, 0, lblk, *run);
            lblk += run.len;
        }
        let mapping = Mapping::of(&layout.features);
        let n = mapping.tree_blocks(&list, block_size) as u64;
        let mut places = Vec::new();
        if n > 0 {
            let cluster = space.cluster();
            for run in Self::take(layout, space, 0, n * cluster)? {
                let blocks = run.start..run.start + run.len;
                places.extend(blocks.step_by(cluster as usize).map(Pblk));
            }
        }
        let seed = layout.features.has_metadata_csum();
        let seed = seed.then(|| layout.sb.csum_seed.inode(file.ino, Generation(0)));
        let tree = mapping.build(&list, block_size, seed, &places);
        self.blocks.extend(tree.blocks);
        file.inode.i_block = tree.root;
        file.inode.flags = mapping.flags();
        file.inode.size = lblk * u64::from(block_size);
        let cluster = space.cluster();
        let blocks = lblk.next_multiple_of(cluster) + n * cluster;
        file.inode.blocks = blocks * u64::from(block_size / 512);
        Ok(())
    }

    fn journal(
        &mut self,
        layout: &Layout,
        space: &mut Space,
        inode: Inode,
        n: u32,
    ) -> Result<Inode> {
        let geo = layout.geo();
        let middle = geo.group_first_block(GroupNo(geo.groups_count / 2)).0;
        let runs = Self::take(layout, space, middle, u64::from(n))?;
        let mut file = FileOf {
            ino: Ino::JOURNAL,
            inode,
        };
        self.map(layout, space, &mut file, &runs)?;
        let mut raw = RawJournalSuper::new_empty(geo.block_size, n);
        raw.num_fc_blks = layout.fast_commit_blocks.into();
        raw.uuid = layout.sb.raw.uuid;
        let mut block = vec![0; geo.block_size as usize];
        block[..JOURNAL_SUPER_SIZE].copy_from_slice(raw.as_bytes());
        self.blocks.push((Pblk(runs[0].start), block));
        for (i, run) in runs.iter().enumerate() {
            let skip = u64::from(i == 0);
            if run.len > skip {
                self.zeros.push(Run {
                    start: run.start + skip,
                    len: run.len - skip,
                });
            }
        }
        self.journal = runs;
        Ok(file.inode)
    }

    /// The block by which hosts see each other's mounts: the file system is not mounted.
    fn mmp(&mut self, layout: &Layout, space: &mut Space, time: i64) -> Result<()> {
        let at = Pblk(Self::take(layout, space, 0, 1)?[0].start);
        let mmp = Mmp {
            seq: MMP_CLEAN,
            time: time as u64,
            nodename: [0; 64],
            bdevname: [0; 32],
            check_interval: MMP_INTERVAL_DEFAULT,
        };
        let seed = layout.features.has_metadata_csum();
        let mut block = vec![0; layout.geo().block_size as usize];
        mmp.encode_into(&mut block, seed.then_some(layout.sb.csum_seed));
        self.blocks.push((at, block));
        self.mmp_block = at;
        Ok(())
    }

    fn orphan_file(&mut self, layout: &Layout, space: &mut Space, inode: Inode) -> Result<()> {
        let ino = Ino(12);
        let runs = Self::take(layout, space, 0, u64::from(layout.orphan_blocks))?;
        let mut file = FileOf { ino, inode };
        self.map(layout, space, &mut file, &runs)?;
        let seed = layout.features.has_metadata_csum();
        let seed = seed.then(|| layout.sb.csum_seed.inode(ino, Generation(0)));
        for at in runs.iter().flat_map(|r| r.start..r.start + r.len) {
            let mut block = vec![0; layout.geo().block_size as usize];
            orphan_block_init(&mut block);
            if let Some(seed) = seed {
                orphan_checksum_set(&mut block, seed, Pblk(at));
            }
            self.blocks.push((Pblk(at), block));
        }
        self.inodes.push((ino, file.inode));
        self.first_ino = Ino(13);
        Ok(())
    }

    /// A quota file, without its content.
    fn quota_file(
        &mut self,
        layout: &Layout,
        space: &mut Space,
        inode: Inode,
        owners: &Owners,
    ) -> Result<()> {
        let ino = match owners.kind() {
            QuotaKind::User => Ino::USER_QUOTA,
            QuotaKind::Group => Ino::GROUP_QUOTA,
            QuotaKind::Project => {
                let ino = self.first_ino;
                self.first_ino = Ino(ino.0 + 1);
                ino
            }
        };
        let blocks = blocks_of_file(owners, layout.geo().block_size);
        let runs = Self::take(layout, space, 0, blocks)?;
        let mut file = FileOf { ino, inode };
        self.map(layout, space, &mut file, &runs)?;
        self.inodes.push((ino, file.inode));
        self.quota_inodes.push((owners.kind(), ino));
        self.quota_runs.push(runs);
        Ok(())
    }

    /// Writes the quota files, once the places of the tree are known.
    pub fn fill_quotas(
        &mut self,
        owners: &[Owners],
        layout: &Layout,
        tree: &Tree,
        places: &Places,
    ) {
        let block_size = layout.geo().block_size as usize;
        for (owners, runs) in owners.iter().zip(self.quota_runs.clone()) {
            let mut content = owners.content(tree, places, block_size as u64);
            content.resize(content.len().next_multiple_of(block_size), 0);
            let blocks = runs.iter().flat_map(|run| run.start..run.start + run.len);
            for (at, block) in blocks.zip(content.chunks_exact(block_size)) {
                self.blocks.push((Pblk(at), block.to_vec()));
            }
        }
    }

    /// The resize inode keeps the reserved descriptor blocks: a double-indirect block names the primary
    /// ones, and each of those is an indirect block that names its backups.
    fn resize(&mut self, layout: &Layout, space: &mut Space, mut inode: Inode) -> Result<()> {
        let geo = layout.geo();
        let per_block = u64::from(geo.block_size) / 4;
        let top = Self::take(layout, space, 0, 1)?[0].start;
        let backups: Vec<u64> = (1..geo.groups_count)
            .map(GroupNo)
            .filter(|g| geo.has_super(*g))
            .map(|g| u64::from(g.0) * u64::from(geo.blocks_per_group))
            .collect();
        // Blocks of 1 KiB in clusters have one in front of the primary superblock. None is in front of the others, but e2fsck
        // expects the distance all the same.
        let boot = geo.desc_block(0).0 - u64::from(geo.first_data_block) - 1;
        let mut top_block = vec![0; geo.block_size as usize];
        for i in 0..u64::from(geo.reserved_gdt_blocks) {
            let nr = u64::from(geo.desc_blocks) + i;
            let at = boot + u64::from(geo.first_data_block) + 1 + nr;
            put(&mut top_block, nr % per_block, at);
            let mut block = vec![0; geo.block_size as usize];
            for (j, offset) in backups.iter().enumerate() {
                put(&mut block, j as u64, at + offset);
            }
            self.blocks.push((Pblk(at), block));
        }
        self.blocks.push((Pblk(top), top_block));
        put(&mut inode.i_block, 13, top);
        let reserved = u64::from(geo.reserved_gdt_blocks);
        let first = u64::from(geo.first_data_block) + 1 + u64::from(geo.desc_blocks);
        if reserved > 0 {
            self.zeros.extend(backups.iter().map(|offset| Run {
                start: first + offset,
                len: reserved,
            }));
        }
        let blocks = 1 + reserved * (1 + backups.len() as u64);
        inode.blocks = blocks * (geo.cluster_size() / 512);
        inode.size = (DIRECT + per_block + per_block * per_block) * u64::from(geo.block_size);
        self.inodes.push((Ino::RESIZE, inode));
        Ok(())
    }
}

/// A file on the way.
struct FileOf {
    ino: Ino,
    inode: Inode,
}

fn put(block: &mut [u8], index: u64, value: u64) {
    let at = index as usize * 4;
    block[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
}

/// A regular file of the system.
fn new_inode(layout: &Layout, time: i64, size: u64) -> Inode {
    let time = Timestamp::new(time, 0);
    Inode {
        mode: FileType::Regular.to_mode() | 0o600,
        size,
        links: 1,
        atime: time,
        ctime: time,
        mtime: time,
        crtime: time,
        extra_isize: layout.geo().want_extra_isize,
        ..Inode::default()
    }
}
