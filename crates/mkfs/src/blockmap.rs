//! Block maps, as files without extents have them: twelve blocks in the inode, and blocks of block
//! numbers, reached over one, two or three steps.
//!
//! # Invariants
//! A *leaf* is a block of block numbers that name data. Leaf 0 hangs on the inode; as many more as a block
//! has numbers hang on the block of leaves; all others hang on blocks of leaves of their own, which
//! hang on one block. A leaf or a block above it exists only if data lies below.

use crate::extents::{MapTree, Root};
use uext4_ondisk::{Extent, Pblk};

/// Blocks that the inode names itself.
const DIRECT: u64 = 12;
/// Where the inode has the first leaf, and what stands above the others.
const SINGLE: usize = 12;
const DOUBLE: usize = 13;
const TRIPLE: usize = 14;

/// Block numbers that a block holds.
fn per_block(block_size: u32) -> u64 {
    u64::from(block_size) / 4
}

/// The blocks of the largest file.
pub(crate) fn blocks_max(block_size: u32) -> u64 {
    let n = per_block(block_size);
    DIRECT + n + n * n + n * n * n
}

/// Blocks of block numbers that a file needs whose runs of blocks (first and length), ascending, are
/// these.
pub(crate) fn index_blocks(runs: impl Iterator<Item = (u64, u64)>, block_size: u32) -> u64 {
    let n = per_block(block_size);
    let (mut leaves, mut middles) = (Distinct::default(), Distinct::default());
    let (mut has_double, mut has_triple) = (false, false);
    for (lblk, len) in runs {
        let (from, end) = (lblk.max(DIRECT), lblk + len);
        if from >= end {
            continue;
        }
        let (first, last) = ((from - DIRECT) / n, (end - 1 - DIRECT) / n);
        leaves.add(first, last);
        has_double |= last >= 1 && first <= n;
        if last > n {
            has_triple = true;
            middles.add((first.max(n + 1) - n - 1) / n, (last - n - 1) / n);
        }
    }
    leaves.count + middles.count + u64::from(has_double) + u64::from(has_triple)
}

/// Counts numbers in ascending ranges, each once.
#[derive(Default)]
struct Distinct {
    count: u64,
    /// The lowest that was not counted yet.
    next: u64,
}

impl Distinct {
    fn add(&mut self, first: u64, last: u64) {
        let first = first.max(self.next);
        if first <= last {
            self.count += last + 1 - first;
            self.next = last + 1;
        }
    }
}

/// Makes the map; `places` gives the blocks, [`index_blocks`] of them.
pub(crate) fn build(extents: &[Extent], block_size: u32, places: &[Pblk]) -> MapTree {
    let mut map = Builder {
        tree: MapTree {
            root: [0; 60],
            blocks: Vec::new(),
        },
        block_size,
        places: places.iter().copied(),
    };
    let n = per_block(block_size);
    let mut leaf: Option<(u64, Vec<u8>)> = None;
    let mut leaves = Vec::new();
    for extent in extents {
        for i in 0..u64::from(extent.len) {
            let (lblk, pblk) = (u64::from(extent.lblk.0) + i, Pblk(extent.pblk.0 + i));
            let Some(indirect) = lblk.checked_sub(DIRECT) else {
                put(&mut map.tree.root, lblk, pblk);
                continue;
            };
            if leaf.as_ref().is_none_or(|(no, _)| *no != indirect / n) {
                leaves.extend(leaf.take().map(|(no, block)| (no, map.place(block))));
            }
            let (_, block) =
                leaf.get_or_insert_with(|| (indirect / n, vec![0; block_size as usize]));
            put(block, indirect % n, pblk);
        }
    }
    leaves.extend(leaf.map(|(no, block)| (no, map.place(block))));
    map.link(&leaves);
    map.tree
}

struct Builder<P> {
    tree: MapTree,
    block_size: u32,
    places: P,
}

impl<P: Iterator<Item = Pblk>> Builder<P> {
    /// Gives a block its place.
    fn place(&mut self, block: Vec<u8>) -> Pblk {
        // As many as it takes were given.
        let at = self.places.next().unwrap_or_default();
        self.tree.blocks.push((at, block));
        at
    }

    /// A block that names those of `below`, each with its index there.
    fn name(&mut self, below: impl Iterator<Item = (u64, Pblk)>) -> Pblk {
        let mut block = vec![0; self.block_size as usize];
        below.for_each(|(index, at)| put(&mut block, index, at));
        self.place(block)
    }

