//! The extent tree: which blocks of a file are where on disk.
//!
//! # Data model
//! The root is the 60 bytes of `i_block`; below it are blocks of index entries and, at depth 0, of
//! extents. Nodes are validated and their checksum checked once, when they are loaded.
//!
//! # Invariants
//! Inner nodes are never empty. The first entry of a node is not below the key its parent has for it.
//! Every change leaves a tree that is right by itself.
//!
//! # Locking
//! The inode's `map` lock: shared to look up, alone to change. Nodes are buffers, parent before child.
//!
//! | module | holds |
//! | --- | --- |
//! | `clusters` | clusters that blocks of a file share |
//! | `insert` | adding extents, splitting nodes |
//! | `convert` | extents that become written or unwritten |
//! | `remove` | taking extents away and freeing what they hold |
//! | `shift` | moving extents along the file |
//! | `snapshot` | the mapping as it was a moment ago, to look up without a lock |
//! | `reseed` | nodes that become another inode's, or another generation's |

pub(crate) mod clusters;
pub(crate) mod convert;
pub(crate) mod insert;
pub(crate) mod remove;
mod reseed;
pub(crate) mod shift;
#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;

use crate::inode::Inode;
use crate::kinds;
use crate::mapping::{Mapped, Mapping};
use crate::prelude::*;
use crate::run::RunLookup;
use crate::volume::fixed_blocks::FixedBlocks;
use uext4_ondisk::ExtentCheck;

/// One level of a path from the root: the node, and the position in it.
#[derive(Debug)]
struct Step {
    /// None for the root.
    buffer: Option<Arc<Buffer>>,
    /// The entry that covers the block, or the last one before it; None if all are after it.
    at: Option<usize>,
}

/// The root and the way down to the leaf that has, or would have, a block.
#[derive(Debug)]
struct Path {
    root: [u8; 60],
    steps: Vec<Step>,
}

impl Path {
    /// Runs `f` on the node at `level`, 0 being the root.
    fn with_node<R>(&self, level: usize, f: impl FnOnce(ExtentNode<'_>) -> R) -> R {
        match self.steps.get(level).and_then(|s| s.buffer.as_ref()) {
            Some(buffer) => f(ExtentNode::new(buffer.read().data())),
            None => f(ExtentNode::new(&self.root)),
        }
    }

    fn leaf_level(&self) -> usize {
        self.steps.len().saturating_sub(1)
    }

    /// The position in the leaf.
    fn leaf_at(&self) -> Option<usize> {
        self.steps.last().and_then(|s| s.at)
    }

    /// The position in the leaf of the extent that the caller found there.
    ///
    /// # Errors
    /// Damage: there is none.
    fn extent_at(&self) -> Result<usize> {
        let none = || Corrupt::new(CorruptKind::ExtentOrder).detail("the leaf is empty");
        Ok(self.leaf_at().ok_or_else(none)?)
    }

    /// The extent that covers the block, or the last one before it in its leaf.
    fn extent(&self) -> Option<Extent> {
        let at = self.leaf_at()?;
        self.with_node(self.leaf_level(), |node| node.extent(at))
    }

    /// The first file block after `lblk` that a later entry of the path may map.
    fn next_start(&self) -> u64 {
        for level in (0..self.steps.len()).rev() {
            let after = self
                .steps
                .get(level)
                .and_then(|s| s.at)
                .map_or(0, |at| at + 1);
            if let Some(next) = self.with_node(level, |node| node.lblk(after)) {
                return u64::from(next.0);
            }
        }
        1 << 32
    }
}

/// What it takes to load nodes of one inode's tree.
#[derive(Clone, Copy, Debug)]
struct Loader<'a> {
    cache: &'a BufferCache,
    bounds: BlockBounds,
    /// None without checksums.
    seed: Option<InodeSeed>,
    ino: Ino,
    /// What no extent may name, where it is known.
    fixed: Option<&'a FixedBlocks>,
}

