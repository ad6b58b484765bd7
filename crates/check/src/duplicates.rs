//! Who owns blocks that were claimed more than once: a second scan, only made if there are any.

use crate::context::Context;
use crate::error::Result;
use crate::fault::{Fault, FaultKind, Faults};
use crate::layout::SUPER_OR_DESCS;
use crate::scan::{self, Mode};
use crate::xattr_blocks;
use uext4_ondisk::Ino;
use uext4_sync::atomic::AtomicU64;

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
        faults.push(run.fault(cx));
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

    fn fault(&self, cx: &Context<'_>) -> Fault {
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
        // Metadata may lie on a bad block, but for the first copy of what everything hangs off.
        let bad = self.owners.iter().all(|o| o.1 == Ino::BAD_BLOCKS);
        let meta = cx.metadata_at(at);
        let first = meta.is_some_and(|m| m.group.0 == 0 && m.what == SUPER_OR_DESCS);
        let fault = if bad && !first && kind == FaultKind::BlockIsMetadata {
            fault.note()
        } else {
            fault
        };
        match self.owners.first() {
            Some(first) => fault.ino(first.1),
            None => fault,
        }
    }
}
