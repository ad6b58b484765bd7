//! Hash trees: every block in the tree once, each at its level, with hashes in its range.

use crate::context::Context;
use crate::dirs::{Dir, Dirs, SPAN_EMPTY, SPAN_NODE, SPAN_UNREAD};
use crate::names;
use crate::parallel;
use crate::prelude::*;
use uext4_ondisk::{Corrupt, DxKind, DxRootInfo, DxView};

/// Directories that a worker takes at once.
const BATCH: usize = 16;

/// Reads the root of every hashed directory, for the version of its hash.
///
/// # Errors
/// The device's.
pub(crate) fn load_roots(cx: &Context<'_>, dirs: &mut Dirs, faults: &mut Faults) -> Result<()> {
    let indexed: Vec<usize> = (0..dirs.dirs.len())
        .filter(|i| dirs.dirs.get(*i).is_some_and(|d| d.indexed && !d.inline))
        .collect();
    let table = &*dirs;
    let make = || {
        (
            Vec::new(),
            Faults::new(cx.faults_max),
            vec![0; cx.block_size()],
        )
    };
    let workers = parallel::run(cx.threads, indexed.len().div_ceil(BATCH), make, |w, i| {
        let (roots, faults, block) = w;
        for at in indexed.chunks(BATCH).nth(i).unwrap_or(&[]) {
            let Some(dir) = table.dirs.get(*at) else {
                continue;
            };
            let first = table.blocks_of(dir).first().filter(|b| b.lblk == Lblk(0));
            let Some(first) = first.map(|b| b.pblk) else {
                continue;
            };
            cx.view.read(first, block)?;
            match read_root(cx, block) {
                Ok(info) => roots.push((*at, (info.hash_version, info.indirect_levels))),
                Err(e) => faults.push(e.ino(dir.ino).pblk(first)),
            }
        }
        Ok(())
    })?;
    let mut parts = Vec::new();
    for (roots, faults, _) in workers {
        parts.push(faults);
        for (at, tree) in roots {
            if let Some(dir) = dirs.dirs.get_mut(at) {
                dir.tree = Some(tree);
            }
        }
    }
    faults.absorb(parts);
    Ok(())
}

fn read_root(cx: &Context<'_>, block: &[u8]) -> uext4_ondisk::Result<DxRootInfo> {
    let info = DxRootInfo::read(block, cx.incompat(Incompat::LARGE_DIR))?;
    let keyed = info.hash_version == HashVersion::SipHash;
    // The unsigned versions exist in memory only, and the keyed one is for names without case.
    let stored = matches!(
        info.hash_version,
        HashVersion::Legacy | HashVersion::HalfMd4 | HashVersion::Tea
    );
    if !(stored || keyed && cx.incompat(Incompat::CASEFOLD)) {
        let kind = uext4_ondisk::CorruptKind::DxRootHash;
        return Err(Corrupt::new(kind).detail(info.hash_version as u8));
    }
    Ok(info)
}

/// Checks every hash tree.
///
/// # Errors
/// The device's.
pub(crate) fn run(cx: &Context<'_>, dirs: &Dirs, faults: &mut Faults) -> Result<()> {
    let trees: Vec<&Dir> = dirs.dirs.iter().filter(|d| d.tree.is_some()).collect();
    cx.progress.phase("hash trees", trees.len() as u64);
    let workers = parallel::run(
        cx.threads,
        trees.len(),
        || Faults::new(cx.faults_max),
        |faults, i| {
            cx.progress.advance(1);
            trees
                .get(i)
                .map_or(Ok(()), |dir| check(cx, dirs, dir, faults))
        },
    )?;
    faults.absorb(workers);
    Ok(())
}

struct Tree<'a, 'd> {
    cx: &'a Context<'d>,
    dirs: &'a Dirs,
    dir: &'a Dir,
    faults: &'a mut Faults,
    /// Which blocks the tree names, counted from the directory's first.
    seen: Vec<bool>,
    /// Highest hash and block of the leaf before.
    prev: Option<(u32, Pblk)>,
    /// Leaves that names of one hash may continue in.
    continued: Vec<(Pblk, Pblk)>,
}

/// The hashes a block may hold: from `lo` to below `hi`, or to `hi` if that has its lowest bit set.
#[derive(Clone, Copy)]
struct Range {
    lo: u32,
    hi: Option<u32>,
}

