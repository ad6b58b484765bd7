//! Giving places to everything of a tree: inode numbers and blocks, in one pass in a fixed order.
//!
//! A directory precedes what is in it, its files before its directories, so that what belongs
//! together lies together. Blocks are taken from the front of the free space, which makes nearly all
//! files one extent and the whole image one sequential write.

use std::collections::HashMap;
use uext4_ondisk::{
    CRC_INIT, CsumSeed, DirLayout, Extent, Generation, Ino, InodeSeed, Pblk, RoCompat, crc32c,
};

use crate::error::{MkfsError, Result};
use crate::extents::{self, Root};
use crate::layout::Layout;
use crate::mapping::Mapping;
use crate::measure::{self, Needs, Piece};
use crate::space::{Run, Space};
use crate::tree::{Kind, NodeId, Tree};

/// Blocks of a file that are copied at once at most.
const ITEM_BLOCKS_MAX: u64 = 256;

/// What blocks are filled with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Data of a regular file.
    Data,
    /// Blocks of a directory.
    Directory,
    /// Target of a symbolic link.
    Symlink,
    /// Extended attributes.
    Xattrs,
}

/// Blocks to be filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// First block on disk.
    pub pblk: Pblk,
    /// First block in the file.
    pub lblk: u32,
    /// Number of blocks.
    pub len: u32,
    /// Whose.
    pub node: NodeId,
    /// With what.
    pub content: Content,
}

/// Places of an inode.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// Its first extent.
    pub first_extent: u32,
    /// The number of its extents.
    pub extents: u32,
    /// Blocks in all, those that name others and attributes too.
    pub blocks: u64,
    /// Block of its attributes, or 0.
    pub xattr_block: Pblk,
}

/// Places of a whole tree.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Inode numbers of nodes.
    pub inos: Vec<Ino>,
    /// Nodes in the order of their inode numbers, from `first` on.
    pub order: Vec<NodeId>,
    /// The inode of the first node in `order`.
    pub first: Ino,
    /// Places of nodes.
    pub places: Vec<Place>,
    /// Extents of all nodes.
    pub extents: Vec<Extent>,
    /// Roots of what names blocks, where that has blocks of its own.
    pub roots: HashMap<NodeId, Root>,
    /// Those blocks.
    pub tree_blocks: Vec<(Pblk, Vec<u8>)>,
    /// What to write.
    pub items: Vec<Item>,
}

/// The generation of an inode, which follows from the UUID so that images can be reproduced.
pub(crate) fn generation(uuid: &[u8; 16], ino: Ino) -> Generation {
    Generation(crc32c(crc32c(CRC_INIT, uuid), &ino.0.to_le_bytes()))
}

/// Where the checksums of an inode's blocks start; `None` without checksums.
pub(crate) fn inode_seed(layout: &Layout, ino: Ino) -> Option<InodeSeed> {
    let seed: CsumSeed = layout.sb.csum_seed;
    let generation = generation(&layout.sb.raw.uuid, ino);
    layout
        .sb
        .ro_compat
        .contains(RoCompat::METADATA_CSUM)
        .then(|| seed.inode(ino, generation))
}

/// The directories in the order of places.
fn directory_order(tree: &Tree) -> Vec<NodeId> {
    let (mut order, mut stack) = (Vec::new(), vec![NodeId::ROOT]);
    while let Some(dir) = stack.pop() {
        order.push(dir);
        let below = tree.entries_of(dir).iter().rev().map(|e| e.node);
        stack.extend(below.filter(|n| tree.node(*n).is_dir()));
    }
    order
}

/// Gives places.
pub(crate) struct Placer<'a> {
    tree: &'a Tree,
    needs: &'a Needs,
    layout: &'a Layout,
    block_size: u32,
    space: &'a mut Space,
    /// The last cluster that data got: of a node, its first block in the file, and on disk.
    last_cluster: Option<(NodeId, u64, u64)>,
    out: Places,
}

impl<'a> Placer<'a> {
    /// Gives places to a tree: `lost_and_found` has inode 11, others inodes from `first` on.
    ///
    /// # Errors
    /// [`MkfsError::NoSpace`], [`MkfsError::NoInodes`].
    pub fn run(
        tree: &'a Tree,
        needs: &'a Needs,
        layout: &'a Layout,
        space: &'a mut Space,
        lost_and_found: NodeId,
        first: Ino,
    ) -> Result<Places> {
        let mut placer = Placer {
            tree,
            needs,
            layout,
            block_size: layout.geo().block_size,
            space,
            last_cluster: None,
            out: Places {
                inos: vec![Ino::NONE; tree.nodes.len()],
                order: Vec::with_capacity(tree.nodes.len()),
                first,
                places: vec![Place::default(); tree.nodes.len()],
                extents: Vec::with_capacity(tree.nodes.len()),
                roots: HashMap::new(),
                tree_blocks: Vec::new(),
                items: Vec::with_capacity(tree.nodes.len()),
            },
        };
        placer.out.inos[NodeId::ROOT.at()] = Ino::ROOT;
        placer.out.inos[lost_and_found.at()] = Ino::GOOD_OLD_FIRST;
        placer.all()?;
        Ok(placer.out)
    }

    fn all(&mut self) -> Result<()> {
        let tree = self.tree;
        let dirs = directory_order(tree);
        for dir in &dirs {
            let new = self.number(*dir);
            debug_assert!(new || self.out.inos[dir.at()].0 <= Ino::GOOD_OLD_FIRST.0);
            self.node(*dir)?;
            for entry in tree.entries_of(*dir) {
                if !tree.node(entry.node).is_dir() && self.number(entry.node) {
                    self.node(entry.node)?;
                }
            }
        }
        let needed = u64::from(self.out.first.0) + self.out.order.len() as u64 - 1;
        let inodes = u64::from(self.layout.geo().inodes_count);
        if needed > inodes {
            return Err(MkfsError::NoInodes { inodes, needed });
        }
        Ok(())
    }

