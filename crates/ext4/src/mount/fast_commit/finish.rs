//! Mappings and bitmaps, once all records are seen.

use crate::inode::reference::InodeRef;
use crate::mapping::extents::remove::Content;
use crate::mount::fast_commit::maps::FileMap;
use crate::mount::fast_commit::runs::Runs;
use crate::mount::fast_commit::{Replay, damage};
use crate::prelude::*;
use crate::run::Run;

impl Replay<'_> {
    /// Claims every block that a record gives to a file, so that nothing else is put there.
    pub(super) fn claim_all(&mut self, records: &[FastCommitRecord]) -> Result<()> {
        for record in records {
            let FastCommitRecord::AddRange { ino, extent } = record else {
                continue;
            };
            let geometry = self.fs.volume.geometry();
            if !geometry.contains_blocks(extent.pblk, u64::from(extent.len)) {
                return Err(Corrupt::new(CorruptKind::ExtentPblk)
                    .ino(*ino)
                    .pblk(extent.pblk)
                    .detail("in a fast commit")
                    .into());
            }
            let (before, claimed) = (&self.before, &mut self.claimed);
            let _ = self.handle.extend(8);
            self.fs
                .blocks
                .claim_this_run(self.handle, run_of(extent), &mut |run, was_used| {
                    let (from, to) = (run.pblk.0, run.pblk.0 + u64::from(run.len));
                    if !was_used {
                        claimed.insert(from, to);
                    } else if !known(before, claimed, from, to) {
                        return Err(Corrupt::new(CorruptKind::FastCommit)
                            .ino(*ino)
                            .pblk(run.pblk)
                            .detail("a fast commit maps a block that something else has")
                            .into());
                    }
                    Ok(())
                })?;
        }
        Ok(())
    }

    /// Brings mappings to disk, deletes what has no links, and frees unreferenced blocks.
    pub(super) fn finish(&mut self) -> Result<()> {
        let touched: Vec<Ino> = self.touched.iter().copied().collect();
        let mut alive = Vec::new();
        for ino in touched {
            let _ = self.handle.extend(32);
            let Some(inode) = self.inode(ino)? else {
                continue;
            };
            // Those on record are deleted when the mount deals with all of them.
            if inode.state().links > 0 || self.orphans.contains(&ino) {
                alive.push(ino);
                continue;
            }
            self.clear(&inode)?;
            if !inode.claim_deletion() {
                return Err(damage(ino, "still in use by the replay"));
            }
            self.fs
                .deletion
                .free_inode(self.handle, inode.inode(), Pblk(0))?;
        }
        for ino in &alive {
            self.trim(*ino)?;
            self.unmap(*ino)?;
        }
        let mut used = Runs::default();
        let ratio = u64::from(self.fs.volume.geometry().cluster_ratio);
        for ino in &alive {
            let Some(inode) = self.inode(*ino)? else {
                continue;
            };
            self.map(&inode)?;
            let mut last = None;
            for extent in self.extents(&inode)? {
                let (from, to) = self.whole_clusters(&extent);
                // Extents that follow each other may share a cluster.
                let first = u64::from(extent.lblk.0) / ratio;
                let rest = match last {
                    Some((cluster, end)) if cluster == first && end == from + ratio => end,
                    _ => from,
                };
                last = Some(((extent.end() - 1) / ratio, to));
                if !used.insert(rest, to) {
                    return Err(Corrupt::new(CorruptKind::FastCommit)
                        .ino(*ino)
                        .pblk(extent.pblk)
                        .detail("fast commits give a block to two files")
                        .into());
                }
            }
        }
        for (from, to) in self.claimed.minus(&used) {
            let _ = self.handle.extend(8);
            let len = u32::try_from(to - from).unwrap_or(u32::MAX);
            let pblk = Pblk(from);
            self.fs.blocks.free_run(self.handle, Run { pblk, len })?;
        }
        Ok(())
    }

    /// The blocks of the clusters that an extent touches: the first, and the one after the last.
    pub(super) fn whole_clusters(&self, extent: &Extent) -> (u64, u64) {
        let mask = u64::from(self.fs.volume.geometry().cluster_ratio) - 1;
        let to = extent.pblk.0 + u64::from(extent.len);
        (extent.pblk.0 & !mask, (to + mask) & !mask)
    }

    /// Unmaps data past the end of a file: its size may have been noted before what was cut off, or
    /// what was added before its size.
    fn trim(&mut self, ino: Ino) -> Result<()> {
        let Some(inode) = self
            .inode(ino)?
            .filter(|i| i.file_type == FileType::Regular)
        else {
            return Ok(());
        };
        let end = inode.size().div_ceil(self.fs.volume.block_size());
        let map = match self.maps.remove(&ino) {
            Some(map) => map,
            None => FileMap::new(self.extents(&inode)?),
        };
        self.maps.entry(ino).or_insert(map).trim(end);
        Ok(())
    }

    /// Takes away what the file does not map any more, or maps elsewhere.
    fn unmap(&self, ino: Ino) -> Result<()> {
        let Some(map) = self.maps.get(&ino) else {
            return Ok(());
        };
        let removed = map.change().removed;
        if removed.is_empty() {
            return Ok(());
        }
        let Some(inode) = self.inode(ino)? else {
            return Ok(());
        };
        let range = (removed.start, removed.end);
        self.fs
            .mapping
            .remove_blocks_within(self.handle, &inode, range, Content::Data)
    }

    /// Maps what the file maps besides.
    fn map(&self, inode: &InodeRef) -> Result<()> {
        let Some(map) = self.maps.get(&inode.ino) else {
            return Ok(());
        };
        for extent in map.change().added {
            let _ = self.handle.extend(24);
            // Those that moved were freed with what had them before.
            self.fs
                .blocks
                .claim_this_run(self.handle, run_of(extent), &mut |_, _| Ok(()))?;
            let mut locked = inode.map.write();
            let added = self.fs.mapping.own_clusters(inode, extent)?;
            self.fs
                .mapping
                .insert_extent(self.handle, inode, &mut locked, *extent, true)?;
            drop(locked);
            let sectors =
                added.map_or(0, |run| u64::from(run.len)) * (self.fs.volume.block_size() / 512);
            self.fs.table.update_inode(inode, self.handle, |disk| {
                disk.blocks = disk.blocks.saturating_add(sectors);
            })?;
        }
        Ok(())
    }
}

fn run_of(extent: &Extent) -> Run {
    Run {
        pblk: extent.pblk,
        len: u32::from(extent.len),
    }
}

/// Whether each block is of a file that records speak of, or was claimed for one.
fn known(before: &Runs, claimed: &Runs, from: u64, to: u64) -> bool {
    let mut at = from;
    while at < to {
        match before.end_of_run(at).or_else(|| claimed.end_of_run(at)) {
            Some(end) => at = end,
            None => return false,
        }
    }
    true
}
