//! Directories made at once: dividing entries among blocks, and making the blocks.
//!
//! A directory that fits one block is a list. A larger one is a hash tree made from the bottom: entries sorted by hash, leaves that are not
//! full so that files can be added without a split, then as many nodes as the leaves need. Without `dir_index` it is a list of blocks.

use crate::{
    DIRENT_MIN, DxEntry, DxKind, DxViewMut, FileType, HashVersion, Ino, InodeSeed, Lblk, NameHash,
    dir_block_init, dir_block_init_dots, dir_checksum_set, dir_data_end, dir_insert, dirent_size,
    dx_checksum_set, dx_limit, dx_set_indirect_levels,
};
use std::fmt;
use std::ops::Range;

/// How full a hash tree's leaves and nodes are made.
const FILL_PERCENT: usize = 85;
/// Bytes of `.` and `..`.
const DOTS: usize = 2 * DIRENT_MIN;

/// What of the file system decides how directories look.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a feature")]
pub struct DirFormat {
    /// Bytes of a block.
    pub block_size: usize,
    /// Blocks end in a checksum.
    pub has_tail: bool,
    /// Large directories are hash trees.
    pub indexed: bool,
    /// Hash trees may have three levels.
    pub large: bool,
    /// Entries say the type of their file.
    pub filetype: bool,
    /// The hash of hash trees.
    pub version: HashVersion,
}

/// An entry that a directory is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewDirent<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its inode.
    pub ino: Ino,
    /// The inode's type.
    pub file_type: FileType,
}

/// An entry in hash order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Hashed {
    hash: NameHash,
    /// Index into the directory's entries.
    entry: u32,
}

/// How a directory of several blocks is divided.
#[derive(Clone, Debug)]
pub struct DirLayout {
    /// Entries by hash; `None` for a list of blocks, which keeps the order of names.
    hashed: Option<Vec<Hashed>>,
    /// Where each leaf starts in that order; one more than leaves, the last is the end.
    starts: Vec<u32>,
    /// Nodes right below the root of a tree of three levels.
    tops: u32,
    /// Nodes above the leaves, other than the root.
    nodes: u32,
    blocks: u32,
}

/// A hash tree would have more levels than it may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyNames;

impl DirLayout {
    /// True for a hash tree.
    pub fn is_hashed(&self) -> bool {
        self.hashed.is_some()
    }

    /// Blocks of the directory.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    fn leaves(&self) -> u32 {
        (self.starts.len() as u32).saturating_sub(1)
    }

    /// The entries of a leaf, in the order of the layout.
    fn entries(&self, leaf: u32) -> Range<usize> {
        let bound = |i: u32| self.starts.get(i as usize).map_or(0, |at| *at as usize);
        bound(leaf)..bound(leaf.saturating_add(1))
    }

    /// The lowest hash of a leaf, marked if the leaf before it has names of the same hash.
    fn leaf_hash(&self, leaf: u32) -> u32 {
        let start = self.entries(leaf).start;
        let order = self.hashed.as_deref().unwrap_or(&[]);
        let major = |i: usize| order.get(i).map(|h| h.hash.major);
        let first = major(start).unwrap_or(0);
        let before = start.checked_sub(1).and_then(major);
        first | u32::from(before == Some(first))
    }

    /// The leaves below a node.
    fn node_leaves(&self, node: u32) -> Range<u32> {
        share(self.leaves(), self.nodes, node)
    }

    /// The lowest hash below a node.
    fn node_hash(&self, node: u32) -> u32 {
        self.leaf_hash(self.node_leaves(node).start)
    }
}

/// The children of one of `parents` that share `children` evenly.
fn share(children: u32, parents: u32, parent: u32) -> Range<u32> {
    let bound = |n: u64| (n * u64::from(children) / u64::from(parents.max(1))) as u32;
    bound(parent.into())..bound(u64::from(parent) + 1)
}

