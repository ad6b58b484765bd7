//! Blocks that are claimed more than once: every file but the first gets a copy, and metadata is never given away.

use super::editor::Editor;
use super::map::{self, Map, NodePool};
use super::{kind, xattrs};
use crate::context::Context;
use crate::passes::Scanned;
use crate::prelude::*;
use crate::scan::{self, Mode};
use std::cmp::Reverse;
use std::collections::BTreeMap as Table;
use std::collections::hash_map::{Entry, HashMap};
use uext4_ondisk::{Extent, Inode, xattr_block_checksum_set};

/// The inodes that claim clusters in `wanted`, and the references to attribute blocks among those.
struct Owners {
    /// With how many of these clusters each claims.
    inodes: Table<Ino, usize>,
    xattr_refs: Vec<(Pblk, Ino)>,
}

fn owners(cx: &Context<'_>, wanted: &[u64]) -> Result<Owners> {
    let budget = AtomicU64::new(cx.geo.blocks_count.saturating_mul(4));
    let mode = Mode::Find {
        wanted,
        budget: &budget,
    };
    let mut found = Owners {
        inodes: Table::new(),
        xattr_refs: Vec::new(),
    };
    for worker in scan::run(cx, mode)? {
        for (_, ino) in &worker.owners {
            *found.inodes.entry(*ino).or_default() += 1;
        }
        let refs = worker.xattr_blocks.into_iter();
        found
            .xattr_refs
            .extend(refs.filter(|r| wanted.binary_search(&cx.cluster(r.0)).is_ok()));
    }
    Ok(found)
}

/// Byte of the doubly indirect pointer of the resize inode.
const DOUBLE_AT: usize = 13 * 4;

struct Cloner<'w> {
    wanted: &'w [u64],
    /// Clusters of `wanted` that have their owner: the inode, and the cluster of its file.
    taken: HashMap<u64, (Ino, u64)>,
}

/// A claim of a tree or of attributes, whose blocks are not in a cluster of a file.
const WHOLE: u64 = u64::MAX;

impl Cloner<'_> {
    /// True if the block stays with the claim at hand: of an inode, and a cluster of its file.
    fn keeps(&mut self, cx: &Context<'_>, at: Pblk, claim: (Ino, u64)) -> bool {
        let cluster = cx.cluster(at);
        if self.wanted.binary_search(&cluster).is_err() {
            return true;
        }
        if cx.is_metadata(cluster) {
            return false;
        }
        match self.taken.entry(cluster) {
            Entry::Vacant(free) => {
                free.insert(claim);
                true
            }
            // The other blocks of a cluster that the file has.
            Entry::Occupied(owner) => claim.1 != WHOLE && *owner.get() == claim,
        }
    }
}

/// Gives each claim but the first a copy, if it is known which blocks are free.
///
/// # Errors
/// The device's.
pub(crate) fn mend(ed: &mut Editor<'_, '_>, scanned: &Scanned, faults: &[Fault]) -> Result<()> {
    let shared = |f: &Fault| matches!(f.kind, FaultKind::BlockShared | FaultKind::BlockIsMetadata);
    if !faults.iter().any(shared) || !ed.may_allocate() {
        return Ok(());
    }
    let mut wanted = scanned.duplicates.clone();
    wanted.sort_unstable();
    wanted.dedup();
    let cx = ed.cx;
    let found = owners(cx, &wanted)?;
    let mut cloner = Cloner {
        wanted: &wanted,
        taken: HashMap::new(),
    };
    let mut inodes: Vec<(usize, Ino)> = found.inodes.iter().map(|(ino, n)| (*n, *ino)).collect();
    // The blocks of the file system's own files stay; then of the file that claims fewest, as the one that claims most
    // is most likely wrong, and there may not be enough space to copy everything.
    inodes.sort_by_key(|(n, ino)| (!cx.is_reserved(*ino), *n, Reverse(*ino)));
    for (_, ino) in &inodes {
        let Some(mut inode) = ed.decoded(*ino)? else {
            continue;
        };
        if *ino == Ino::RESIZE {
            let at = Pblk(le32(&inode.i_block, DOUBLE_AT).unwrap_or(0).into());
            cloner.keeps(cx, at, (*ino, WHOLE));
            continue;
        }
        if *ino == Ino::BAD_BLOCKS {
            keep_bad_blocks(ed, &mut cloner, &mut inode)?;
            continue;
        }
        if kind::is_mapped(&inode) && clone_map(ed, &mut cloner, *ino, &mut inode)? {
            ed.put_decoded(*ino, &inode)?;
        }
    }
    clone_xattr_blocks(ed, scanned, &mut cloner, &found.xattr_refs)
}

