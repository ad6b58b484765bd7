//! Writing a plan: files by all threads, then metadata, the superblock last.

use std::time::Instant;

use uext4_block::BlockDevice;
use uext4_ondisk::{
    GroupDesc, GroupNo, QuotaKind, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE,
};
use zerocopy::IntoBytes;

use crate::copy::Worker;
use crate::error::{MkfsError, Result};
use crate::group::{self, GroupWriter};
use crate::options::MkfsOptions;
use crate::parallel;
use crate::place::Item;
use crate::plan::Plan;
use crate::progress::{Progress, go_on};
use crate::report::MkfsReport;
use crate::source::Scan;
use crate::space::Run;
use crate::tree::Kind;
use crate::{verity, verity_files};

/// Blocks that a thread takes on at once.
const BATCH_BLOCKS: u32 = 1024;

/// Makes an image on a device: reads the tree if there is one to be read, plans, writes, flushes. Without
/// a size and a tree the image fills the device.
///
/// # Errors
/// Those of [`Scan::read`], [`Plan::new`] and [`Plan::write`].
pub fn mkfs(
    device: &dyn BlockDevice,
    options: &MkfsOptions,
    progress: &dyn Progress,
) -> Result<MkfsReport> {
    let start = Instant::now();
    let mut options = options.clone();
    let scan = Scan::of(&options, progress)?;
    if options.size.is_none() && scan.is_none() {
        options.size = Some(device.len());
    }
    let mut report = Plan::new(&options, scan)?.write(device, progress)?;
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

impl Plan {
    /// Writes the image and flushes the device. What was on the device is gone.
    ///
    /// # Crash
    /// The superblock is written last: before that, there is no file system.
    ///
    /// # Errors
    /// [`MkfsError::DeviceTooSmall`], [`MkfsError::Device`], [`MkfsError::Tree`].
    pub fn write(&self, device: &dyn BlockDevice, progress: &dyn Progress) -> Result<MkfsReport> {
        let start = Instant::now();
        let (have, need) = (device.len(), self.device_bytes());
        if have < need {
            return Err(MkfsError::DeviceTooSmall { have, need });
        }
        device.discard(0, need)?;
        let mut report = self.count();
        self.write_items(device, progress, &mut report)?;
        report.fsverity = verity_files::write(self, device, progress)?;
        self.write_blocks(device)?;
        progress.phase("metadata", u64::from(self.layout.geo().groups_count));
        let descs = self.write_groups(device, progress)?;
        self.allocate(device)?;
        self.write_supers(device, &descs)?;
        if let Some(options) = &self.verity {
            let (bytes, uuid) = (self.image_bytes(), self.id.uuid);
            let tree = verity::append(device, bytes, uuid, options, self.threads, progress)?;
            report.verity = Some(tree);
        }
        progress.phase("flush", 0);
        device.flush()?;
        report.warnings.sort();
        report.seconds = start.elapsed().as_secs_f64();
        Ok(report)
    }

    /// Gives the journal its space on the host, or all of the image.
    fn allocate(&self, device: &dyn BlockDevice) -> Result<()> {
        if self.preallocate {
            return Ok(device.allocate(0, self.image_bytes())?);
        }
        for run in &self.system.journal {
            device.allocate(self.offset(run.start), self.offset(run.len))?;
        }
        Ok(())
    }

    fn count(&self) -> MkfsReport {
        let mut report = MkfsReport {
            hard_links: self.tree.hard_links,
            data_bytes: self.needs.data_bytes,
            image_bytes: self.image_bytes(),
            warnings: self.tree.warnings.clone(),
            ..MkfsReport::default()
        };
        for node in &self.tree.nodes {
            let count = match node.kind {
                Kind::Directory(_) => &mut report.directories,
                Kind::Regular(_) => &mut report.files,
                Kind::Symlink(_) => &mut report.symlinks,
                Kind::Device(_) | Kind::Other => &mut report.others,
            };
            *count += 1;
        }
        report
    }

    fn offset(&self, block: u64) -> u64 {
        block * u64::from(self.format.block_size)
    }

    fn write_items(
        &self,
        device: &dyn BlockDevice,
        progress: &dyn Progress,
        report: &mut MkfsReport,
    ) -> Result<()> {
        let batches = batches(&self.places.items);
        let blocks: u64 = self.places.items.iter().map(|i| u64::from(i.len)).sum();
        progress.phase("data", self.offset(blocks));
        let make = || Worker::new(self, &self.format.dir, device);
        let warnings = parallel::run(self.threads, batches.len(), make, |worker, i| {
            let batch = &batches[i];
            let warnings = worker.write(batch)?;
            let blocks = batch.iter().map(|i| u64::from(i.len)).sum();
            go_on(progress, self.offset(blocks))?;
            Ok(warnings)
        })?;
        report.warnings.extend(warnings.into_iter().flatten());
        Ok(())
    }

    /// Blocks of extent trees and of the system's files.
    fn write_blocks(&self, device: &dyn BlockDevice) -> Result<()> {
        let blocks = self.places.tree_blocks.iter().chain(&self.system.blocks);
        let mut writes: Vec<(u64, &[u8])> = blocks
            .map(|(at, bytes)| (self.offset(at.0), bytes.as_slice()))
            .collect();
        writes.sort_unstable_by_key(|(at, _)| *at);
        device.write_batch(&writes)?;
        self.zero(device, &self.system.zeros)
    }

    fn write_groups(
        &self,
        device: &dyn BlockDevice,
        progress: &dyn Progress,
    ) -> Result<Vec<GroupDesc>> {
        let groups = self.layout.geo().groups_count as usize;
        let make = || GroupWriter::new(self, device);
        let written = parallel::run(self.threads, groups, make, |writer, g| {
            let written = writer.write(GroupNo(g as u32))?;
            go_on(progress, 1)?;
            Ok(written)
        })?;
        let zeros: Vec<Run> = written.iter().filter_map(|w| w.zeros).collect();
        self.zero(device, &zeros)?;
        Ok(written.into_iter().map(|w| w.desc).collect())
    }

    /// Makes runs read as zeros; neighbours in the list that touch become one call.
    fn zero(&self, device: &dyn BlockDevice, runs: &[Run]) -> Result<()> {
        let mut merged: Vec<Run> = Vec::new();
        for run in runs {
            match merged.last_mut() {
                Some(last) if last.start + last.len == run.start => last.len += run.len,
                _ => merged.push(*run),
            }
        }
        for run in merged {
            device.zero(self.offset(run.start), self.offset(run.len))?;
        }
        Ok(())
    }

    /// The descriptors of a group: all of them with a superblock, or with `meta_bg` one block of those of
    /// its neighbours.
    fn descs_of<'t>(&self, g: GroupNo, table: &'t [u8]) -> &'t [u8] {
        let geo = self.layout.geo();
        if geo.gdt_blocks(g) == 0 {
            return &[];
        }
        if !geo.meta_bg {
            return table;
        }
        let block_size = geo.block_size as usize;
        let mut blocks = table.chunks_exact(block_size);
        blocks
            .nth((g.0 / geo.desc_per_block) as usize)
            .unwrap_or(&[])
    }

    /// Descriptors and backups, then the primary superblock.
    fn write_supers(&self, device: &dyn BlockDevice, descs: &[GroupDesc]) -> Result<()> {
        let geo = self.layout.geo();
        let table = group::encode_descs(self, descs);
        let raw = self.superblock();
        for g in (0..geo.groups_count).rev().map(GroupNo) {
            let has_super = geo.has_super(g);
            // With blocks of 1 KiB in clusters, the first group begins with one in front of the superblock.
            let first = match g.0 {
                0 if geo.block_size == 1024 => SUPERBLOCK_OFFSET,
                _ => self.offset(geo.group_first_block(g).0),
            };
            let descs = self.descs_of(g, &table);
            let after = u64::from(has_super) * u64::from(geo.block_size);
            if !descs.is_empty() {
                device.write_at(first + after, descs)?;
            }
            if !has_super {
                continue;
            }
            let mut raw = raw.clone();
            raw.block_group_nr = (g.0 as u16).into();
            raw.update_checksum();
            if g.0 > 0 {
                let mut block = vec![0; geo.block_size as usize];
                block[..SUPERBLOCK_SIZE].copy_from_slice(raw.as_bytes());
                device.write_at(first, &block)?;
                continue;
            }
            // Whatever was in front of the superblock must not be taken for something else.
            let end = first.max(SUPERBLOCK_OFFSET) + u64::from(geo.block_size);
            let end = end.min(first + u64::from(geo.block_size));
            let mut block = vec![0; end as usize];
            let at = SUPERBLOCK_OFFSET as usize;
            block[at..at + SUPERBLOCK_SIZE].copy_from_slice(raw.as_bytes());
            device.write_at(0, &block)?;
        }
        Ok(())
    }

    /// The superblock that the image gets, but for its checksum.
    pub fn superblock(&self) -> RawSuperblock {
        let mut raw = self.layout.sb.raw.clone();
        raw.set_free_blocks_count(self.space.free());
        let free = self.layout.geo().inodes_count - self.last_ino().0;
        raw.free_inodes_count = free.into();
        let cluster = u64::from(self.layout.geo().cluster_ratio);
        let journal = u64::from(self.layout.journal_blocks).div_ceil(cluster);
        let overhead = self.layout.overhead / cluster + journal;
        raw.overhead_clusters = (overhead as u32).into();
        let find = |ino| self.system.inodes.iter().find(|(i, _)| *i == ino);
        if let Some((_, inode)) = find(uext4_ondisk::Ino::JOURNAL) {
            raw.jnl_backup_type = 1;
            let words = inode.i_block.as_chunks().0;
            for (to, from) in raw.jnl_blocks.iter_mut().zip(words) {
                *to = u32::from_le_bytes(*from).into();
            }
            raw.jnl_blocks[15] = ((inode.size >> 32) as u32).into();
            raw.jnl_blocks[16] = (inode.size as u32).into();
        }
        for (kind, ino) in &self.system.quota_inodes {
            let field = match kind {
                QuotaKind::User => &mut raw.usr_quota_inum,
                QuotaKind::Group => &mut raw.grp_quota_inum,
                QuotaKind::Project => &mut raw.prj_quota_inum,
            };
            *field = ino.0.into();
        }
        raw.mmp_block = self.system.mmp_block.0.into();
        if self.layout.orphan_blocks > 0 {
            raw.orphan_file_inum = 12.into();
        }
        raw
    }
}

/// Divides items into what a thread takes on at once.
fn batches(items: &[Item]) -> Vec<&[Item]> {
    let mut batches = Vec::new();
    let (mut start, mut blocks) = (0, 0);
    for (i, item) in items.iter().enumerate() {
        blocks += item.len;
        if blocks >= BATCH_BLOCKS {
            batches.push(&items[start..=i]);
            (start, blocks) = (i + 1, 0);
        }
    }
    batches.push(&items[start..]);
    batches
}