fn check(cx: &Context<'_>, dirs: &Dirs, dir: &Dir, faults: &mut Faults) -> Result<()> {
    let (Some((_, levels)), Some(root)) = (dir.tree, dirs.find_block(dir, Lblk(0))) else {
        return Ok(());
    };
    let mut tree = Tree {
        cx,
        dirs,
        dir,
        faults,
        seen: vec![false; dir.len],
        prev: None,
        continued: Vec::new(),
    };
    if let Some(seen) = tree.seen.first_mut() {
        *seen = true;
    }
    tree.node(root, DxKind::Root, levels, Range { lo: 0, hi: None })?;
    for (i, seen) in tree.seen.iter().enumerate() {
        let Some(block) = dirs.blocks_of(dir).get(i).filter(|_| !seen) else {
            continue;
        };
        let fault = Fault::new(FaultKind::HtreeUnreferenced)
            .ino(dir.ino)
            .pblk(block.pblk);
        tree.faults
            .push(fault.detail(format_args!("file block {}", block.lblk)));
    }
    let pairs = std::mem::take(&mut tree.continued);
    for (a, b) in pairs {
        names::check_across(cx, dir, &[a, b], faults)?;
    }
    Ok(())
}

impl Tree<'_, '_> {
    fn fault(&mut self, kind: FaultKind, at: Pblk, detail: impl std::fmt::Display) {
        let fault = Fault::new(kind).ino(self.dir.ino).pblk(at);
        self.faults.push(fault.detail(detail));
    }

    fn node(&mut self, i: usize, kind: DxKind, levels: u8, range: Range) -> Result<()> {
        let Some(at) = self.dirs.blocks.get(i).map(|b| b.pblk) else {
            return Ok(());
        };
        let mut block = vec![0; self.cx.block_size()];
        self.cx.view.read(at, &mut block)?;
        let has_tail = self.cx.seed.is_some();
        let view = match DxView::validate(&block, kind, has_tail, self.dir.size_blocks) {
            Ok(view) => view,
            Err(e) => {
                self.faults.push(e.ino(self.dir.ino).pblk(at));
                return Ok(());
            }
        };
        for (n, e) in view.entries().enumerate() {
            let child = Range {
                lo: if n == 0 { range.lo } else { e.hash & !1 },
                hi: view.entry(n + 1).map(|next| next.hash).or(range.hi),
            };
            self.child(e.block, at, levels, child)?;
        }
        Ok(())
    }

    fn child(&mut self, lblk: Lblk, parent: Pblk, levels: u8, range: Range) -> Result<()> {
        // A hole is a fault of the directory's map.
        let Some(i) = self.dirs.find_block(self.dir, lblk) else {
            return Ok(());
        };
        let again = self
            .seen
            .get_mut(i - self.dir.first)
            .is_none_or(|s| std::mem::replace(s, true));
        if again {
            let detail = format!("file block {lblk}");
            self.fault(FaultKind::HtreeReferencedTwice, parent, detail);
            return Ok(());
        }
        let at = self.dirs.blocks.get(i).map_or(parent, |b| b.pblk);
        let is_node = self.dirs.span(i) == SPAN_NODE;
        if is_node != (levels > 0) {
            self.fault(FaultKind::HtreeKind, at, format_args!("file block {lblk}"));
            return Ok(());
        }
        match levels.checked_sub(1) {
            Some(below) => self.node(i, DxKind::Node, below, range),
            None => {
                self.leaf(i, at, range);
                Ok(())
            }
        }
    }

    fn leaf(&mut self, i: usize, at: Pblk, range: Range) {
        let span @ (min, max) = self.dirs.span(i);
        if span == SPAN_EMPTY || span == SPAN_UNREAD || !self.dir.has_plain_hashes() {
            return;
        }
        let above = range
            .hi
            .is_some_and(|hi| max > hi & !1 || (max == hi & !1 && hi & 1 == 0));
        if min < range.lo || above {
            let hi = range.hi.map_or("end".to_owned(), |hi| format!("{hi:#x}"));
            let detail = format!("{min:#x} to {max:#x}, may hold {:#x} to {hi}", range.lo);
            self.fault(FaultKind::HtreeRange, at, detail);
        }
        if let Some((_, before)) = self.prev.filter(|p| p.0 == min) {
            self.continued.push((before, at));
        }
        self.prev = Some((max, at));
    }
}
