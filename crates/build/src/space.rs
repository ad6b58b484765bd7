//! Free blocks of an image that is being planned, from which whole clusters are taken: a cluster is a block without `bigalloc`.

use std::collections::BTreeMap;

use uext4_ondisk::Pblk;

/// A run of blocks on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// First block.
    pub start: u64,
    /// Number of blocks, at least one.
    pub len: u64,
}

/// Free blocks as disjoint runs; what is next to each other is one run.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    /// Start to end, exclusive.
    runs: BTreeMap<u64, u64>,
    free: u64,
    /// Blocks of a cluster; all runs begin and end with one.
    cluster: u64,
}

impl Space {
    /// Everything from `start` to `end`, exclusive.
    pub fn new(start: u64, end: u64) -> Space {
        Space {
            runs: BTreeMap::from([(start, end)]),
            free: end - start,
            cluster: 1,
        }
    }

    /// The clusters of so many blocks that are free as a whole.
    pub fn in_clusters(self, blocks: u32) -> Space {
        let cluster = u64::from(blocks);
        let whole = |(start, end): (u64, u64)| {
            let (start, end) = (start.next_multiple_of(cluster), end / cluster * cluster);
            (start < end).then_some((start, end))
        };
        let runs: BTreeMap<u64, u64> = self.runs.into_iter().filter_map(whole).collect();
        Space {
            free: runs.iter().map(|(start, end)| end - start).sum(),
            runs,
            cluster,
        }
    }

    /// Blocks of a cluster.
    pub fn cluster(&self) -> u64 {
        self.cluster
    }

    /// Free blocks.
    pub fn free(&self) -> u64 {
        self.free
    }

    #[cfg(test)]
    fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.runs.iter().map(|(start, end)| Run {
            start: *start,
            len: end - start,
        })
    }

    /// The runs that touch `start..end`, cut to it.
    pub fn runs_within(&self, start: u64, end: u64) -> impl Iterator<Item = Run> + '_ {
        let before = self.runs.range(..start).next_back();
        let first = before.filter(|(_, e)| **e > start);
        let rest = self.runs.range(start..end);
        first.into_iter().chain(rest).map(move |(s, e)| {
            let from = (*s).max(start);
            Run {
                start: from,
                len: (*e).min(end) - from,
            }
        })
    }

    /// Takes the `len` blocks from `start`, where a cluster begins; false, with nothing taken, if one of them is not free.
    pub fn take_at(&mut self, start: u64, len: u64) -> bool {
        let len = len.next_multiple_of(self.cluster);
        let end = start + len;
        let Some((&s, &e)) = self.runs.range(..=start).next_back() else {
            return false;
        };
        if e < end {
            return false;
        }
        if s < start {
            self.runs.insert(s, start);
        } else {
            self.runs.remove(&s);
        }
        if end < e {
            self.runs.insert(end, e);
        }
        self.free -= len;
        true
    }

    /// Takes `len` blocks in one run, the first there is at or after `from`.
    pub fn take_contiguous(&mut self, from: u64, len: u64) -> Option<Pblk> {
        let from = from.next_multiple_of(self.cluster);
        let len = len.next_multiple_of(self.cluster);
        let inside = self.runs.range(..from).next_back();
        let cut = inside.filter(|(_, e)| **e > from).map(|(_, e)| (from, *e));
        let rest = self.runs.range(from..).map(|(s, e)| (*s, *e));
        let start = cut.into_iter().chain(rest).find(|(s, e)| e - s >= len)?.0;
        self.take_at(start, len).then_some(Pblk(start))
    }

    /// Takes the first `len` free blocks, in as many runs as it takes, of which all but the last are of whole clusters; false if
    /// there are too few.
    pub fn take_first(&mut self, len: u64, mut each: impl FnMut(Run)) -> bool {
        if len.next_multiple_of(self.cluster) > self.free {
            return false;
        }
        let mut left = len;
        while left > 0 {
            let Some((&start, &end)) = self.runs.first_key_value() else {
                return false;
            };
            let n = left.min(end - start);
            each(Run { start, len: n });
            let taken = n.next_multiple_of(self.cluster);
            self.runs.pop_first();
            if start + taken < end {
                self.runs.insert(start + taken, end);
            }
            self.free -= taken;
            left -= n;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(space: &Space) -> Vec<(u64, u64)> {
        space.runs().map(|r| (r.start, r.len)).collect()
    }

    #[test]
    fn takes_at_and_after() {
        let mut space = Space::new(1, 100);
        assert!(space.take_at(10, 5));
        assert!(!space.take_at(9, 2));
        assert_eq!(space.take_contiguous(4, 10), Some(Pblk(15)));
        assert_eq!(space.take_contiguous(4, 3), Some(Pblk(4)));
        assert_eq!(runs(&space), [(1, 3), (7, 3), (25, 75)]);
        assert_eq!(space.free(), 81);
        let within: Vec<_> = space.runs_within(8, 30).map(|r| (r.start, r.len)).collect();
        assert_eq!(within, [(8, 2), (25, 5)]);
    }

    #[test]
    fn clusters_are_taken_as_a_whole() {
        let mut space = Space::new(0, 41);
        assert!(space.take_at(5, 1));
        let mut space = space.in_clusters(4);
        assert_eq!(runs(&space), [(0, 4), (8, 32)]);
        let mut got = Vec::new();
        assert!(space.take_first(6, |r| got.push((r.start, r.len))));
        assert_eq!(got, [(0, 4), (8, 2)]);
        assert_eq!(space.take_contiguous(13, 5), Some(Pblk(16)));
        assert_eq!((space.free(), runs(&space)), (20, vec![(12, 4), (24, 16)]));
        assert!(!space.take_first(21, |_| ()));
    }

    #[test]
    fn takes_first_in_pieces() {
        let mut space = Space::new(0, 10);
        assert!(space.take_at(3, 2));
        let mut got = Vec::new();
        assert!(space.take_first(5, |r| got.push((r.start, r.len))));
        assert_eq!(got, [(0, 3), (5, 2)]);
        assert!(!space.take_first(4, |_| ()));
        assert_eq!(space.free(), 3);
    }
}
