//! A file's mapping as it was a moment ago, to be looked up by many threads without a lock.
//!
//! # Data model
//! A copy of all extents, sorted, and the version of the mapping that it was made of. Every change of
//! the mapping raises the version, and so makes the copy useless. A new one is made when as many
//! look-ups went down the tree as make it worth its while.
//!
//! # Invariants
//! - A look-up that begins after a change has ended does not find what was before: the version is raised
//!   before the change's `map` lock is released. One that runs beside a change finds either; so a thread that removes
//!   blocks holds the inode's `ilock` exclusively, and no thread looks up and uses them meanwhile.
//! - All copies of a file system together keep to a budget. A copy goes with the next change and with the
//!   last reference to its inode.
//!
//! # Locking
//! None to look up. The `map` lock, shared, to make a copy.

use crate::prelude::*;
use crate::run::RunLookup;
use arc_swap::ArcSwapOption;
use uext4_sync::atomic::AtomicI64;

/// The most extents that are copied.
pub(crate) const EXTENTS_MAX: usize = 1 << 16;
/// A copy is made after so many look-ups in the tree, and one more for every fourth extent.
const MISSES_MIN: u32 = 16;

/// How many extents all copies of a file system may have together.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotBudget(Arc<AtomicI64>);

impl SnapshotBudget {
    /// So many bytes.
    pub fn new(bytes: u64) -> SnapshotBudget {
        let extents = bytes / size_of::<Extent>() as u64;
        SnapshotBudget(Arc::new(AtomicI64::new(
            i64::try_from(extents).unwrap_or(i64::MAX),
        )))
    }

    /// Takes room for so many extents, if there is some.
    fn take(&self, extents: usize) -> Option<Room> {
        let extents = extents as i64;
        let before = self.0.fetch_sub(extents, Ordering::Relaxed);
        let room = Room {
            budget: self.clone(),
            extents,
        };
        (before >= extents).then_some(room)
    }
}

/// Room in a budget, released when dropped.
#[derive(Debug)]
struct Room {
    budget: SnapshotBudget,
    extents: i64,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.extents, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Copy {
    version: u64,
    extents: Box<[Extent]>,
    _room: Room,
}

/// A file's mapping as it was a moment ago.
#[derive(Debug)]
pub(crate) struct MapSnapshot {
    version: AtomicU64,
    /// Made with the first copy: of the many inodes that never have one, none pays for freeing it.
    copy: OnceLock<Box<ArcSwapOption<Copy>>>,
    /// Look-ups in the tree until a copy is made.
    misses_left: AtomicU32,
}

impl MapSnapshot {
    /// Nothing is known yet.
    pub fn new() -> MapSnapshot {
        MapSnapshot {
            version: AtomicU64::new(0),
            copy: OnceLock::new(),
            misses_left: AtomicU32::new(MISSES_MIN),
        }
    }

    /// What `lblk` is, if that is known.
    #[inline]
    pub fn find(&self, lblk: Lblk) -> Option<RunLookup> {
        let version = self.version.load(Ordering::Acquire);
        let copy = self.copy.get()?.load();
        let copy = copy.as_ref().filter(|copy| copy.version == version)?;
        let after = copy.extents.partition_point(|e| e.lblk <= lblk);
        let before = after.checked_sub(1).and_then(|at| copy.extents.get(at));
        if let Some(extent) = before
            && let Some(pblk) = extent.map(lblk)
        {
            return Some(RunLookup {
                pblk: Some(pblk),
                unwritten: extent.unwritten,
                len: (extent.end() - u64::from(lblk.0)) as u32,
            });
        }
        let next = copy.extents.get(after);
        let len = next.map_or(1 << 32, |e| u64::from(e.lblk.0)) - u64::from(lblk.0);
        Some(RunLookup {
            pblk: None,
            unwritten: false,
            len: u32::try_from(len).unwrap_or(u32::MAX),
        })
    }

    /// Says that the mapping changed.
    ///
    /// # Locks
    /// The caller holds the `map` lock alone.
    pub fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
        self.forget();
    }

    /// Drops the copy.
    pub fn forget(&self) {
        if let Some(copy) = self.copy.get()
            && copy.load().is_some()
        {
            copy.store(None);
        }
    }

    /// Counts a look-up in the tree; whether a copy is due.
    #[inline]
    pub fn missed(&self) -> bool {
        let left = self.misses_left.load(Ordering::Relaxed);
        if left > 0 {
            self.misses_left.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// The copy's extents from now on; none, where there are too many, or the budget has no room for them.
    ///
    /// # Locks
    /// The caller holds the `map` lock, and has held it since it read them.
    pub fn set(&self, extents: Option<Vec<Extent>>, budget: &SnapshotBudget) {
        let len = extents.as_ref().map_or(EXTENTS_MAX, Vec::len);
        let version = self.version.load(Ordering::Acquire);
        let copy = extents.and_then(|extents| {
            let _room = budget.take(extents.len())?;
            Some(Arc::new(Copy {
                version,
                extents: extents.into(),
                _room,
            }))
        });
        self.copy.get_or_init(Box::default).store(copy);
        let misses = MISSES_MIN + u32::try_from(len / 4).unwrap_or(u32::MAX / 2);
        self.misses_left.store(misses, Ordering::Relaxed);
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
        assert_eq!(budget.0.load(Ordering::Relaxed), 2);
    }
}
