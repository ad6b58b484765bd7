//! Extent trees made from the bottom: full leaves, full index blocks, a root of at most four entries.

use uext4_ondisk::{
    EXTENT_LEN_MAX, EXTENT_ROOT_ENTRIES, Extent, ExtentIdx, ExtentNodeMut, InodeSeed, Lblk, Pblk,
    extent_block_checksum_set, extent_block_entries,
};

use crate::space::Run;

/// Bytes of an inode's root.
pub(crate) type Root = [u8; 60];

/// What names a file's blocks: a root, and the blocks below it.
#[derive(Clone, Debug)]
pub(crate) struct MapTree {
    /// For the inode.
    pub root: Root,
    /// Blocks with their places.
    pub blocks: Vec<(Pblk, Vec<u8>)>,
}

/// Appends a run of blocks to a file's extents, as few as it takes.
pub(crate) fn push_run(extents: &mut Vec<Extent>, from: usize, mut lblk: u64, run: Run) {
    let (mut start, mut left) = (run.start, run.len);
    if let Some(last) = extents.get_mut(from..).and_then(|e| e.last_mut())
        && last.end() == lblk
        && last.pblk.0 + u64::from(last.len) == start
    {
        let n = left.min(u64::from(EXTENT_LEN_MAX - last.len));
        last.len += n as u16;
        (lblk, start, left) = (lblk + n, start + n, left - n);
    }
    while left > 0 {
        let n = left.min(u64::from(EXTENT_LEN_MAX));
        extents.push(Extent {
            lblk: Lblk(lblk as u32),
            len: n as u16,
            unwritten: false,
            pblk: Pblk(start),
        });
        (lblk, start, left) = (lblk + n, start + n, left - n);
    }
}

/// Blocks that the tree of so many extents needs besides the root.
pub(crate) fn tree_blocks(extents: usize, block_size: u32) -> usize {
    let (mut level, mut all) = (extents, 0);
    while level > usize::from(EXTENT_ROOT_ENTRIES) {
        level = level.div_ceil(usize::from(extent_block_entries(block_size)));
        all += level;
    }
    all
}

/// Makes the tree; `places` gives the blocks, [`tree_blocks`] of them. `seed` is set with checksums.
pub(crate) fn build(
    extents: &[Extent],
    block_size: u32,
    seed: Option<InodeSeed>,
    places: &[Pblk],
) -> MapTree {
    let per_block = usize::from(extent_block_entries(block_size));
    let mut places = places.iter().copied();
    let mut tree = MapTree {
        root: [0; 60],
        blocks: Vec::new(),
    };
    if extents.len() <= usize::from(EXTENT_ROOT_ENTRIES) {
        fill_leaf(&mut tree.root, extents);
        return tree;
    }
    let mut level = Vec::new();
    for part in extents.chunks(per_block) {
        let mut block = vec![0; block_size as usize];
        fill_leaf(&mut block, part);
        level.extend(finish(&mut tree, block, seed, part[0].lblk, places.next()));
    }
    let mut depth = 1;
    while level.len() > usize::from(EXTENT_ROOT_ENTRIES) {
        let mut above = Vec::new();
        for part in level.chunks(per_block) {
            let mut block = vec![0; block_size as usize];
            fill_idx(&mut block, depth, part);
            above.extend(finish(&mut tree, block, seed, part[0].lblk, places.next()));
        }
        level = above;
        depth += 1;
    }
    fill_idx(&mut tree.root, depth, &level);
    tree
}

fn fill_leaf(bytes: &mut [u8], extents: &[Extent]) {
    let mut node = ExtentNodeMut::init(bytes, 0);
    for (i, e) in extents.iter().enumerate() {
        // As many as fit were given.
        let _ = node.insert_extent_at(i, *e);
    }
}

fn fill_idx(bytes: &mut [u8], depth: u16, children: &[ExtentIdx]) {
    let mut node = ExtentNodeMut::init(bytes, depth);
    for (i, e) in children.iter().enumerate() {
        // As many as fit were given.
        let _ = node.insert_idx_at(i, *e);
    }
}

/// Gives a block its checksum and place; returns the entry that leads to it.
fn finish(
    tree: &mut MapTree,
    mut block: Vec<u8>,
    seed: Option<InodeSeed>,
    lblk: Lblk,
    place: Option<Pblk>,
) -> Option<ExtentIdx> {
    let child = place?;
    if let Some(seed) = seed {
        extent_block_checksum_set(&mut block, seed);
    }
    tree.blocks.push((child, block));
    Some(ExtentIdx { lblk, child })
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_ondisk::{BlockBounds, ExtentCheck, ExtentNode};

    #[test]
    fn runs_become_few_extents() {
        let mut extents = Vec::new();
        push_run(
            &mut extents,
            0,
            0,
            Run {
                start: 100,
                len: 10,
            },
        );
        push_run(
            &mut extents,
            0,
            10,
            Run {
                start: 110,
                len: 40000,
            },
        );
        push_run(&mut extents, 0, 50000, Run { start: 9, len: 1 });
        let got: Vec<_> = extents
            .iter()
            .map(|e| (e.lblk.0, e.len, e.pblk.0))
            .collect();
        assert_eq!(got, [(0, 32768, 100), (32768, 7242, 32868), (50000, 1, 9)]);
    }

    #[test]
    fn trees_of_every_depth_are_valid() {
        for count in [0, 4, 5, 84, 337, 8000] {
            let extents: Vec<_> = (0..count)
                .map(|i| Extent {
                    lblk: Lblk(i * 2),
                    len: 1,
                    unwritten: false,
                    pblk: Pblk(1000 + u64::from(i)),
                })
                .collect();
            let n = tree_blocks(extents.len(), 1024);
            let places: Vec<_> = (0..n as u64).map(Pblk).collect();
            let tree = build(&extents, 1024, None, &places);
            assert_eq!(tree.blocks.len(), n);
            let check = ExtentCheck::root(BlockBounds::ANY);
            let root = ExtentNode::validate(&tree.root, &check).unwrap();
            let mut found = Vec::new();
            walk(&root, &check, &tree, &mut found);
            assert_eq!(found, extents);
        }
    }

    fn walk(node: &ExtentNode<'_>, check: &ExtentCheck, tree: &MapTree, out: &mut Vec<Extent>) {
        if node.depth() == 0 {
            out.extend(node.extents());
        }
        for i in 0..usize::from(node.len()) {
            let Some(idx) = node.idx(i).filter(|_| node.depth() > 0) else {
                return;
            };
            let below = node.child_check(i, check).unwrap();
            let block = tree.blocks.iter().find(|(p, _)| *p == idx.child).unwrap();
            let child = ExtentNode::validate(&block.1, &below).unwrap();
            walk(&child, &below, tree, out);
        }
    }
}
