//! Directories: dividing entries among blocks, and making the blocks.
//!
//! A directory that fits one block is a list. A larger one is a hash tree made from the bottom: entries
//! sorted by hash, leaves filled to [`FILL_PERCENT`] so that files can be added without a split, then as
//! many nodes as the leaves need. Without `dir_index`, and for `lost+found`, it is a list of blocks.

use uext4_ondisk::{
    DxEntry, DxKind, DxViewMut, FileType, HashParams, Ino, InodeSeed, Lblk, NameHash,
    dir_block_init, dir_block_init_dots, dir_checksum_set, dir_data_end, dir_insert, dirent_size,
    dx_checksum_set, dx_limit, dx_set_indirect_levels,
};

use crate::tree::{NodeId, Tree};

/// How full a hash tree's leaves and nodes are made.
const FILL_PERCENT: usize = 85;
/// Bytes of `.` and `..`.
const DOTS: usize = 24;

/// What of the file system decides how directories look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirFormat {
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
    /// How names are hashed.
    pub hash: HashParams,
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
pub(crate) struct DirPlan {
    /// Entries by hash; `None` for a list of blocks, which keeps the order of names.
    hashed: Option<Vec<Hashed>>,
    /// Where each leaf starts in that order; one more than leaves, the last is the end.
    starts: Vec<u32>,
    /// Nodes right below the root of a tree of three levels.
    tops: u32,
    /// Nodes above the leaves, other than the root.
    nodes: u32,
    /// Blocks of the directory.
    pub blocks: u32,
}

impl DirPlan {
    /// True for a hash tree.
    pub fn is_hashed(&self) -> bool {
        self.hashed.is_some()
    }

    fn leaves(&self) -> u32 {
        self.starts.len() as u32 - 1
    }
}

/// Divides a directory; `Ok(None)` if one block is enough. A list of `list_blocks` or more is made if
/// that is not 0.
///
/// # Errors
/// `Err(())` if a hash tree would be too deep.
pub(crate) fn divide(
    format: &DirFormat,
    tree: &Tree,
    dir: NodeId,
    list_blocks: u32,
) -> Result<Option<DirPlan>, ()> {
    let entries = tree.entries_of(dir);
    let size = |i: usize| dirent_size(tree.bytes(entries[i].name).len());
    let end = dir_data_end(format.block_size, format.has_tail);
    let all: usize = (0..entries.len()).map(size).sum();
    if list_blocks == 0 && all + DOTS <= end {
        return Ok(None);
    }
    if list_blocks > 0 || !format.indexed {
        let starts = starts(entries.len(), size, DOTS, end);
        let blocks = (starts.len() as u32 - 1).max(list_blocks);
        return Ok(Some(DirPlan {
            hashed: None,
            starts,
            tops: 0,
            nodes: 0,
            blocks,
        }));
    }
    let mut hashed: Vec<Hashed> = (0..entries.len())
        .map(|i| Hashed {
            hash: format.hash.hash_default(tree.bytes(entries[i].name)),
            entry: i as u32,
        })
        .collect();
    hashed.sort_unstable();
    let fill = end * FILL_PERCENT / 100;
    let starts = starts(hashed.len(), |i| size(hashed[i].entry as usize), 0, fill);
    let leaves = starts.len() - 1;
    let root_limit = usize::from(dx_limit(DxKind::Root, format.block_size, format.has_tail));
    let nodes = if leaves <= root_limit {
        0
    } else {
        leaves.div_ceil(node_fill(format))
    };
    let tops = match nodes {
        n if n <= root_limit => 0,
        n if format.large => n.div_ceil(node_fill(format)),
        _ => return Err(()),
    };
    if tops > root_limit {
        return Err(());
    }
    Ok(Some(DirPlan {
        hashed: Some(hashed),
        starts,
        tops: tops as u32,
        nodes: nodes as u32,
        blocks: (1 + tops + nodes + leaves) as u32,
    }))
}

/// Leaves that a node is given.
fn node_fill(format: &DirFormat) -> usize {
    let limit = usize::from(dx_limit(DxKind::Node, format.block_size, format.has_tail));
    limit * FILL_PERCENT / 100
}

