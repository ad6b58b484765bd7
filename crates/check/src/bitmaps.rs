//! The last pass: bitmaps and counters on disk against what the others found.

use crate::backups;
use crate::bitmap::{bit, count_ones};
use crate::context::Context;
use crate::parallel;
use crate::prelude::*;
use uext4_ondisk::{GroupFlags, STATE_CLEAN};

/// Runs of differing bits that a message lists.
const RUNS_MAX: usize = 8;

/// What the groups add up to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) blocks_used: u64,
    pub(crate) inodes_used: u64,
}

struct GroupWorker<'c, 'd> {
    cx: &'c Context<'d>,
    faults: Faults,
    totals: Totals,
    block: Vec<u8>,
    expected: Vec<u8>,
}

/// Checks all groups, then the superblock.
///
/// # Errors
/// The device's.
pub(crate) fn run(cx: &Context<'_>, faults: &mut Faults) -> Result<Totals> {
    cx.progress.phase("bitmaps", u64::from(cx.geo.groups_count));
    let workers = parallel::run(
        cx.threads,
        cx.geo.groups_count as usize,
        || GroupWorker {
            cx,
            faults: Faults::new(cx.faults_max),
            totals: Totals::default(),
            block: vec![0; cx.block_size()],
            expected: Vec::new(),
        },
        |w, g| w.group(GroupNo(g as u32)),
    )?;
    let mut totals = Totals::default();
    let mut parts = Vec::new();
    for w in workers {
        totals.blocks_used += w.totals.blocks_used;
        totals.inodes_used += w.totals.inodes_used;
        parts.push(w.faults);
    }
    faults.absorb(parts);
    check_super(cx, &totals, faults);
    Ok(totals)
}

fn check_super(cx: &Context<'_>, totals: &Totals, faults: &mut Faults) {
    // Linux brings these up to date on unmounting only, and takes the groups' word when mounting.
    if cx.needs_recovery || cx.sb.raw.state.get() & STATE_CLEAN == 0 {
        return;
    }
    let groups = (0..cx.geo.groups_count).map(|g| u64::from(cx.geo.clusters_in_group(GroupNo(g))));
    let free_clusters = groups.sum::<u64>().saturating_sub(totals.blocks_used);
    // Groups count clusters, the superblock blocks.
    let free_blocks = free_clusters.saturating_mul(u64::from(cx.geo.cluster_ratio));
    let free_inodes = u64::from(cx.geo.inodes_count).saturating_sub(totals.inodes_used);
    for (kind, have, want) in [
        (
            FaultKind::SuperblockFreeBlocks,
            cx.sb.raw.free_blocks_count(),
            free_blocks,
        ),
        (
            FaultKind::SuperblockFreeInodes,
            cx.sb.raw.free_inodes_count.get().into(),
            free_inodes,
        ),
    ] {
        if have != want {
            // The groups' counters are what counts.
            let note = Fault::new(kind).note().pblk(backups::primary(cx));
            faults.push(note.detail(format_args!("{have}, not {want}")));
        }
    }
}

impl GroupWorker<'_, '_> {
    fn group(&mut self, g: GroupNo) -> Result<()> {
        self.cx.progress.advance(1);
        let free_blocks = self.block_bitmap(g)?;
        let (free_inodes, dirs) = self.inode_bitmap(g)?;
        let Some(desc) = self.cx.desc(g) else {
            return Ok(());
        };
        for (kind, have, want) in [
            (FaultKind::GroupFreeBlocks, desc.free_blocks, free_blocks),
            (FaultKind::GroupFreeInodes, desc.free_inodes, free_inodes),
            (FaultKind::GroupUsedDirs, desc.used_dirs, dirs),
        ] {
            if have != want {
                let fault = Fault::new(kind).group(g);
                self.faults
                    .push(fault.detail(format_args!("{have}, not {want}")));
            }
        }
        Ok(())
    }

    /// Checks the block bitmap and returns the free clusters.
    fn block_bitmap(&mut self, g: GroupNo) -> Result<u32> {
        let geo = &self.cx.geo;
        let clusters = geo.clusters_in_group(g);
        let from = u64::from(g.0).saturating_mul(u64::from(geo.clusters_per_group));
        let desc = self.cx.desc(g).copied();
        // Such a bitmap is made up from the fixed metadata.
        let made_up = desc.is_some_and(|desc| self.cx.is_uninit(&desc, GroupFlags::BLOCK_UNINIT));
        if made_up && self.cx.claimed.is_untouched(from, clusters.into()) {
            return Ok(clusters);
        }
        let claimed = &self.cx.claimed;
        claimed.copy_to(from, clusters.into(), &mut self.expected);
        let used = count_ones(&self.expected) as u32;
        self.totals.blocks_used += u64::from(used);
        let free = clusters.saturating_sub(used);
        let Some(desc) = desc else {
            return Ok(free);
        };
        if made_up {
            self.block.fill(0);
            let bytes = self.block.get_mut(..clusters.div_ceil(8) as usize);
            self.cx.metadata.set_bits(from, bytes.unwrap_or(&mut []));
        } else {
            self.load(desc.block_bitmap)?;
            self.verify(g, &desc, true);
        }
        let kinds = (FaultKind::BlockBitmapClear, FaultKind::BlockBitmapSet);
        let first = geo.group_first_block(g).0;
        let ratio = u64::from(geo.cluster_ratio);
        self.compare(g, desc.block_bitmap, clusters as usize, kinds, &|i| {
            first.saturating_add(ratio.saturating_mul(i as u64))
        });
        Ok(free)
    }