/// Bad blocks stay as they are, but for those that metadata has, which is in use and can't be moved.
fn keep_bad_blocks(
    ed: &mut Editor<'_, '_>,
    cloner: &mut Cloner<'_>,
    inode: &mut Inode,
) -> Result<()> {
    let found = map::read(ed, inode)?;
    let cx = ed.cx;
    let mut runs: Vec<Extent> = Vec::new();
    for (lblk, pblk) in found.blocks() {
        cloner.keeps(cx, pblk, (Ino::BAD_BLOCKS, WHOLE));
        if !cx.is_metadata(cx.cluster(pblk)) {
            runs.push(Extent {
                lblk,
                len: 1,
                unwritten: false,
                pblk,
            });
        }
    }
    if runs.len() < found.blocks().count() {
        let mut own = found.nodes.clone();
        own.reverse();
        let mut pool = NodePool::new(own);
        if map::write(ed, Ino::BAD_BLOCKS, inode, &Map::of(runs), &mut pool) {
            ed.put_decoded(Ino::BAD_BLOCKS, inode)?;
        }
    }
    Ok(())
}

/// Copies what an inode may not keep; false if it keeps everything, or there is not enough space.
fn clone_map(
    ed: &mut Editor<'_, '_>,
    cloner: &mut Cloner<'_>,
    ino: Ino,
    inode: &mut Inode,
) -> Result<bool> {
    let found = map::read(ed, inode)?;
    let cx = ed.cx;
    let mut own = found.nodes.clone();
    let mut again = found.names_metadata;
    for node in &found.shared_nodes {
        again |= !cloner.keeps(cx, *node, (ino, WHOLE));
    }
    let mut runs: Vec<Extent> = Vec::new();
    let ratio = u64::from(cx.geo.cluster_ratio);
    // The copy of the cluster at hand.
    let mut copy: Option<((u64, u64), Pblk)> = None;
    for e in &found.runs {
        for i in 0..e.len {
            let at = Pblk(e.pblk.0.saturating_add(i.into()));
            let mut one = Extent {
                lblk: Lblk(e.lblk.0.saturating_add(i.into())),
                len: 1,
                pblk: at,
                ..*e
            };
            let part = u64::from(one.lblk.0) / ratio;
            // A cluster of a file has one place in it, which an old claim may miss.
            let in_place = (at.0 ^ u64::from(one.lblk.0)) & (ratio - 1) == 0;
            if !in_place || !cloner.keeps(cx, at, (ino, part)) {
                again = true;
                // An unwritten block reads as zeros, with or without a block.
                let unneeded = e.unwritten && inode.file_type() == FileType::Regular;
                let of = (part, cx.cluster(at));
                let known = copy.filter(|(known, _)| *known == of).map(|c| c.1);
                let first = known.or_else(|| (!unneeded).then(|| ed.allocate()).flatten());
                let Some(first) = first else {
                    continue;
                };
                copy = Some((of, first));
                let to = Pblk(first.0.saturating_add(u64::from(one.lblk.0) % ratio));
                // As it was before this round, which may have written a node there.
                let mut block = vec![0; cx.block_size()];
                cx.view.read(at, &mut block)?;
                ed.put_block(to, &block);
                one.pblk = to;
            }
            match runs.last_mut() {
                Some(last) if last.can_merge(&one) => last.len += 1,
                _ => runs.push(one),
            }
        }
    }
    if !again {
        return Ok(false);
    }
    own.reverse();
    Ok(write_in_space(ed, ino, inode, runs, own))
}

/// Writes a map, without what reads as zeros or lies past the size where there is not enough space for a tree.
fn write_in_space(
    ed: &mut Editor<'_, '_>,
    ino: Ino,
    inode: &mut Inode,
    mut runs: Vec<Extent>,
    own: Vec<Pblk>,
) -> bool {
    let mut pool = NodePool::new(own.clone());
    if map::write(ed, ino, inode, &Map::of(runs.clone()), &mut pool) {
        return true;
    }
    if inode.file_type() == FileType::Regular {
        runs.retain(|e| !e.unwritten);
    }
    let mut pool = NodePool::new(own.clone());
    let mut new = Map::of(runs);
    if map::write(ed, ino, inode, &new, &mut pool) {
        return true;
    }
    new.truncate(inode.size.div_ceil(ed.cx.geo.block_size.into()));
    let mut pool = NodePool::new(own);
    map::write(ed, ino, inode, &new, &mut pool)
}

/// Attribute blocks that a file or metadata has: all inodes that name one get the same copy.
fn clone_xattr_blocks(
    ed: &mut Editor<'_, '_>,
    scanned: &Scanned,
    cloner: &mut Cloner<'_>,
    refs: &[(Pblk, Ino)],
) -> Result<()> {
    let mut by_block: Table<Pblk, Vec<Ino>> = Table::new();
    for (at, ino) in refs {
        by_block.entry(*at).or_default().push(*ino);
    }
    for (at, inodes) in by_block {
        let first = inodes.first().copied().unwrap_or(Ino::NONE);
        if cloner.keeps(ed.cx, at, (first, WHOLE)) {
            continue;
        }
        let Some(to) = ed.allocate() else {
            return Ok(());
        };
        let mut block = ed.block(at)?;
        if let Some(seed) = ed.cx.seed {
            xattr_block_checksum_set(&mut block, seed, to);
        }
        ed.put_block(to, &block);
        if XattrArea::in_block(&block).is_err() {
            xattrs::mend_block(ed, scanned, to)?;
        }
        for ino in inodes {
            if let Some(mut inode) = ed.decoded(ino)? {
                inode.file_acl = to;
                ed.put_decoded(ino, &inode)?;
            }
        }
    }
    Ok(())
}
