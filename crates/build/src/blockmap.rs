//! Block maps, as files without extents have them, made in the order of the file's blocks.
//!
//! # Invariants
//! [`MapShape`] says which pointers lead to a block. The blocks of pointers on the way to the block at hand
//! are *open*; one is closed, which gives it its place, when the next block lies below another. So a
//! block of pointers exists only if data lies below it.

use crate::extents::MapTree;
use uext4_ondisk::{Extent, Lblk, MapPlace, MapShape, Pblk, map_pointer_set};

/// Blocks of pointers that a file needs whose runs of blocks (first and length), ascending, are these.
pub(crate) fn index_blocks(runs: impl Iterator<Item = (u64, u64)>, block_size: u32) -> u64 {
    let shape = MapShape::new(block_size);
    let (mut count, mut last): (u64, Option<MapPlace>) = (0, None);
    for (lblk, len) in runs {
        let mut at = lblk;
        while at < lblk + len {
            let Some(place) = shape.place(Lblk(at as u32)) else {
                return count;
            };
            let known = last.map_or(0, |last| shared(&last, &place));
            count += (place.levels - known) as u64;
            last = Some(place);
            // The rest of a block of pointers needs no other.
            at += match place.levels {
                0 => 1,
                levels => (shape.per_block() - place.slot(levels)) as u64,
            };
        }
    }
    count
}

/// How many blocks of pointers the ways to two blocks share.
fn shared(a: &MapPlace, b: &MapPlace) -> usize {
    let most = a.levels.min(b.levels);
    (0..most)
        .take_while(|&depth| a.slot(depth) == b.slot(depth))
        .count()
}

/// Makes the map; `places` gives the blocks, [`index_blocks`] of them.
pub(crate) fn build(extents: &[Extent], block_size: u32, places: &[Pblk]) -> MapTree {
    let shape = MapShape::new(block_size);
    let mut map = Builder {
        tree: MapTree {
            root: [0; 60],
            blocks: Vec::new(),
        },
        open: Vec::new(),
        places: places.iter().copied(),
    };
    let mut last: Option<MapPlace> = None;
    for extent in extents {
        for i in 0..u32::from(extent.len) {
            // What is too large for a map was refused.
            let Some(place) = shape.place(Lblk(extent.lblk.0 + i)) else {
                break;
            };
            map.close_below(last.map_or(0, |last| shared(&last, &place)));
            while map.open.len() < place.levels {
                map.open.push(Open {
                    slot: place.slot(map.open.len()),
                    pointers: vec![0; block_size as usize],
                });
            }
            map.set(place.slot(place.levels), Pblk(extent.pblk.0 + u64::from(i)));
            last = Some(place);
        }
    }
    map.close_below(0);
    map.tree
}

/// A block of pointers that is being filled, and its slot in what stands above it.
struct Open {
    slot: usize,
    pointers: Vec<u8>,
}

struct Builder<P> {
    tree: MapTree,
    /// From the inode downwards.
    open: Vec<Open>,
    places: P,
}

impl<P: Iterator<Item = Pblk>> Builder<P> {
    /// Closes all but the first `depth` blocks.
    fn close_below(&mut self, depth: usize) {
        while self.open.len() > depth
            && let Some(done) = self.open.pop()
        {
            // As many as it takes were given.
            let at = self.places.next().unwrap_or_default();
            self.set(done.slot, at);
            self.tree.blocks.push((at, done.pointers));
        }
    }

    /// Sets a pointer of the deepest open block, or of the inode.
    fn set(&mut self, slot: usize, to: Pblk) {
        let pointers = match self.open.last_mut() {
            Some(open) => &mut open.pointers[..],
            None => &mut self.tree.root[..],
        };
        // Without the feature 64bit, block numbers have 32 bits.
        let _ = map_pointer_set(pointers, slot, to.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_ondisk::map_pointer;

    const BLOCK: u32 = 1024;
    const N: u64 = 256;
    const DIRECT: u64 = 12;
    const SINGLE: usize = 12;
    const DOUBLE: usize = 13;
    const TRIPLE: usize = 14;

    fn get(block: &[u8], index: u64) -> u64 {
        map_pointer(block, index as usize).map_or(0, |at| at.0)
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
        let all = MapShape::new(BLOCK).blocks_max();
        let whole = 1 + (1 + N) + (1 + N + N * N);
        assert_eq!(index_blocks([(0, all)].into_iter(), BLOCK), whole);
        assert_eq!(
            index_blocks([(0, 5), (5, all - 5)].into_iter(), BLOCK),
            whole
        );
    }
}