impl DirFormat {
    /// Divides a directory of so many names, with their hashes; `Ok(None)` if one block is enough. A list of `list_blocks` or more is made if
    /// that is not 0.
    ///
    /// # Errors
    /// [`TooManyNames`].
    pub fn divide<'n>(
        &self,
        count: usize,
        name: &dyn Fn(usize) -> &'n [u8],
        hash: &dyn Fn(&[u8]) -> NameHash,
        list_blocks: u32,
    ) -> Result<Option<DirLayout>, TooManyNames> {
        let size = |i: usize| dirent_size(name(i).len());
        let end = dir_data_end(self.block_size, self.has_tail);
        let all: usize = (0..count).map(size).sum();
        if list_blocks == 0 && all + DOTS <= end {
            return Ok(None);
        }
        if list_blocks > 0 || !self.indexed {
            let starts = starts((0..count).map(size), DOTS, end);
            let blocks = (starts.len() as u32).saturating_sub(1).max(list_blocks);
            return Ok(Some(DirLayout {
                hashed: None,
                starts,
                tops: 0,
                nodes: 0,
                blocks,
            }));
        }
        let mut hashed: Vec<Hashed> = (0..count)
            .map(|i| Hashed {
                hash: hash(name(i)),
                entry: i as u32,
            })
            .collect();
        hashed.sort_unstable();
        let sizes = hashed.iter().map(|h| size(h.entry as usize));
        let starts = starts(sizes, 0, end * FILL_PERCENT / 100);
        let leaves = starts.len().saturating_sub(1);
        let (nodes, tops) = self.levels(leaves)?;
        Ok(Some(DirLayout {
            hashed: Some(hashed),
            starts,
            tops: tops as u32,
            nodes: nodes as u32,
            blocks: (1 + tops + nodes + leaves) as u32,
        }))
    }

    /// Nodes above the leaves, and above those.
    fn levels(&self, leaves: usize) -> Result<(usize, usize), TooManyNames> {
        let limit = |kind| usize::from(dx_limit(kind, self.block_size, self.has_tail));
        let (root, node) = (limit(DxKind::Root), limit(DxKind::Node));
        let node = (node * FILL_PERCENT / 100).max(1);
        let nodes = match leaves {
            n if n <= root => 0,
            n => n.div_ceil(node),
        };
        let tops = match nodes {
            n if n <= root => 0,
            n if self.large => n.div_ceil(node),
            _ => return Err(TooManyNames),
        };
        match tops > root {
            true => Err(TooManyNames),
            false => Ok((nodes, tops)),
        }
    }
}

/// Where blocks start when records of these sizes fill them up to `limit`; the first has `used` bytes gone.
fn starts(sizes: impl Iterator<Item = usize>, used: usize, limit: usize) -> Vec<u32> {
    let (mut starts, mut have, mut count) = (vec![0], used, 0);
    for need in sizes {
        if have + need > limit && have > 0 {
            starts.push(count);
            have = 0;
        }
        have += need;
        count += 1;
    }
    starts.push(count);
    starts
}

/// A directory whose blocks are to be made.
#[derive(Clone, Copy)]
pub struct DirBlocks<'a> {
    /// Format of the file system.
    pub format: &'a DirFormat,
    /// How it is divided; `None` for one block.
    pub layout: Option<&'a DirLayout>,
    /// Its inode.
    pub ino: Ino,
    /// Its parent's.
    pub parent: Ino,
    /// Where checksums start.
    pub seed: InodeSeed,
    /// Number of entries.
    pub count: usize,
    /// An entry by its number.
    pub entry: &'a dyn Fn(usize) -> NewDirent<'a>,
}

impl fmt::Debug for DirBlocks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DirBlocks({} of {})", self.count, self.ino)
    }
}