impl Loader<'_> {
    /// What the buffers of its nodes keep.
    fn role(&self) -> (u8, u32) {
        (kinds::EXTENT_NODE, self.seed.map_or(0, |seed| seed.0))
    }

    /// Refuses a node that names blocks of no file.
    fn check_fixed(&self, node: &ExtentNode<'_>) -> uext4_ondisk::Result<()> {
        let Some(fixed) = self.fixed else {
            return Ok(());
        };
        let refuse = |pblk: Pblk, len: u64| match fixed.overlaps(pblk, len) {
            true => Err(Corrupt::new(CorruptKind::ExtentFixed).detail(pblk)),
            false => Ok(()),
        };
        match node.depth() {
            0 => node
                .extents()
                .try_for_each(|e| refuse(e.pblk, u64::from(e.len))),
            _ => node.indexes().try_for_each(|idx| refuse(idx.child, 1)),
        }
    }

    /// A node, which is where its parent says: it was checked when it was read, and what its parent says of it is
    /// checked each time.
    fn load(&self, pblk: Pblk, check: &ExtentCheck) -> Result<Arc<Buffer>> {
        let place = |e: Corrupt| e.ino(self.ino).pblk(pblk);
        let buffer = self
            .cache
            .get_verified(pblk.0, self.role(), |data| -> Result<()> {
                if let Some(seed) = self.seed {
                    uext4_ondisk::extent_block_checksum_verify(data, seed).map_err(place)?;
                }
                let node = ExtentNode::validate(data, check).map_err(place)?;
                self.check_fixed(&node).map_err(place)?;
                Ok(())
            })
            .map_err(|e| e.of_inode(self.ino))?;
        ExtentNode::validate_place(buffer.read().data(), check).map_err(place)?;
        Ok(buffer)
    }

    /// Calls `f` for every node and extent that reaches past `from`, in order, until it says that it has enough.
    fn walk(
        &self,
        root: &[u8; 60],
        from: u64,
        f: &mut dyn FnMut(Mapped) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let check = ExtentCheck::root(self.bounds);
        let node = ExtentNode::validate(root, &check).map_err(|e| e.ino(self.ino))?;
        walk_node(self, node, &check, from, f)
    }

    /// What `lblk` is, as far as nodes are in memory and not being changed.
    fn find_nowait(&self, root: &[u8; 60], lblk: Lblk) -> Result<Option<RunLookup>> {
        let check = ExtentCheck::root(self.bounds);
        let node = ExtentNode::validate(root, &check).map_err(|e| e.ino(self.ino))?;
        let (mut found, mut next_start) = look_in(node, lblk, 1 << 32);
        for depth in (0..node.depth()).rev() {
            let Look::Child(child) = found else { break };
            let Some(buffer) = self.cache.peek(child.0) else {
                return Ok(None);
            };
            let Some(content) = buffer.try_read() else {
                return Ok(None);
            };
            let (kind, seed) = self.role();
            let node = ExtentNode::new(content.data());
            // Anything else is for the look-up that may wait, which reports it.
            if !buffer.is_verified() || !buffer.has_role(kind, seed) || node.depth() != depth {
                return Ok(None);
            }
            (found, next_start) = look_in(node, lblk, next_start);
        }
        Ok(match found {
            Look::Extent(extent) => extent.map(lblk).map(|pblk| RunLookup {
                pblk: Some(pblk),
                unwritten: extent.unwritten,
                len: (extent.end() - u64::from(lblk.0)) as u32,
            }),
            Look::Hole => Some(RunLookup {
                pblk: None,
                unwritten: false,
                len: u32::try_from(next_start - u64::from(lblk.0)).unwrap_or(u32::MAX),
            }),
            Look::Child(_) => None,
        })
    }

    /// The path to `lblk`.
    fn path(&self, root: [u8; 60], lblk: Lblk) -> Result<Path> {
        let mut check = ExtentCheck::root(self.bounds);
        let mut depth = ExtentNode::validate(&root, &check)
            .map_err(|e| e.ino(self.ino))?
            .depth();
        let mut path = Path {
            root,
            steps: Vec::with_capacity(usize::from(depth) + 1),
        };
        let mut buffer: Option<Arc<Buffer>> = None;
        loop {
            let level = path.steps.len();
            path.steps.push(Step {
                buffer: buffer.take(),
                at: None,
            });
            let found = path.with_node(level, |node| {
                let at = node.find(lblk);
                if depth == 0 {
                    return (at, None);
                }
                // A block below the first key belongs to the first child.
                let at = at.unwrap_or(0);
                let child = node.idx(at).zip(node.child_check(at, &check));
                (Some(at), child)
            });
            if let Some(step) = path.steps.last_mut() {
                step.at = found.0;
            }
            if depth == 0 {
                return Ok(path);
            }
            let Some((idx, child_check)) = found.1 else {
                return Err(Corrupt::new(CorruptKind::ExtentEmptyIndex)
                    .ino(self.ino)
                    .into());
            };
            check = child_check;
            buffer = Some(self.load(idx.child, &check)?);
            depth -= 1;
        }
    }
}

