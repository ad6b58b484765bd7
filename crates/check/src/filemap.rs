//! The blocks of a file that the check itself reads: the journal, the orphan file.
//!
//! Faults in the map are not named here; the scan of the inode does that.

use crate::prelude::*;
use crate::view::View;
use uext4_ondisk::{ExtentCheck, ExtentNode, Inode};

/// Tree blocks that a file may have at most; enough for any journal.
const NODES_MAX: u32 = 1 << 16;
/// Runs that a file may have at most.
const RUNS_MAX: usize = 1 << 20;

/// Consecutive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) lblk: u32,
    pub(crate) len: u32,
    pub(crate) pblk: u64,
}

/// The block at which a block of the file lies.
pub(crate) fn find(runs: &[Run], lblk: Lblk) -> Option<Pblk> {
    let i = runs.partition_point(|r| r.lblk <= lblk.0).checked_sub(1)?;
    let run = runs.get(i)?;
    let rel = lblk.0.checked_sub(run.lblk).filter(|rel| *rel < run.len)?;
    Some(Pblk(run.pblk.saturating_add(u64::from(rel))))
}

struct Loader<'a, 'd> {
    view: &'a View<'d>,
    geo: &'a Geometry,
    runs: Vec<Run>,
    nodes_left: u32,
    damaged: bool,
}

/// The blocks of a file in order, up to the first damage; the flag reports damage.
///
/// # Errors
/// The device's.
pub(crate) fn load(view: &View<'_>, geo: &Geometry, inode: &Inode) -> Result<(Vec<Run>, bool)> {
    let mut l = Loader {
        view,
        geo,
        runs: Vec::new(),
        nodes_left: NODES_MAX,
        damaged: false,
    };
    if inode.flags.contains(InodeFlags::EXTENTS) {
        let root = ExtentCheck::root(geo.block_bounds());
        l.extents(&inode.i_block, &root)?;
    } else {
        l.block_map(&inode.i_block)?;
    }
    Ok((l.runs, l.damaged))
}

impl Loader<'_, '_> {
    fn node(&mut self, at: Pblk) -> Result<Option<Vec<u8>>> {
        if self.nodes_left == 0 || !self.geo.block_bounds().contains(at, 1) {
            self.damaged = true;
            return Ok(None);
        }
        self.nodes_left -= 1;
        let mut buf = vec![0; self.geo.block_size as usize];
        self.view.read(at, &mut buf)?;
        Ok(Some(buf))
    }

    fn push(&mut self, run: Run) {
        if let Some(last) = self.runs.last_mut() {
            let end = u64::from(last.lblk) + u64::from(last.len);
            if end > u64::from(run.lblk) {
                self.damaged = true;
                return;
            }
            let joined = last.len.checked_add(run.len);
            if end == u64::from(run.lblk)
                && last.pblk.saturating_add(u64::from(last.len)) == run.pblk
                && let Some(len) = joined
            {
                last.len = len;
                return;
            }
        }
        if self.runs.len() >= RUNS_MAX {
            self.damaged = true;
            return;
        }
        self.runs.push(run);
    }

    fn extents(&mut self, node: &[u8], check: &ExtentCheck) -> Result<()> {
        let Ok(view) = ExtentNode::validate(node, check) else {
            self.damaged = true;
            return Ok(());
        };
        if view.depth() == 0 {
            for e in view.extents() {
                self.push(Run {
                    lblk: e.lblk.0,
                    len: u32::from(e.len),
                    pblk: e.pblk.0,
                });
            }
            return Ok(());
        }
        for (i, idx) in view.indexes().enumerate() {
            let (Some(block), Some(check)) = (self.node(idx.child)?, view.child_check(i, check))
            else {
                return Ok(());
            };
            self.extents(&block, &check)?;
        }
        Ok(())
    }

    fn block_map(&mut self, i_block: &[u8; 60]) -> Result<()> {
        let mut lblk = 0u64;
        for i in 0..15usize {
            let level = i.saturating_sub(11) as u32;
            let p = le32(i_block, i * 4).unwrap_or(0);
            self.pointer(p, level, &mut lblk)?;
        }
        Ok(())
    }

    fn pointer(&mut self, p: u32, level: u32, lblk: &mut u64) -> Result<()> {
        let per_block = u64::from(self.geo.block_size / 4);
        let Ok(at) = u32::try_from(*lblk) else {
            return Ok(());
        };
        if p == 0 || level == 0 {
            if p != 0 {
                self.push(Run {
                    lblk: at,
                    len: 1,
                    pblk: u64::from(p),
                });
            }
            *lblk = lblk.saturating_add(per_block.saturating_pow(level));
            return Ok(());
        }
        let Some(block) = self.node(Pblk(u64::from(p)))? else {
            return Ok(());
        };
        for entry in block.as_chunks::<4>().0 {
            self.pointer(u32::from_le_bytes(*entry), level - 1, lblk)?;
        }
        Ok(())
    }
}
