//! The mapping of a file, changed in memory.

use crate::prelude::*;

/// A mapping as it is on disk, and as it is to be.
#[derive(Debug, Default)]
pub(super) struct FileMap {
    old: Vec<Extent>,
    new: Vec<Extent>,
}

/// What is to be done on disk.
#[derive(Debug)]
pub(super) struct Change<'m> {
    /// File blocks whose mapping goes.
    pub removed: Range<u64>,
    /// What comes instead.
    pub added: &'m [Extent],
}

impl FileMap {
    /// The mapping that is on disk, in order.
    pub fn new(old: Vec<Extent>) -> FileMap {
        FileMap {
            new: old.clone(),
            old,
        }
    }

    /// Maps the blocks of `extent`, whatever was there.
    pub fn add(&mut self, extent: Extent) {
        let at = self.cut(u64::from(extent.lblk.0), extent.end());
        self.new.insert(at, extent);
    }

    /// Makes a hole.
    pub fn remove(&mut self, from: Lblk, len: u32) {
        let from = u64::from(from.0);
        self.cut(from, from + u64::from(len));
    }

    /// Makes holes of what holds data in file blocks from `end` on.
    pub fn trim(&mut self, end: u64) {
        let first = self.new.partition_point(|e| e.end() <= end);
        let past = self.new.split_off(first);
        let kept = past.into_iter().filter_map(|e| match e.unwritten {
            true => Some(e),
            false => part(&e, 0, end),
        });
        self.new.extend(kept);
    }

    /// Makes a hole; returns where an extent in it would go.
    fn cut(&mut self, from: u64, to: u64) -> usize {
        let first = self.new.partition_point(|e| e.end() <= from);
        let last = self.new.partition_point(|e| u64::from(e.lblk.0) < to);
        if first >= last {
            return first;
        }
        let overlapping = &self.new[first..last];
        let left = overlapping.first().and_then(|e| part(e, 0, from));
        let right = overlapping.last().and_then(|e| part(e, to, u64::MAX));
        let at = first + usize::from(left.is_some());
        self.new.splice(first..last, left.into_iter().chain(right));
        at
    }

    #[cfg(test)]
    fn extents(&self) -> &[Extent] {
        &self.new
    }

    /// What makes it from what is on disk.
    pub fn change(&self) -> Change<'_> {
        let same = |(a, b): &(&Extent, &Extent)| a == b;
        let before = self.old.iter().zip(&self.new).take_while(same).count();
        let (old, new) = (&self.old[before..], &self.new[before..]);
        let after = old
            .iter()
            .rev()
            .zip(new.iter().rev())
            .take_while(same)
            .count();
        let gone = &old[..old.len() - after];
        let from = gone.first().map_or(0, |e| u64::from(e.lblk.0));
        Change {
            removed: from..gone.last().map_or(from, Extent::end),
            added: &new[..new.len() - after],
        }
    }
}

/// The part of an extent from `from` to before `to`, if there is any.
fn part(e: &Extent, from: u64, to: u64) -> Option<Extent> {
    let start = u64::from(e.lblk.0).max(from);
    let len = e.end().min(to).checked_sub(start).filter(|len| *len > 0)?;
    let skipped = start - u64::from(e.lblk.0);
    Some(Extent {
        lblk: Lblk(u32::try_from(start).ok()?),
        len: u16::try_from(len).ok()?,
        pblk: Pblk(e.pblk.0 + skipped),
        ..*e
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// File block to block on disk and whether it is unwritten.
    type Plain = BTreeMap<u64, (u64, bool)>;

    fn plain(extents: &[Extent]) -> Plain {
        let blocks = extents.iter().flat_map(|e| {
            (0..u64::from(e.len)).map(|i| (u64::from(e.lblk.0) + i, (e.pblk.0 + i, e.unwritten)))
        });
        blocks.collect()
    }

    #[test]
    fn as_a_plain_map() {
        let mut rng = fastrand::Rng::with_seed(4);
        for _ in 0..500 {
            let (mut map, mut want) = (FileMap::default(), Plain::new());
            for step in 0..rng.u32(1..30) {
                let (lblk, len) = (Lblk(rng.u32(..60)), rng.u16(1..12));
                let blocks = u64::from(lblk.0)..u64::from(lblk.0) + u64::from(len);
                want.retain(|b, _| !blocks.contains(b));
                if rng.u8(..10) == 0 {
                    let end = rng.u64(..70);
                    map.trim(end);
                    want.retain(|b, (_, unwritten)| *b < end || *unwritten);
                }
                if rng.u8(..3) > 0 {
                    let extent = Extent {
                        lblk,
                        len,
                        unwritten: rng.bool(),
                        pblk: Pblk(rng.u64(100..200)),
                    };
                    map.add(extent);
                    want.extend(plain(&[extent]));
                } else {
                    map.remove(lblk, u32::from(len));
                }
                assert_eq!(plain(map.extents()), want);
                let ends = map
                    .extents()
                    .windows(2)
                    .all(|w| w[0].end() <= u64::from(w[1].lblk.0));
                assert!(ends, "out of order");
                assert!(map.extents().iter().all(|e| e.len > 0), "nothing in one");
                if step == 8 {
                    map = FileMap::new(map.extents().to_vec());
                }
            }
            let change = map.change();
            let mut made = plain(&map.old);
            made.retain(|b, _| !change.removed.contains(b));
            for extent in change.added {
                for (block, place) in plain(&[*extent]) {
                    assert!(made.insert(block, place).is_none(), "mapped over");
                }
            }
            assert_eq!(made, want);
        }
    }
}