/// What a node says of a block.
enum Look {
    /// It is in this child.
    Child(Pblk),
    /// This extent covers it.
    Extent(Extent),
    Hole,
}

/// What `node` says of `lblk`, and where the next thing begins that it or its parents know of.
fn look_in(node: ExtentNode<'_>, lblk: Lblk, next_start: u64) -> (Look, u64) {
    let at = node.find(lblk);
    let after = node.lblk(at.map_or(0, |at| at + 1));
    let next_start = after.map_or(next_start, |after| u64::from(after.0).min(next_start));
    if node.depth() > 0 {
        let child = node.idx(at.unwrap_or(0)).map(|idx| Look::Child(idx.child));
        return (child.unwrap_or(Look::Hole), next_start);
    }
    let extent = at
        .and_then(|at| node.extent(at))
        .filter(|e| e.contains(lblk));
    (extent.map_or(Look::Hole, Look::Extent), next_start)
}

/// Calls `f` for every extent of a tree, in order.
///
/// # Errors
/// Damage, naming the inode, or the device's.
pub fn walk(
    cache: &BufferCache,
    root: &[u8; 60],
    bounds: BlockBounds,
    seed: Option<InodeSeed>,
    ino: Ino,
    f: &mut dyn FnMut(Extent),
) -> Result<()> {
    let loader = Loader {
        cache,
        bounds,
        seed,
        ino,
        fixed: None,
    };
    let mut all = |mapped| {
        if let Mapped::Run(extent) = mapped {
            f(extent);
        }
        ControlFlow::Continue(())
    };
    loader.walk(root, 0, &mut all).map(|_| ())
}