    /// Checks the inode bitmap and returns free inodes and directories.
    fn inode_bitmap(&mut self, g: GroupNo) -> Result<(u32, u32)> {
        let geo = &self.cx.geo;
        let count = geo.inodes_per_group;
        let desc = self.cx.desc(g).copied();
        let made_up = desc.is_some_and(|desc| self.cx.is_uninit(&desc, GroupFlags::INODE_UNINIT));
        if made_up && self.cx.inodes.is_untouched(geo.ino_in_group(g, 0), count) {
            return Ok((count, 0));
        }
        let (mut used, mut dirs) = (0u32, 0u32);
        let mut named = None;
        self.expected.clear();
        self.expected.resize(geo.inode_bitmap_bytes(), 0);
        for i in 0..count {
            let ino = geo.ino_in_group(g, i);
            let state = self.cx.inodes.state(ino);
            if !state.used() {
                continue;
            }
            used += 1;
            if self.cx.inodes.found(ino) > 0 {
                named = Some(i);
            }
            let is_dir = state.file_type() == FileType::Directory;
            dirs += u32::from(is_dir);
            if let Some(b) = self.expected.get_mut(i as usize / 8) {
                *b |= 1 << (i % 8);
            }
        }
        self.totals.inodes_used += u64::from(used);
        self.check_unused(g, named);
        let result = (count.saturating_sub(used), dirs);
        let Some(desc) = desc else {
            return Ok(result);
        };
        if made_up {
            self.block.fill(0);
        } else {
            self.load(desc.inode_bitmap)?;
            self.verify(g, &desc, false);
        }
        let kinds = (FaultKind::InodeBitmapClear, FaultKind::InodeBitmapSet);
        self.compare(g, desc.inode_bitmap, count as usize, kinds, &|i| {
            u64::from(geo.ino_in_group(g, i as u32).0)
        });
        Ok(result)
    }

    /// Flags that mean nothing without group checksums must not hide an inode with a name all the same.
    fn check_unused(&mut self, g: GroupNo, named: Option<u32>) {
        let (Some(desc), Some(last)) = (self.cx.desc(g), named) else {
            return;
        };
        let count = self.cx.geo.inodes_per_group;
        let hides = desc.flags.contains(GroupFlags::INODE_UNINIT)
            || last >= count.saturating_sub(desc.itable_unused);
        if hides && !self.cx.sb.has_group_csum() {
            let fault = Fault::new(FaultKind::GroupUninit).group(g);
            self.faults.push(fault.detail("holds inodes with names"));
        }
    }

    fn load(&mut self, at: Pblk) -> Result<()> {
        self.cx.view.read(at, &mut self.block)
    }

    /// Checksum and padding of the bitmap that was loaded.
    fn verify(&mut self, g: GroupNo, desc: &GroupDesc, blocks: bool) {
        let geo = &self.cx.geo;
        let (at, bits, padding) = if blocks {
            let bits = geo.clusters_in_group(g);
            (desc.block_bitmap, bits, FaultKind::BlockBitmapPadding)
        } else {
            (
                desc.inode_bitmap,
                geo.inodes_per_group,
                FaultKind::InodeBitmapPadding,
            )
        };
        if let Some(seed) = self.cx.seed {
            let sum = if blocks {
                desc.verify_block_bitmap(seed, geo, &self.block)
            } else {
                desc.verify_inode_bitmap(seed, geo, &self.block)
            };
            if let Err(e) = sum {
                self.faults.push(Fault::from(e.pblk(at)).group(g));
            }
        }
        let bits = bits as usize;
        let rest = self.block.get(bits / 8 + 1..).unwrap_or(&[]);
        let edge = self
            .block
            .get(bits / 8)
            .is_none_or(|b| b >> (bits % 8) == 0xff >> (bits % 8));
        if !edge || rest.iter().any(|b| *b != 0xff) {
            self.faults.push(Fault::new(padding).group(g).pblk(at));
        }
    }

    /// Compares the bitmap that was loaded with what is expected, bit by bit where bytes differ.
    fn compare(
        &mut self,
        g: GroupNo,
        at: Pblk,
        bits: usize,
        kinds: (FaultKind, FaultKind),
        number: &dyn Fn(usize) -> u64,
    ) {
        let have = self.block.get(..bits / 8).unwrap_or(&[]);
        if bits.is_multiple_of(8) && self.expected.get(..bits / 8) == Some(have) {
            return;
        }
        for (kind, want) in [(kinds.0, true), (kinds.1, false)] {
            let mut runs: Vec<(u64, u64)> = Vec::new();
            let mut total = 0u64;
            let differ = (0..bits)
                .filter(|i| bit(&self.expected, *i) == want && bit(&self.block, *i) != want);
            for n in differ.map(number) {
                total += 1;
                if let Some(run) = runs.last_mut().filter(|run| run.1.saturating_add(1) == n) {
                    run.1 = n;
                } else if runs.len() < RUNS_MAX {
                    runs.push((n, n));
                }
            }
            if total > 0 {
                let fault = Fault::new(kind).group(g).pblk(at);
                self.faults.push(fault.detail(list(&runs, total)));
            }
        }
    }
}

fn list(runs: &[(u64, u64)], total: u64) -> String {
    let names: Vec<String> = runs
        .iter()
        .map(|(a, b)| {
            if a == b {
                a.to_string()
            } else {
                format!("{a}-{b}")
            }
        })
        .collect();
    let more = if runs.len() < RUNS_MAX { "" } else { " ..." };
    format!("{total} in all, {}{more}", names.join(" "))
}
