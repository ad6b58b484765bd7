//! The owners of blocks that were claimed more than once: a second scan, only made if there are any.

use crate::context::{Context, MetaRange};
use crate::layout::{INODE_TABLE, SUPER_OR_DESCS};
use crate::prelude::*;
use crate::scan::{self, Mode};
use crate::xattr_blocks;

/// Where mode and number of links are in an inode.
const MODE_AT: usize = 0;
const LINKS_AT: usize = 0x1a;
/// Owners named in a message.
const OWNERS_MAX: usize = 4;

/// Names the owners of the clusters in `wanted`.
///
/// # Errors
/// The device's.
pub(crate) fn report(cx: &Context<'_>, mut wanted: Vec<u64>, faults: &mut Faults) -> Result<()> {
    wanted.sort_unstable();
    wanted.dedup();
    let budget = AtomicU64::new(cx.geo.blocks_count.saturating_mul(4));
    let mode = Mode::Find {
        wanted: &wanted,
        budget: &budget,
    };
    let mut owners: Vec<(u64, Ino)> = Vec::new();
    let mut xattr_refs = Vec::new();
    for worker in scan::run(cx, mode)? {
        owners.extend(worker.owners);
        xattr_refs.extend(worker.xattr_blocks);
    }
    let blocks = xattr_blocks::distinct(xattr_refs);
    for worker in xattr_blocks::run(cx, &blocks, mode)? {
        owners.extend(worker.owners);
    }
    owners.sort_unstable();
    let mut runs: Vec<Run<'_>> = Vec::new();
    let mut rest = owners.as_slice();
    for cluster in &wanted {
        let n = rest.partition_point(|o| o.0 <= *cluster);
        let (mine, later) = rest.split_at(n.min(rest.len()));
        rest = later;
        match runs.last_mut() {
            Some(run) if run.continues(cx, *cluster, mine) => run.len += 1,
            _ => runs.push(Run {
                start: *cluster,
                len: 1,
                owners: mine,
            }),
        }
    }
    for run in runs {
        faults.push(run.fault(cx)?);
    }
    Ok(())
}

/// Clusters in a row with the same owners.
struct Run<'a> {
    start: u64,
    len: u64,
    owners: &'a [(u64, Ino)],
}

impl Run<'_> {
    fn continues(&self, cx: &Context<'_>, cluster: u64, owners: &[(u64, Ino)]) -> bool {
        self.start.saturating_add(self.len) == cluster
            && self
                .owners
                .iter()
                .map(|o| o.1)
                .eq(owners.iter().map(|o| o.1))
            && cx.is_metadata(self.start) == cx.is_metadata(cluster)
    }

    /// Whether files that have names may have their inodes in these blocks of an inode table.
    fn holds_inodes(&self, cx: &Context<'_>, table: MetaRange) -> Result<bool> {
        let size = usize::from(cx.geo.inode_size);
        let mut block = vec![0; cx.geo.block_size as usize];
        let first = u64::from(table.group.0) * u64::from(cx.geo.inodes_per_group);
        for cluster in self.start..self.start.saturating_add(self.len) {
            let at = cx.cluster_block(cluster);
            cx.view.read(at, &mut block)?;
            let before = at.0.saturating_sub(table.start) * (block.len() / size) as u64;
            let used = block.chunks_exact(size).zip(1u64..).any(|(raw, slot)| {
                let ino = Ino(u32::try_from(first + before + slot).unwrap_or(u32::MAX));
                let is_file = ino == Ino::ROOT || ino >= cx.geo.first_ino;
                let set = |at| le16(raw, at).is_some_and(|word| word != 0);
                is_file && set(MODE_AT) && set(LINKS_AT)
            });
            if used {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn fault(&self, cx: &Context<'_>) -> Result<Fault> {
        let at = cx.cluster_block(self.start);
        let names: Vec<String> = self
            .owners
            .iter()
            .take(OWNERS_MAX)
            .map(|o| o.1.to_string())
            .collect();
        let more = if self.owners.len() > OWNERS_MAX {
            " and more"
        } else {
            ""
        };
        let mut detail = format!(
            "{} blocks, claimed by inodes {}{more}",
            self.len,
            names.join(", ")
        );
        let kind = if cx.is_metadata(self.start) {
            if let Some(meta) = cx.metadata_at(at) {
                detail.push_str(&format!("; {} of group {}", meta.what, meta.group));
            }
            FaultKind::BlockIsMetadata
        } else {
            FaultKind::BlockShared
        };
        let fault = Fault::new(kind).pblk(at).detail(detail);
        // Metadata may lie on a bad block, but for the first copy of what everything hangs off, and inodes.
        let bad = self.owners.iter().all(|o| o.1 == Ino::BAD_BLOCKS);
        let meta = cx.metadata_at(at);
        let first = meta.is_some_and(|m| m.group.0 == 0 && m.what == SUPER_OR_DESCS);
        let table = meta.filter(|m| bad && m.what == INODE_TABLE);
        let inodes = table.map_or(Ok(false), |table| self.holds_inodes(cx, table))?;
        let fault = if bad && !first && !inodes && kind == FaultKind::BlockIsMetadata {
            fault.note()
        } else {
            fault
        };
        Ok(match self.owners.first() {
            Some(first) => fault.ino(first.1),
            None => fault,
        })
    }
}