fn walk_node(
    loader: &Loader<'_>,
    node: ExtentNode<'_>,
    check: &ExtentCheck,
    from: u64,
    f: &mut dyn FnMut(Mapped) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    if node.depth() == 0 {
        let mut extents = node.extents().filter(|e| e.end() > from);
        return Ok(extents.try_for_each(|e| f(Mapped::Run(e))));
    }
    for (i, idx) in node.indexes().enumerate() {
        let Some(child_check) = node.child_check(i, check) else {
            break;
        };
        if child_check.lblk_end <= from {
            continue;
        }
        if f(Mapped::Node(idx.child)).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let buffer = loader.load(idx.child, &child_check)?;
        let content = buffer.read();
        let node = ExtentNode::new(content.data());
        if walk_node(loader, node, &child_check, from, f)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

impl Mapping {
    fn loader(&self, inode: &Inode) -> Loader<'_> {
        Loader {
            cache: self.volume.cache(),
            bounds: self.volume.geometry().block_bounds(),
            seed: self.volume.seed().map(|_| inode.seed()),
            ino: inode.ino,
            fixed: Some(self.volume.fixed()),
        }
    }

    /// Refuses an inode that maps blocks of no file. What else is wrong with its mapping is reported where it is used;
    /// blocks in nodes below are checked when those are read.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn check_extent_root(&self, inode: &Inode) -> Result<()> {
        let loader = self.loader(inode);
        let root = inode.state().i_block;
        match ExtentNode::validate(&root, &ExtentCheck::root(loader.bounds)) {
            Ok(node) => Ok(loader.check_fixed(&node).map_err(|e| e.ino(inode.ino))?),
            Err(_) => Ok(()),
        }
    }

    /// The path to a block. The caller holds the inode's `map` lock.
    fn path(&self, inode: &Inode, lblk: Lblk) -> Result<Path> {
        let root = inode.state().i_block;
        self.loader(inode).path(root, lblk)
    }

    /// What `lblk` is in the tree below `root`, as far as it is in memory and not being changed.
    pub(crate) fn find_extent_nowait(
        &self,
        inode: &Inode,
        root: &[u8; 60],
        lblk: Lblk,
    ) -> Result<Option<RunLookup>> {
        self.loader(inode).find_nowait(root, lblk)
    }

    /// Whether no extent continues from the block before `at` to `at`.
    pub(crate) fn has_boundary(&self, inode: &Inode, at: u64) -> Result<bool> {
        let Ok(lblk) = u32::try_from(at).map(Lblk) else {
            return Ok(true);
        };
        let _map = inode.map.read();
        let extent = self.path(inode, lblk)?.extent();
        Ok(extent.is_none_or(|e| e.lblk >= lblk || !e.contains(lblk)))
    }

    /// Where a new block of a file should go: where it would be if all that the tree has beside it went on.
    pub(crate) fn goal_in_tree(&self, inode: &Inode, root: [u8; 60], lblk: Lblk) -> Result<Pblk> {
        let path = self.loader(inode).path(root, lblk)?;
        let after = path.leaf_at().map_or(0, |at| at + 1);
        let near = path
            .extent()
            .or_else(|| path.with_node(path.leaf_level(), |node| node.extent(after)));
        let goal = near.map(|e| {
            let distance = i64::from(lblk.0) - i64::from(e.lblk.0);
            Pblk(e.pblk.0.saturating_add_signed(distance))
        });
        Ok(goal
            .filter(|p| self.volume.geometry().check_block(*p).is_ok())
            .unwrap_or_else(|| self.blocks.goal_of(inode.ino)))
    }

    /// What `lblk` is in the tree below `root`. The caller holds the inode's `map` lock.
    pub(crate) fn find_extent(
        &self,
        inode: &Inode,
        root: [u8; 60],
        lblk: Lblk,
    ) -> Result<RunLookup> {
        let path = self.loader(inode).path(root, lblk)?;
        if let Some(extent) = path.extent()
            && let Some(pblk) = extent.map(lblk)
        {
            return Ok(RunLookup {
                pblk: Some(pblk),
                unwritten: extent.unwritten,
                len: (extent.end() - u64::from(lblk.0)) as u32,
            });
        }
        let len = path.next_start() - u64::from(lblk.0);
        Ok(RunLookup {
            pblk: None,
            unwritten: false,
            len: u32::try_from(len).unwrap_or(u32::MAX),
        })
    }

    /// Calls `each` for every node and extent below `root` that reaches past block `from`, in order, until it says
    /// that it has enough. The caller holds the inode's `map` lock.
    pub(crate) fn walk_extents(
        &self,
        inode: &Inode,
        root: &[u8; 60],
        from: u64,
        each: &mut dyn FnMut(Mapped) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        self.loader(inode).walk(root, from, each)
    }
}