impl DirBlocks<'_> {
    /// Makes block `lblk` of the directory.
    pub fn make(&self, lblk: Lblk, block: &mut [u8]) {
        let at = lblk.0;
        let Some(layout) = self.layout else {
            self.first(block);
            self.fill(block, 0..self.count, DIRENT_MIN);
            return self.finish(block);
        };
        let above = 1 + layout.tops + layout.nodes;
        if !layout.is_hashed() {
            if at == 0 {
                self.first(block);
            } else {
                dir_block_init(block, self.format.has_tail);
            }
            self.fill(
                block,
                layout.entries(at),
                if at == 0 { DIRENT_MIN } else { 0 },
            );
            self.finish(block);
        } else if at == 0 {
            self.root(layout, block);
        } else if at <= layout.tops {
            self.top(layout, at - 1, block);
        } else if at < above {
            self.node(layout, at - 1 - layout.tops, block);
        } else {
            dir_block_init(block, self.format.has_tail);
            self.fill(block, layout.entries(at - above), 0);
            self.finish(block);
        }
    }

    fn first(&self, block: &mut [u8]) {
        let DirFormat {
            has_tail, filetype, ..
        } = *self.format;
        dir_block_init_dots(block, has_tail, self.ino, self.parent, filetype);
    }

    fn finish(&self, block: &mut [u8]) {
        if self.format.has_tail {
            dir_checksum_set(block, self.seed);
        }
    }

    /// Appends entries `range` of the layout's order.
    fn fill(&self, block: &mut [u8], range: Range<usize>, mut hint: usize) {
        let order = self.layout.and_then(|layout| layout.hashed.as_deref());
        let end = dir_data_end(block.len(), self.format.has_tail);
        for i in range {
            let nr = match order {
                Some(order) => order.get(i).map_or(i, |h| h.entry as usize),
                None => i,
            };
            let new = (self.entry)(nr);
            let kind = match self.format.filetype {
                true => new.file_type,
                false => FileType::Unknown,
            };
            // The block is our own, and the layout counted that the record fits.
            if let Ok(Some(done)) = dir_insert(block, end, new.name, new.ino, kind, hint) {
                hint = done.hint;
            }
        }
    }

    fn root(&self, layout: &DirLayout, block: &mut [u8]) {
        let DirFormat {
            has_tail: tail,
            filetype,
            version,
            ..
        } = *self.format;
        let first = Lblk(1);
        let mut root =
            DxViewMut::init_root(block, tail, self.ino, self.parent, filetype, version, first);
        if layout.nodes == 0 {
            insert_leaves(layout, &mut root, 0..layout.leaves());
        } else if layout.tops == 0 {
            insert_nodes(layout, &mut root, 0..layout.nodes);
            dx_set_indirect_levels(block, 1);
        } else {
            for top in 1..layout.tops {
                let hash = layout.node_hash(share(layout.nodes, layout.tops, top).start);
                let block = Lblk(1 + top);
                // The layout counted the nodes that fit.
                let _ = root.insert_at(top as usize, DxEntry { hash, block });
            }
            dx_set_indirect_levels(block, 2);
        }
        self.finish_dx(block, DxKind::Root);
    }

    fn top(&self, layout: &DirLayout, top: u32, block: &mut [u8]) {
        let nodes = share(layout.nodes, layout.tops, top);
        let first = Lblk(1 + layout.tops + nodes.start);
        let mut view = DxViewMut::init_node(block, self.format.has_tail, first);
        insert_nodes(layout, &mut view, nodes);
        self.finish_dx(block, DxKind::Node);
    }

    fn node(&self, layout: &DirLayout, node: u32, block: &mut [u8]) {
        let leaves = layout.node_leaves(node);
        let first = Lblk(1 + layout.tops + layout.nodes + leaves.start);
        let mut view = DxViewMut::init_node(block, self.format.has_tail, first);
        insert_leaves(layout, &mut view, leaves);
        self.finish_dx(block, DxKind::Node);
    }

    fn finish_dx(&self, block: &mut [u8], kind: DxKind) {
        if self.format.has_tail {
            dx_checksum_set(block, kind, self.seed);
        }
    }
}

/// Adds all nodes but the first, which the view was made with.
fn insert_nodes(layout: &DirLayout, view: &mut DxViewMut<'_>, nodes: Range<u32>) {
    for (i, node) in nodes.enumerate().skip(1) {
        let hash = layout.node_hash(node);
        let block = Lblk(1 + layout.tops + node);
        // The layout counted the nodes that fit.
        let _ = view.insert_at(i, DxEntry { hash, block });
    }
}

/// Adds all leaves but the first, which the view was made with.
fn insert_leaves(layout: &DirLayout, view: &mut DxViewMut<'_>, leaves: Range<u32>) {
    for (i, leaf) in leaves.enumerate().skip(1) {
        let hash = layout.leaf_hash(leaf);
        let block = Lblk(1 + layout.tops + layout.nodes + leaf);
        // The layout counted the leaves that fit.
        let _ = view.insert_at(i, DxEntry { hash, block });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_leave_no_gap() {
        let sizes = [10, 10, 10, 30, 5];
        assert_eq!(starts(sizes.into_iter(), 8, 30), [0, 2, 3, 4, 5]);
        assert_eq!(starts([].into_iter(), 24, 30), [0, 0]);
    }
}
