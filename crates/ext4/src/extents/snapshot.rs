//! A file's mapping as it was a moment ago, to be looked up by many threads without a lock.
//!
//! # Data model
//! A copy of all extents, sorted, and the version of the mapping that it was made of. Every change of
//! the mapping raises the version, and so makes the copy useless. A new one is made when as many
//! look-ups went down the tree as make it worth its while.
//!
//! # Invariants
//! A look-up that begins after a change has ended does not find what was before: the version is raised
//! before the change's `map` lock is let go. One that runs beside a change finds either; so whoever takes
//! blocks away keeps the inode's `ilock` alone, and nobody looks up and uses them meanwhile.
//!
//! # Locking
//! None to look up. The `map` lock, shared, to make a copy.

use super::Mapping;
use arc_swap::ArcSwapOption;
use std::sync::{Arc, OnceLock};
use uext4_ondisk::{Extent, Lblk};
use uext4_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The most extents that are copied.
pub(crate) const EXTENTS_MAX: usize = 1 << 16;
/// A copy is made after so many look-ups in the tree, and one more for every fourth extent.
const MISSES_MIN: u32 = 16;

#[derive(Debug)]
struct Copy {
    version: u64,
    extents: Box<[Extent]>,
}

/// A file's mapping as it was a moment ago.
#[derive(Debug)]
pub(crate) struct MapSnapshot {
    version: AtomicU64,
    /// Made with the first copy: of the many inodes that never have one, none pays for letting go of it.
    copy: OnceLock<Box<ArcSwapOption<Copy>>>,
    /// Look-ups in the tree until a copy is made.
    misses_left: AtomicU32,
    /// Somebody who must not wait wants one.
    wanted: AtomicBool,
}

impl MapSnapshot {
    /// Nothing is known yet.
    pub fn new() -> MapSnapshot {
        MapSnapshot {
            version: AtomicU64::new(0),
            copy: OnceLock::new(),
            misses_left: AtomicU32::new(MISSES_MIN),
            wanted: AtomicBool::new(false),
        }
    }

    /// What `lblk` is, if that is known.
    #[inline]
    pub fn find(&self, lblk: Lblk) -> Option<Mapping> {
        let version = self.version.load(Ordering::Acquire);
        let copy = self.copy.get()?.load();
        let copy = copy.as_ref().filter(|copy| copy.version == version)?;
        let after = copy.extents.partition_point(|e| e.lblk <= lblk);
        let before = after.checked_sub(1).and_then(|at| copy.extents.get(at));
        if let Some(extent) = before
            && let Some(pblk) = extent.map(lblk)
        {
            return Some(Mapping {
                pblk: Some(pblk),
                unwritten: extent.unwritten,
                len: (extent.end() - u64::from(lblk.0)) as u32,
            });
        }
        let next = copy.extents.get(after);
        let len = next.map_or(1 << 32, |e| u64::from(e.lblk.0)) - u64::from(lblk.0);
        Some(Mapping {
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
    }

    /// Counts a look-up in the tree; whether a copy is due.
    #[inline]
    pub fn missed(&self) -> bool {
        let left = self.misses_left.load(Ordering::Relaxed);
        if left > 0 {
            self.misses_left.store(left - 1, Ordering::Relaxed);
        }
        left == 0 || self.wanted.load(Ordering::Relaxed)
    }

    /// Asks for a copy to be made by the next who may wait.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// The copy's extents from now on; none, where there are too many.
    ///
    /// # Locks
    /// The caller holds the `map` lock, and has held it since it read them.
    pub fn set(&self, extents: Option<Vec<Extent>>) {
        let len = extents.as_ref().map_or(EXTENTS_MAX, Vec::len);
        let version = self.version.load(Ordering::Acquire);
        let copy = extents.map(|extents| {
            Arc::new(Copy {
                version,
                extents: extents.into(),
            })
        });
        self.copy.get_or_init(Box::default).store(copy);
        self.wanted.store(false, Ordering::Relaxed);
        let misses = MISSES_MIN + u32::try_from(len / 4).unwrap_or(u32::MAX / 2);
        self.misses_left.store(misses, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;
    use uext4_ondisk::Pblk;

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
        map.set(Some(vec![
            extent(2, 3, 100, false),
            extent(10, 1, 200, true),
        ]));
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
    fn a_copy_is_due_after_some_misses_or_at_once_if_wanted() {
        let map = MapSnapshot::new();
        for _ in 0..MISSES_MIN {
            assert!(!map.missed());
        }
        assert!(map.missed());
        map.set(Some(Vec::new()));
        assert!(!map.missed());
        map.want();
        assert!(map.missed());
    }
}
