//! The blocks of a file, as runs, and of the tree that leads to them.

use super::editor::Editor;
use crate::prelude::*;
use std::collections::HashSet;
use uext4_ondisk::Extent;

/// Runs of blocks in order, disjoint in the file, and the blocks of the tree that leads to them.
#[derive(Default)]
pub(crate) struct Map {
    pub(crate) runs: Vec<Extent>,
    pub(crate) nodes: Vec<Pblk>,
    /// Nodes that others claim too. What lies below them may be of others, so it is not among `nodes`.
    pub(crate) shared_nodes: Vec<Pblk>,
    /// A node would lie in fixed metadata; nothing below it was read.
    pub(crate) names_metadata: bool,
    /// Shared nodes above the one at hand.
    doubtful: u32,
    /// Nodes that were seen, as a tree may lead into itself.
    seen: HashSet<Pblk>,
    /// The file block that the next run starts at or after.
    next: u64,
    /// Runs of nodes, to be put in order.
    unsorted: Vec<Extent>,
}

/// The part of a run that lies in the file system and in what a file may have.
fn clip(mut e: Extent, geo: &Geometry) -> Option<Extent> {
    if !geo.block_bounds().contains(e.pblk, 1) || e.lblk > Lblk::MAX || e.len == 0 {
        return None;
    }
    let room = geo.blocks_count.saturating_sub(e.pblk.0);
    let left = u64::from(Lblk::MAX.0) + 1 - u64::from(e.lblk.0);
    e.len = u64::from(e.len).min(room).min(left) as u16;
    Some(e)
}

impl Map {
    /// Of runs that are in order.
    pub(crate) fn of(runs: Vec<Extent>) -> Self {
        Map {
            runs,
            ..Map::default()
        }
    }

    /// Takes a node; false if it was seen before, or can't be one.
    pub(crate) fn enter(&mut self, ed: &Editor<'_, '_>, node: Pblk) -> bool {
        if ed.cx.is_metadata(ed.cx.cluster(node)) {
            self.names_metadata = true;
            return false;
        }
        if !self.seen.insert(node) {
            return false;
        }
        if ed.is_shared(node) {
            self.shared_nodes.push(node);
            self.doubtful += 1;
        } else if self.doubtful == 0 {
            self.nodes.push(node);
        }
        true
    }

    /// Ends what [`Map::enter`] began.
    pub(crate) fn leave(&mut self, ed: &Editor<'_, '_>, node: Pblk) {
        if ed.is_shared(node) {
            self.doubtful = self.doubtful.saturating_sub(1);
        }
    }

    /// Adds what is sound of a run: what lies in the file system, and after the runs before.
    pub(crate) fn push(&mut self, mut e: Extent, geo: &Geometry) {
        let skip = self.next.saturating_sub(e.lblk.0.into());
        if skip >= u64::from(e.len) {
            return;
        }
        // Less than the length, which has 16 bits.
        e.lblk.0 = e.lblk.0.saturating_add(skip as u32);
        e.pblk.0 = e.pblk.0.saturating_add(skip);
        e.len -= skip as u16;
        let Some(e) = clip(e, geo) else {
            return;
        };
        self.next = e.end();
        match self.runs.last_mut() {
            Some(last) if last.can_merge(&e) => last.len += e.len,
            _ => self.runs.push(e),
        }
    }

    /// Adds the runs of a node, which may be out of order. `end` is where the next node starts: an entry past it that
    /// lower ones follow has a wrong number.
    pub(crate) fn push_node(&mut self, entries: &[Extent], end: u64, geo: &Geometry) {
        for (i, e) in entries.iter().enumerate() {
            let later = entries.get(i + 1..).unwrap_or(&[]);
            let stray = u64::from(e.lblk.0) >= end && later.iter().any(|l| l.lblk < e.lblk);
            self.unsorted.extend(clip(*e, geo).filter(|_| !stray));
        }
    }

    /// Puts the runs of all nodes in order.
    pub(crate) fn sort(&mut self, geo: &Geometry) {
        let mut all = std::mem::take(&mut self.unsorted);
        all.sort_by_key(|e| e.lblk);
        for (i, e) in all.iter().enumerate() {
            let mut e = *e;
            // One that reaches into the next is too long.
            if let Some(next) = all.get(i + 1).filter(|next| next.lblk > e.lblk) {
                e.len = u32::from(e.len).min(next.lblk.0 - e.lblk.0) as u16;
            }
            self.push(e, geo);
        }
    }

    /// Cuts what lies at or past a file block.
    pub(crate) fn truncate(&mut self, end: u64) {
        self.runs.retain(|e| u64::from(e.lblk.0) < end);
        if let Some(last) = self.runs.last_mut() {
            let room = end.saturating_sub(last.lblk.0.into());
            last.len = u64::from(last.len).min(room) as u16;
        }
    }

    /// File blocks up to the end of the last run.
    pub(crate) fn end(&self) -> u64 {
        self.runs.last().map_or(0, Extent::end)
    }

    /// The device block of a file block.
    pub(crate) fn find(&self, lblk: Lblk) -> Option<Pblk> {
        self.runs.iter().find_map(|e| e.map(lblk))
    }

    /// Every block, with its number in the file.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (Lblk, Pblk)> {
        self.runs.iter().flat_map(|e| {
            (0..u32::from(e.len)).map(|i| {
                let lblk = Lblk(e.lblk.0.saturating_add(i));
                (lblk, Pblk(e.pblk.0.saturating_add(i.into())))
            })
        })
    }
}

/// Where nodes of a tree go: blocks that the inode had for it, then free ones, once it is known which are free.
pub(crate) struct NodePool {
    own: Vec<Pblk>,
    may_allocate: bool,
}

impl NodePool {
    /// Blocks that the inode had, then free ones.
    pub(crate) fn new(own: Vec<Pblk>) -> Self {
        NodePool {
            own,
            may_allocate: true,
        }
    }

    /// Blocks that the inode had.
    pub(crate) fn only(own: Vec<Pblk>) -> Self {
        NodePool {
            own,
            may_allocate: false,
        }
    }

    pub(crate) fn take(&mut self, ed: &mut Editor<'_, '_>) -> Option<Pblk> {
        let own = self.own.pop();
        own.or_else(|| self.may_allocate.then(|| ed.allocate()).flatten())
    }
}