    /// Gives a node the next inode; false if it has one.
    fn number(&mut self, id: NodeId) -> bool {
        let ino = &mut self.out.inos[id.at()];
        if *ino != Ino::NONE {
            return false;
        }
        *ino = Ino(self.out.first.0.wrapping_add(self.out.order.len() as u32));
        self.out.order.push(id);
        true
    }

    fn node(&mut self, id: NodeId) -> Result<()> {
        let node = self.tree.node(id);
        self.out.places[id.at()].first_extent = self.out.extents.len() as u32;
        if let Some(i) = node.xattrs
            && !self.needs.xattrs[i as usize].block.is_empty()
        {
            self.xattr_block(id)?;
        }
        match node.kind {
            Kind::Directory(_) => {
                let layout: Option<&DirLayout> = self.needs.dirs.get(&id);
                let len = layout.map_or(1, |l| u64::from(l.blocks()));
                self.take(id, Piece { lblk: 0, len }, Some(Content::Directory))?;
            }
            Kind::Regular(_) => {
                for piece in measure::pieces(self.tree, id, self.block_size) {
                    self.take(id, piece, Some(Content::Data))?;
                }
                if let Some(piece) = measure::verity_piece(self.tree, id) {
                    self.take(id, piece, None)?;
                }
            }
            Kind::Symlink(_) if !measure::is_fast_symlink(node.attributes.size) => {
                let piece = Piece { lblk: 0, len: 1 };
                self.take(id, piece, Some(Content::Symlink))?;
            }
            _ => return Ok(()),
        }
        self.map(id)
    }

    fn full(&self) -> MkfsError {
        MkfsError::NoSpace {
            blocks: self.layout.geo().blocks_count,
            what: "the tree",
        }
    }

    fn xattr_block(&mut self, id: NodeId) -> Result<()> {
        let mut block = Pblk(0);
        let cluster = self.space.cluster();
        if !self.space.take_first(1, |run| block = Pblk(run.start)) {
            return Err(self.full());
        }
        let place = &mut self.out.places[id.at()];
        place.xattr_block = block;
        place.blocks += cluster;
        self.out.items.push(Item {
            pblk: block,
            lblk: 0,
            len: 1,
            node: id,
            content: Content::Xattrs,
        });
        Ok(())
    }

    /// Takes the blocks of a piece; `content` is written there with the data of all files.
    fn take(&mut self, id: NodeId, piece: Piece, content: Option<Content>) -> Result<()> {
        let from = self.out.places[id.at()].first_extent as usize;
        let (extents, items) = (&mut self.out.extents, &mut self.out.items);
        let mut add = |lblk: u64, run: Run| {
            extents::push_run(extents, from, lblk, run);
            let mut done = 0;
            while let Some(content) = content
                && done < run.len
            {
                let len = (run.len - done).min(ITEM_BLOCKS_MAX);
                items.push(Item {
                    pblk: Pblk(run.start + done),
                    lblk: (lblk + done) as u32,
                    len: len as u32,
                    node: id,
                    content,
                });
                done += len;
            }
        };
        let (mut lblk, end) = (piece.lblk, piece.lblk + piece.len);
        let cluster = self.space.cluster();
        // The rest of a cluster that the piece before begins in.
        if let Some((node, first, pblk)) = self.last_cluster
            && node == id
            && lblk < first + cluster
        {
            let upto = end.min(first + cluster);
            let (start, len) = (pblk + (lblk - first), upto - lblk);
            add(lblk, Run { start, len });
            lblk = upto;
        }
        if lblk == end {
            return Ok(());
        }
        let mut at = lblk - lblk % cluster;
        let blocks = end.next_multiple_of(cluster) - at;
        let last = &mut self.last_cluster;
        let ok = self.space.take_first(blocks, |run| {
            let (first, upto) = (at.max(lblk), (at + run.len).min(end));
            if first < upto {
                let (start, len) = (run.start + (first - at), upto - first);
                add(first, Run { start, len });
            }
            at += run.len;
            *last = Some((id, at - cluster, run.start + run.len - cluster));
        });
        if !ok {
            return Err(self.full());
        }
        self.out.places[id.at()].blocks += blocks;
        Ok(())
    }

    /// Closes a node's list of extents; what the inode has no room for gets blocks.
    fn map(&mut self, id: NodeId) -> Result<()> {
        let first = self.out.places[id.at()].first_extent as usize;
        let count = self.out.extents.len() - first;
        self.out.places[id.at()].extents = count as u32;
        let mapping = Mapping::of(&self.layout.features);
        let n = mapping.tree_blocks(&self.out.extents[first..], self.block_size);
        if n == 0 {
            return Ok(());
        }
        let mut places = Vec::with_capacity(n);
        let cluster = self.space.cluster();
        let taken = self.space.take_first(n as u64 * cluster, |run| {
            let blocks = run.start..run.start + run.len;
            places.extend(blocks.step_by(cluster as usize).map(Pblk));
        });
        if !taken {
            return Err(self.full());
        }
        let seed = inode_seed(self.layout, self.out.inos[id.at()]);
        let list = &self.out.extents[first..];
        let tree = mapping.build(list, self.block_size, seed, &places);
        self.out.roots.insert(id, tree.root);
        self.out.tree_blocks.extend(tree.blocks);
        self.out.places[id.at()].blocks += n as u64 * cluster;
        Ok(())
    }
}