/// Where blocks start when `count` records fill them up to `limit`; the first has `used` bytes gone.
fn starts(count: usize, size: impl Fn(usize) -> usize, used: usize, limit: usize) -> Vec<u32> {
    let (mut starts, mut have) = (vec![0], used);
    for i in 0..count {
        let need = size(i);
        if have + need > limit && have > 0 {
            starts.push(i as u32);
            have = 0;
        }
        have += need;
    }
    starts.push(count as u32);
    starts
}

/// A directory whose blocks are to be made.
#[derive(Clone, Copy)]
pub(crate) struct DirBlocks<'a> {
    /// Format of the file system.
    pub format: &'a DirFormat,
    /// The tree.
    pub tree: &'a Tree,
    /// The directory.
    pub dir: NodeId,
    /// Its plan; `None` for one block.
    pub plan: Option<&'a DirPlan>,
    /// Its inode, its parent's, and where checksums start.
    pub ino: Ino,
    /// The parent's inode.
    pub parent: Ino,
    /// Where checksums start.
    pub seed: InodeSeed,
    /// Inodes of all nodes.
    pub inos: &'a [Ino],
}

impl DirBlocks<'_> {
    /// Makes block `lblk` of the directory.
    pub fn make(&self, lblk: Lblk, block: &mut [u8]) {
        let at = lblk.0;
        match self.plan {
            None => {
                self.init_first(block);
                self.fill(block, 0..self.tree.entries_of(self.dir).len(), DOTS - 12);
                self.finish(block);
            }
            Some(plan) if plan.is_hashed() => {
                if at == 0 {
                    self.root(plan, block);
                } else if at <= plan.tops {
                    self.top(plan, at - 1, block);
                } else if at <= plan.tops + plan.nodes {
                    self.node(plan, at - 1 - plan.tops, block);
                } else {
                    dir_block_init(block, self.format.has_tail);
                    self.leaf(plan, at - 1 - plan.tops - plan.nodes, block, 0);
                }
            }
            Some(plan) => {
                let hint = if at == 0 {
                    self.init_first(block);
                    DOTS - 12
                } else {
                    dir_block_init(block, self.format.has_tail);
                    0
                };
                self.leaf(plan, at, block, hint);
            }
        }
    }

    fn init_first(&self, block: &mut [u8]) {
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

    fn leaf(&self, plan: &DirPlan, leaf: u32, block: &mut [u8], hint: usize) {
        let starts = plan.starts.get(leaf as usize..leaf as usize + 2);
        if let Some(&[start, end]) = starts {
            self.fill(block, start as usize..end as usize, hint);
        }
        self.finish(block);
    }

    /// Appends entries `range` of the plan's order.
    fn fill(&self, block: &mut [u8], range: std::ops::Range<usize>, mut hint: usize) {
        let entries = self.tree.entries_of(self.dir);
        let order = self.plan.and_then(|p| p.hashed.as_ref());
        let end = dir_data_end(self.format.block_size, self.format.has_tail);
        for i in range {
            let entry = &entries[order.map_or(i, |o| o[i].entry as usize)];
            let name = self.tree.bytes(entry.name);
            let kind = match self.format.filetype {
                true => self.tree.node(entry.node).file_type(),
                false => FileType::Unknown,
            };
            let ino = self.inos[entry.node.at()];
            // The block is our own, and the plan counted that the record fits.
            if let Ok(Some(done)) = dir_insert(block, end, name, ino, kind, hint) {
                hint = done.hint;
            }
        }
    }

    /// The lowest hash of a leaf, marked if the leaf before it has names of the same hash.
    fn leaf_hash(&self, plan: &DirPlan, leaf: u32) -> u32 {
        let Some(order) = plan.hashed.as_ref() else {
            return 0;
        };
        let start = plan.starts[leaf as usize] as usize;
        let major = |i: usize| order.get(i).map(|h| h.hash.major);
        let first = major(start).unwrap_or(0);
        let continues = start > 0 && major(start - 1) == Some(first);
        first | u32::from(continues)
    }

    /// The children of one of `parents` that share `children` evenly.
    fn share(children: u32, parents: u32, parent: u32) -> std::ops::Range<u32> {
        let bound = |n: u32| (u64::from(n) * u64::from(children) / u64::from(parents)) as u32;
        bound(parent)..bound(parent + 1)
    }

    /// The leaves below a node.
    fn node_leaves(&self, plan: &DirPlan, node: u32) -> std::ops::Range<u32> {
        Self::share(plan.leaves(), plan.nodes, node)
    }

    /// The lowest hash below a node.
    fn node_hash(&self, plan: &DirPlan, node: u32) -> u32 {
        self.leaf_hash(plan, self.node_leaves(plan, node).start)
    }

    fn root(&self, plan: &DirPlan, block: &mut [u8]) {
        let DirFormat {
            has_tail: tail,
            filetype,
            ..
        } = *self.format;
        let version = self.format.hash.version;
        let first = Lblk(1);
        let mut root =
            DxViewMut::init_root(block, tail, self.ino, self.parent, filetype, version, first);
        if plan.nodes == 0 {
            self.insert_leaves(plan, &mut root, 0..plan.leaves());
        } else if plan.tops == 0 {
            self.insert_nodes(plan, &mut root, 0..plan.nodes);
            dx_set_indirect_levels(block, 1);
        } else {
            for top in 1..plan.tops {
                let hash = self.node_hash(plan, Self::share(plan.nodes, plan.tops, top).start);
                let block = Lblk(1 + top);
                // The plan counted the nodes that fit.
                let _ = root.insert_at(top as usize, DxEntry { hash, block });
            }
            dx_set_indirect_levels(block, 2);
        }
        self.finish_dx(block, DxKind::Root);
    }

    fn top(&self, plan: &DirPlan, top: u32, block: &mut [u8]) {
        let nodes = Self::share(plan.nodes, plan.tops, top);
        let first = Lblk(1 + plan.tops + nodes.start);
        let mut view = DxViewMut::init_node(block, self.format.has_tail, first);
        self.insert_nodes(plan, &mut view, nodes);
        self.finish_dx(block, DxKind::Node);
    }

    fn node(&self, plan: &DirPlan, node: u32, block: &mut [u8]) {
        let leaves = self.node_leaves(plan, node);
        let first = Lblk(1 + plan.tops + plan.nodes + leaves.start);
        let mut view = DxViewMut::init_node(block, self.format.has_tail, first);
        self.insert_leaves(plan, &mut view, leaves);
        self.finish_dx(block, DxKind::Node);
    }

    /// Adds all nodes but the first, which the view was made with.
    fn insert_nodes(&self, plan: &DirPlan, view: &mut DxViewMut<'_>, nodes: std::ops::Range<u32>) {
        for (i, node) in nodes.enumerate().skip(1) {
            let hash = self.node_hash(plan, node);
            let block = Lblk(1 + plan.tops + node);
            // The plan counted the nodes that fit.
            let _ = view.insert_at(i, DxEntry { hash, block });
        }
    }

    fn insert_leaves(
        &self,
        plan: &DirPlan,
        view: &mut DxViewMut<'_>,
        leaves: std::ops::Range<u32>,
    ) {
        for (i, leaf) in leaves.enumerate().skip(1) {
            let hash = self.leaf_hash(plan, leaf);
            let block = Lblk(1 + plan.tops + plan.nodes + leaf);
            // The plan counted the leaves that fit.
            let _ = view.insert_at(i, DxEntry { hash, block });
        }
    }

    fn finish_dx(&self, block: &mut [u8], kind: DxKind) {
        if self.format.has_tail {
            dx_checksum_set(block, kind, self.seed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_leave_no_gap() {
        let sizes = [10, 10, 10, 30, 5];
        let got = starts(5, |i| sizes[i], 8, 30);
        assert_eq!(got, [0, 2, 3, 4, 5]);
        assert_eq!(starts(0, |_| 0, 24, 30), [0, 0]);
    }
}