    /// Hangs the leaves where they belong.
    fn link(&mut self, leaves: &[(u64, Pblk)]) {
        let n = per_block(self.block_size);
        let (near, far) = leaves.split_at(leaves.partition_point(|(no, _)| *no <= n));
        let (first, double) = near.split_at(near.partition_point(|(no, _)| *no == 0));
        if let Some((_, at)) = first.first() {
            put(&mut self.tree.root, SINGLE as u64, *at);
        }
        if !double.is_empty() {
            let top = self.name(double.iter().map(|(no, at)| (no - 1, *at)));
            put(&mut self.tree.root, DOUBLE as u64, top);
        }
        if far.is_empty() {
            return;
        }
        let mut middles = Vec::new();
        for some in far.chunk_by(|a, b| (a.0 - n - 1) / n == (b.0 - n - 1) / n) {
            let at = self.name(some.iter().map(|(no, at)| ((no - n - 1) % n, *at)));
            middles.push(((some[0].0 - n - 1) / n, at));
        }
        let top = self.name(middles.into_iter());
        put(&mut self.tree.root, TRIPLE as u64, top);
    }
}

/// Sets a block number; those of a file system without extents fit 32 bits.
fn put(block: &mut [u8], index: u64, at: Pblk) {
    let from = index as usize * 4;
    block[from..from + 4].copy_from_slice(&(at.0 as u32).to_le_bytes());
}

const _: () = assert!(size_of::<Root>() == (TRIPLE + 1) * 4);

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_ondisk::Lblk;

    const BLOCK: u32 = 1024;
    const N: u64 = 256;

    fn get(block: &[u8], index: u64) -> u64 {
        let from = index as usize * 4;
        u64::from(u32::from_le_bytes(
            block[from..from + 4].try_into().unwrap(),
        ))
    }

    /// Where a block of the file lies, found as a reader does.
    fn find(tree: &MapTree, lblk: u64) -> u64 {
        let step = |at: u64, index: u64| match at {
            0 => 0,
            at => {
                let (_, block) = tree.blocks.iter().find(|(p, _)| p.0 == at).unwrap();
                get(block, index)
            }
        };
        let top = |slot: usize| get(&tree.root, slot as u64);
        match lblk {
            _ if lblk < DIRECT => get(&tree.root, lblk),
            _ if lblk < DIRECT + N => step(top(SINGLE), lblk - DIRECT),
            _ if lblk < DIRECT + N + N * N => {
                let i = lblk - DIRECT - N;
                step(step(top(DOUBLE), i / N), i % N)
            }
            _ => {
                let i = lblk - DIRECT - N - N * N;
                step(step(step(top(TRIPLE), i / N / N), i / N % N), i % N)
            }
        }
    }

    #[test]
    fn every_block_is_found_and_no_other() {
        let edges = [
            0,
            11,
            12,
            12 + N,
            12 + 2 * N,
            12 + N + N * N,
            12 + N + 2 * N * N,
            9_000_000,
        ];
        let mut wanted: Vec<(u64, u64)> = Vec::new();
        for edge in edges {
            let after = wanted.last().map_or(0, |(lblk, len)| lblk + len);
            wanted.push((edge.saturating_sub(3).max(after), 7));
        }
        for skip in 0..wanted.len() {
            let runs: Vec<_> = wanted
                .iter()
                .copied()
                .skip(skip)
                .step_by(1 + skip % 2)
                .collect();
            let extents: Vec<Extent> = runs
                .iter()
                .map(|(lblk, len)| Extent {
                    lblk: Lblk(*lblk as u32),
                    len: *len as u16,
                    unwritten: false,
                    pblk: Pblk(lblk + 1_000_000),
                })
                .collect();
            let needed = index_blocks(runs.iter().copied(), BLOCK);
            let places: Vec<_> = (1..=needed).map(Pblk).collect();
            let tree = build(&extents, BLOCK, &places);
            assert_eq!(tree.blocks.len() as u64, needed);
            for (lblk, len) in &wanted {
                let has = runs.contains(&(*lblk, *len));
                for at in *lblk..lblk + len {
                    assert_eq!(find(&tree, at), if has { at + 1_000_000 } else { 0 });
                }
            }
        }
    }

    #[test]
    fn a_long_run_needs_what_stands_above_it() {
        assert_eq!(index_blocks([(0, 12)].into_iter(), BLOCK), 0);
        assert_eq!(index_blocks([(0, 13)].into_iter(), BLOCK), 1);
        assert_eq!(index_blocks([(0, 12 + N + 1)].into_iter(), BLOCK), 3);
        let all = blocks_max(BLOCK);
        let whole = 1 + (1 + N) + (1 + N + N * N);
        assert_eq!(index_blocks([(0, all)].into_iter(), BLOCK), whole);
        assert_eq!(
            index_blocks([(0, 5), (5, all - 5)].into_iter(), BLOCK),
            whole
        );
    }
}
