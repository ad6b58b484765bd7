//! The scan of the inode tables: groups are shared out, tables are read in long runs.

use crate::context::Context;
use crate::parallel;
use crate::prelude::*;
use crate::quota::Usage;

/// Bytes of an inode table or of directories read at once: few calls, and a worker's share of a cache near its CPU.
pub(crate) const READ_BYTES: usize = 32 << 10;

/// A directory, as the scan saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirFound {
    pub(crate) ino: Ino,
    pub(crate) seed: InodeSeed,
    /// Blocks by its size.
    pub(crate) size_blocks: u32,
    /// Its blocks: a range of the same worker's list.
    pub(crate) first: usize,
    pub(crate) len: usize,
    pub(crate) indexed: bool,
    pub(crate) inline: bool,
    pub(crate) encrypted: bool,
    pub(crate) casefolded: bool,
}

/// A block of a directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirBlockFound {
    pub(crate) pblk: Pblk,
    pub(crate) lblk: Lblk,
}

/// An attribute whose value is in an inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueRef {
    /// The value's inode.
    pub(crate) value: Ino,
    /// The owner of the attribute.
    pub(crate) owner: Ino,
    /// Bytes of the value.
    pub(crate) size: u32,
    /// Hash of the entry.
    pub(crate) hash: u32,
    /// Hash of the name alone, as an entry with an empty value has it.
    pub(crate) name_hash: u32,
}

/// Inodes by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) inodes: u64,
    pub(crate) files: u64,
    pub(crate) directories: u64,
    pub(crate) symlinks: u64,
    pub(crate) specials: u64,
    pub(crate) fragmented: u64,
}

/// What claiming a block means.
#[derive(Clone, Copy)]
pub(crate) enum Mode<'c> {
    /// It is noted in the bitmap.
    Claim,
    /// It is looked up among clusters that were claimed twice (sorted); the budget of tree blocks
    /// to read ends the search.
    Find {
        wanted: &'c [u64],
        budget: &'c AtomicU64,
    },
}

/// One worker of the scan.
pub(crate) struct Scanner<'c, 'd> {
    pub(crate) cx: &'c Context<'d>,
    pub(crate) mode: Mode<'c>,
    pub(crate) faults: Faults,
    pub(crate) dirs: Vec<DirFound>,
    pub(crate) dir_blocks: Vec<DirBlockFound>,
    /// Attribute blocks, and their users.
    pub(crate) xattr_blocks: Vec<(Pblk, Ino)>,
    pub(crate) value_refs: Vec<ValueRef>,
    /// Clusters that were claimed before, when claiming.
    pub(crate) duplicates: Vec<u64>,
    /// Owners of wanted clusters, when finding.
    pub(crate) owners: Vec<(u64, Ino)>,
    pub(crate) counts: Counts,
    pub(crate) usage: Usage,
    /// Buffers of tree blocks, to be used again.
    pub(crate) pool: Vec<Vec<u8>>,
    table: Vec<u8>,
}

/// The most clusters noted as claimed twice.
pub(crate) const DUPLICATES_MAX: usize = 1 << 20;

impl<'c, 'd> Scanner<'c, 'd> {
    pub(crate) fn new(cx: &'c Context<'d>, mode: Mode<'c>) -> Self {
        let faults_max = if matches!(mode, Mode::Claim) {
            cx.faults_max
        } else {
            0
        };
        Scanner {
            cx,
            mode,
            faults: Faults::new(faults_max),
            dirs: Vec::new(),
            dir_blocks: Vec::new(),
            xattr_blocks: Vec::new(),
            value_refs: Vec::new(),
            duplicates: Vec::new(),
            owners: Vec::new(),
            counts: Counts::default(),
            usage: Usage::default(),
            pool: Vec::new(),
            table: Vec::with_capacity(READ_BYTES),
        }
    }

    /// Claims blocks for an inode; true if none was claimed before.
    pub(crate) fn claim(&mut self, ino: Ino, at: Pblk, len: u64) -> bool {
        let last = Pblk(at.0.saturating_add(len.saturating_sub(1)));
        let (a, b) = (self.cx.cluster(at), self.cx.cluster(last));
        self.claim_clusters(ino, a, b.saturating_sub(a).saturating_add(1))
    }

    /// Claims clusters for an inode; true if none was claimed before.
    pub(crate) fn claim_clusters(&mut self, ino: Ino, at: u64, len: u64) -> bool {
        match self.mode {
            Mode::Claim => {
                let mut fresh = true;
                let duplicates = &mut self.duplicates;
                self.cx.claimed.claim(at, len, |c| {
                    fresh = false;
                    if duplicates.len() < DUPLICATES_MAX {
                        duplicates.push(c);
                    }
                });
                fresh
            }
            Mode::Find { wanted, budget } => {
                let from = wanted.partition_point(|w| *w < at);
                let end = at.saturating_add(len);
                for c in wanted.get(from..).unwrap_or(&[]) {
                    if *c >= end || self.owners.len() >= DUPLICATES_MAX {
                        break;
                    }
                    self.owners.push((*c, ino));
                }
                budget
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |b| b.checked_sub(1))
                    .is_ok()
            }
        }
    }

    /// A buffer of one block.
    pub(crate) fn take_buf(&mut self) -> Vec<u8> {
        let size = self.cx.block_size();
        self.pool.pop().unwrap_or_else(|| vec![0; size])
    }

    fn scan_group(&mut self, group: GroupNo) -> Result<()> {
        let cx = self.cx;
        let Some(desc) = cx.desc(group) else {
            return Ok(());
        };
        let inode_size = usize::from(cx.geo.inode_size);
        let inodes = cx.inodes_in_use_max(group);
        let bytes = inodes as usize * inode_size;
        let blocks = bytes.div_ceil(cx.block_size());
        let per_read = (READ_BYTES / cx.block_size()).max(1);
        let mut table = std::mem::take(&mut self.table);
        let (mut done, mut index) = (0usize, 0u32);
        while done < blocks {
            let n = per_read.min(blocks - done);
            table.resize(n * cx.block_size(), 0);
            let at = Pblk(desc.inode_table.0.saturating_add(done as u64));
            cx.view.read(at, &mut table)?;
            for raw in table.chunks_exact(inode_size) {
                if index >= inodes {
                    break;
                }
                self.check_inode(cx.geo.ino_in_group(group, index), raw)?;
                index += 1;
            }
            done += n;
        }
        self.table = table;
        cx.progress.advance(u64::from(cx.geo.inodes_per_group));
        Ok(())
    }
}

/// Scans all groups.
///
/// # Errors
/// The device's.
pub(crate) fn run<'c, 'd>(cx: &'c Context<'d>, mode: Mode<'c>) -> Result<Vec<Scanner<'c, 'd>>> {
    parallel::run(
        cx.threads,
        cx.geo.groups_count as usize,
        || Scanner::new(cx, mode),
        |s, g| s.scan_group(GroupNo(g as u32)),
    )
}
