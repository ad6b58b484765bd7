//! A file's mapping as it was a moment ago, to be looked up by many threads without a lock: a [`Snapshot`] of all
//! extents, sorted.
//!
//! # Invariants
//! - A look-up that begins after a change has ended does not find what was before. One that runs beside a change finds either; so a thread that removes
//!   blocks holds the inode's `ilock` exclusively, and no thread looks up and uses them meanwhile.
//! - All copies of a file system together keep to a budget. A copy goes with the next change and with the
//!   last reference to its inode.
//!
//! # Locking
//! None to look up. The `map` lock, shared, to make a copy.

use crate::inode::snapshot::{Room, Snapshot, SnapshotBudget};
use crate::prelude::*;
use crate::run::RunLookup;

/// The most extents that are copied.
pub(crate) const EXTENTS_MAX: usize = 1 << 16;
/// A copy is made after so many look-ups in the tree, and one more for every fourth extent.
const MISSES_MIN: u32 = 16;

/// The extents of a file, sorted, and what they take of the budget.
#[derive(Debug)]
struct Extents {
    extents: Box<[Extent]>,
    _room: Room,
}

/// A file's mapping as it was a moment ago.
#[derive(Debug)]
pub(crate) struct MapSnapshot(Snapshot<Extents>);

impl MapSnapshot {
    /// Nothing is known yet.
    pub fn new() -> MapSnapshot {
        MapSnapshot(Snapshot::new(MISSES_MIN))
    }

    /// What `lblk` is, if that is known.
    #[inline]
    pub fn find(&self, lblk: Lblk) -> Option<RunLookup> {
        self.0.read(|copy| find(&copy.extents, lblk))
    }

    /// Says that the mapping changed.
    ///
    /// # Locks
    /// The caller holds the `map` lock alone.
    pub fn changed(&self) {
        self.0.changed();
        self.0.forget();
    }

    /// Drops the copy.
    pub fn forget(&self) {
        self.0.forget();
    }

    /// Counts a look-up in the tree; whether a copy is due.
    #[inline]
    pub fn missed(&self) -> bool {
        self.0.missed()
    }

    /// The copy's extents from now on; none, where there are too many, or the budget has no room for them.
    ///
    /// # Locks
    /// The caller holds the `map` lock, and has held it since it read them.
    pub fn set(&self, extents: Option<Vec<Extent>>, budget: &SnapshotBudget) {
        let len = extents.as_ref().map_or(EXTENTS_MAX, Vec::len);
        let misses = MISSES_MIN + u32::try_from(len / 4).unwrap_or(u32::MAX / 2);
        let copy = extents.and_then(|extents| {
            let _room = budget.take(size_of::<Extent>() * extents.len())?;
            let extents = extents.into();
            Some(Extents { extents, _room })
        });
        self.0.set(copy, misses);
    }
}

/// What `lblk` is by these extents.
fn find(extents: &[Extent], lblk: Lblk) -> RunLookup {
    let after = extents.partition_point(|e| e.lblk <= lblk);
    let before = after.checked_sub(1).and_then(|at| extents.get(at));
    if let Some(extent) = before
        && let Some(pblk) = extent.map(lblk)
    {
        return RunLookup {
            pblk: Some(pblk),
            unwritten: extent.unwritten,
            len: (extent.end() - u64::from(lblk.0)) as u32,
        };
    }
    let next = extents.get(after);
    let len = next.map_or(1 << 32, |e| u64::from(e.lblk.0)) - u64::from(lblk.0);
    RunLookup {
        pblk: None,
        unwritten: false,
        len: u32::try_from(len).unwrap_or(u32::MAX),
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    fn extent(lblk: u32, len: u16, pblk: u64, unwritten: bool) -> Extent {
        Extent {
            lblk: Lblk(lblk),
            len,
            unwritten,
            pblk: Pblk(pblk),
        }
    }

    #[test]
    fn finds_extents_and_holes() {
        let map = MapSnapshot::new();
        assert_eq!(map.find(Lblk(0)), None);
        let extents = vec![extent(2, 3, 100, false), extent(10, 1, 200, true)];
        map.set(Some(extents), &SnapshotBudget::new(1000));
        let at = |lblk| map.find(Lblk(lblk)).map(|m| (m.pblk, m.unwritten, m.len));
        assert_eq!(at(0), Some((None, false, 2)));
        assert_eq!(at(3), Some((Some(Pblk(101)), false, 2)));
        assert_eq!(at(5), Some((None, false, 5)));
        assert_eq!(at(10), Some((Some(Pblk(200)), true, 1)));
        assert_eq!(at(11), Some((None, false, u32::MAX - 10)));
        map.changed();
        assert_eq!(at(3), None);
    }

    #[test]
    fn a_copy_is_due_after_some_misses() {
        let map = MapSnapshot::new();
        for _ in 0..MISSES_MIN {
            assert!(!map.missed());
        }
        assert!(map.missed());
        map.set(Some(Vec::new()), &SnapshotBudget::new(0));
        assert!(!map.missed());
    }

    #[test]
    fn copies_keep_to_a_budget() {
        let budget = SnapshotBudget::new(2 * size_of::<Extent>() as u64);
        let (a, b) = (MapSnapshot::new(), MapSnapshot::new());
        let two = || Some(vec![extent(2, 3, 100, false), extent(10, 1, 200, true)]);
        a.set(two(), &budget);
        b.set(two(), &budget);
        assert!(a.find(Lblk(2)).is_some() && b.find(Lblk(2)).is_none());
        a.changed();
        b.set(two(), &budget);
        assert!(b.find(Lblk(2)).is_some());
        drop(b);
        a.set(two(), &budget);
        a.forget();
        assert!(budget.take(2 * size_of::<Extent>()).is_some());
    }
}
