//! The lock of mechanism 4: the inode lock, shared or exclusive, the order of two of them, and locks on
//! ranges of a file.
//!
//! # Variants
//! [`DioLock`] names how direct I/O takes the lock (`dio-lock=`): `exclusive-first` (before),
//! `shared-first` (after), `shared-always`, `range` (beyond). The lock is the same for all of them.
//!
//! # Invariants
//! A directory's lock has the class `dir_ilock`, any other `ilock`; the kind of an inode never
//! changes, so the class is chosen when the lock is made.
//!
//! # Locking
//! Directories before other inodes. Two directories: the ancestor first, unrelated ones by inode
//! number, and only with the rename mutex held, as nothing else keeps a rename from reversing
//! their order. Other inodes: ascending inode number. A range of a file: after its inode lock,
//! which is held shared, and before those of larger inodes.

use crate::attr::FileKind;
use std::ops::Range;
use uext4_sync::{Mutex, MutexGuard, RangeGuard, RangeLock, RwSem, RwSemGuard, class, stat};

/// How an inode is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Shared with other readers.
    Shared,
    /// Exclusive.
    Exclusive,
}

/// The lock of one inode: a directory's entries, or a file's size and data layout.
#[derive(Debug)]
pub struct ILock {
    lock: RwSem,
    ino: u64,
}

/// Holds an [`ILock`] until dropped. What the lock guards is in the inode.
#[derive(Debug)]
#[must_use]
pub struct ILockGuard<'a>(RwSemGuard<'a>);

impl ILock {
    /// An unlocked lock for an inode that is a `kind` of file.
    pub const fn new(ino: u64, kind: FileKind) -> ILock {
        let class = if matches!(kind, FileKind::Directory) {
            &class::DIR_ILOCK
        } else {
            &class::ILOCK
        };
        ILock {
            lock: RwSem::new(class),
            ino,
        }
    }

    fn is_dir(&self) -> bool {
        std::ptr::eq(self.lock.class(), &class::DIR_ILOCK)
    }

    /// The position of this lock among those whose order does not follow from the tree.
    fn rank_key(&self) -> (bool, u64) {
        (!self.is_dir(), self.ino)
    }

    /// The key of the lock among those of its rank; the next one is that of the inode's ranges.
    const fn key(&self) -> u64 {
        self.ino.wrapping_mul(2)
    }
}

impl AsRef<ILock> for ILock {
    fn as_ref(&self) -> &ILock {
        self
    }
}

/// Locks an inode, waiting for it.
///
/// # Locks
/// Takes `ilock` or `dir_ilock`. Under another of its kind only a child directory's, or one with a
/// larger inode number; see [`ilock_two`].
#[inline]
pub fn ilock<I: AsRef<ILock> + ?Sized>(inode: &I, mode: LockMode) -> ILockGuard<'_> {
    let ilock = inode.as_ref();
    ILockGuard(match mode {
        LockMode::Shared => ilock.lock.shared(ilock.key()),
        LockMode::Exclusive => ilock.lock.exclusive(ilock.key()),
    })
}

/// Locks an inode if that needs no waiting (`RWF_NOWAIT`); `None` stands for `EAGAIN`.
#[inline]
pub fn try_ilock<I: AsRef<ILock> + ?Sized>(inode: &I, mode: LockMode) -> Option<ILockGuard<'_>> {
    let ilock = inode.as_ref();
    Some(ILockGuard(match mode {
        LockMode::Shared => ilock.lock.try_shared()?,
        LockMode::Exclusive => ilock.lock.try_exclusive()?,
    }))
}

impl<'a> ILockGuard<'a> {
    /// How the inode is locked.
    #[inline]
    pub const fn mode(&self) -> LockMode {
        match self.0.mode() {
            stat::Mode::Shared => LockMode::Shared,
            stat::Mode::Exclusive => LockMode::Exclusive,
        }
    }

    /// Downgrades the lock to shared; no other writer can take it in between.
    pub fn downgrade(self) -> ILockGuard<'a> {
        ILockGuard(self.0.downgrade())
    }
}

/// Locks a range of a file exclusively; waits for every overlapping range that was requested before.
///
/// # Locks
/// The inode's lock is held, shared or not, which `_locked` proves. Takes `range`.
pub fn ilock_range<'a, I: AsRef<ILock> + ?Sized>(
    inode: &I,
    ranges: &'a RangeLock,
    range: Range<u64>,
    _locked: &ILockGuard<'_>,
) -> RangeGuard<'a> {
    ranges.lock(range, inode.as_ref().key() | 1)
}

/// As [`ilock_range`] if that needs no waiting (`RWF_NOWAIT`); `None` stands for `EAGAIN`.
pub fn try_ilock_range<'a>(
    ranges: &'a RangeLock,
    range: Range<u64>,
    _locked: &ILockGuard<'_>,
) -> Option<RangeGuard<'a>> {
    ranges.try_lock(range)
}

/// The one lock of a file system that renames between directories hold, so that the shape of the tree is stable.
#[derive(Debug)]
pub struct RenameMutex(Mutex<TreeShape>);

/// The right to move directories. Has no data: the shape of the tree is in the directories.
#[derive(Debug)]
struct TreeShape;

/// Proof that the [`RenameMutex`] is held.
#[derive(Debug)]
pub struct RenameGuard<'a> {
    _held: MutexGuard<'a, TreeShape>,
}

impl RenameMutex {
    /// An unlocked one.
    pub const fn new() -> RenameMutex {
        RenameMutex(Mutex::new(&class::RENAME, TreeShape))
    }

    /// Takes it, waiting.
    ///
    /// # Locks
    /// Takes `rename`: with no inode lock held.
    pub fn lock(&self) -> RenameGuard<'_> {
        RenameGuard {
            _held: self.0.lock(),
        }
    }
}

impl Default for RenameMutex {
    fn default() -> RenameMutex {
        RenameMutex::new()
    }
}

/// The relation of two directories in the tree, found with the rename mutex held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirOrder {
    /// The first is an ancestor of the second.
    FirstAbove,
    /// The second is an ancestor of the first.
    SecondAbove,
    /// Neither.
    Unrelated,
}

/// The guards of two inodes, in the order of the arguments; `second` is `None` when they are one.
#[derive(Debug)]
pub struct ILockPair<'a> {
    /// Holds the first argument's lock.
    pub first: ILockGuard<'a>,
    /// Holds the second argument's lock.
    pub second: Option<ILockGuard<'a>>,
}

/// Locks two inodes of which at most one is a directory: that one first, else by inode number.
///
/// # Locks
/// Takes `dir_ilock`, then `ilock`; no other of the latter may be held with a larger number.
pub fn ilock_two<'a, I: AsRef<ILock> + ?Sized>(
    first: &'a I,
    second: &'a I,
    mode: LockMode,
) -> ILockPair<'a> {
    let (a, b) = (first.as_ref(), second.as_ref());
    debug_assert!(
        std::ptr::eq(a, b) || !(a.is_dir() && b.is_dir()),
        "two directories need ilock_two_dirs"
    );
    lock_pair(a, b, mode, a.rank_key() < b.rank_key())
}

/// Locks two directories: the ancestor first, unrelated ones by inode number.
///
/// # Locks
/// The rename mutex is held, which `_rename` proves. Takes `dir_ilock` twice.
pub fn ilock_two_dirs<'a, I: AsRef<ILock> + ?Sized>(
    first: &'a I,
    second: &'a I,
    mode: LockMode,
    order: DirOrder,
    _rename: &RenameGuard<'_>,
) -> ILockPair<'a> {
    let (a, b) = (first.as_ref(), second.as_ref());
    let first_first = match order {
        DirOrder::FirstAbove => true,
        DirOrder::SecondAbove => false,
        DirOrder::Unrelated => a.ino < b.ino,
    };
    lock_pair(a, b, mode, first_first)
}

fn lock_pair<'a>(a: &'a ILock, b: &'a ILock, mode: LockMode, a_first: bool) -> ILockPair<'a> {
    if std::ptr::eq(a, b) {
        return ILockPair {
            first: ilock(a, mode),
            second: None,
        };
    }
    if a_first {
        let first = ilock(a, mode);
        let second = Some(ilock(b, mode));
        ILockPair { first, second }
    } else {
        let second = Some(ilock(b, mode));
        let first = ilock(a, mode);
        ILockPair { first, second }
    }
}

/// The variants of mechanism 4 (`dio-lock=`): how direct I/O takes the inode lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DioLock {
    /// `exclusive-first` (before): exclusive, then downgraded if the write proves to be an overwrite.
    ExclusiveFirst,
    /// `shared-first` (after): shared with dioread_nolock, exclusive only when that proves wrong.
    SharedFirst,
    /// `shared-always`: shared overwrites in both mount modes.
    SharedAlways,
    /// `range` (beyond): writes that do not overlap run together, even when they allocate.
    #[default]
    Range,
}

variants!(
    DioLock,
    "dio-lock",
    ExclusiveFirst = "exclusive-first",
    SharedFirst = "shared-first",
    SharedAlways = "shared-always",
    Range = "range",
);

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const FILE: FileKind = FileKind::Regular;
    const DIR: FileKind = FileKind::Directory;

    #[test]
    fn shared_and_exclusive_exclude_each_other() {
        let lock = ILock::new(12, FILE);
        {
            let shared = ilock(&lock, LockMode::Shared);
            assert_eq!(shared.mode(), LockMode::Shared);
            assert!(try_ilock(&lock, LockMode::Shared).is_some());
            assert!(try_ilock(&lock, LockMode::Exclusive).is_none());
        }
        let exclusive = ilock(&lock, LockMode::Exclusive);
        assert!(try_ilock(&lock, LockMode::Shared).is_none());
        let shared = exclusive.downgrade();
        assert_eq!(shared.mode(), LockMode::Shared);
        assert!(try_ilock(&lock, LockMode::Shared).is_some());
        assert_eq!(shared.downgrade().mode(), LockMode::Shared);
    }

    #[test]
    fn two_files_in_either_order() {
        let (a, b) = (ILock::new(20, FILE), ILock::new(13, FILE));
        drop(ilock_two(&a, &b, LockMode::Exclusive));
        drop(ilock_two(&b, &a, LockMode::Shared));
        let same = ilock_two(&a, &a, LockMode::Exclusive);
        assert!(same.second.is_none());
    }

    #[test]
    fn a_directory_goes_before_a_file() {
        let (dir, file) = (ILock::new(99, DIR), ILock::new(13, FILE));
        let pair = ilock_two(&file, &dir, LockMode::Exclusive);
        assert!(try_ilock(&file, LockMode::Shared).is_none());
        assert!(try_ilock(&dir, LockMode::Shared).is_none());
        drop(pair.second);
        assert!(try_ilock(&dir, LockMode::Shared).is_some());
    }

    #[test]
    fn two_directories_under_the_rename_mutex() {
        let (a, b) = (ILock::new(2, DIR), ILock::new(11, DIR));
        let mutex = RenameMutex::default();
        let rename = mutex.lock();
        for order in [
            DirOrder::FirstAbove,
            DirOrder::SecondAbove,
            DirOrder::Unrelated,
        ] {
            let pair = ilock_two_dirs(&a, &b, LockMode::Exclusive, order, &rename);
            assert!(try_ilock(&a, LockMode::Shared).is_none());
            assert!(pair.second.is_some());
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock order: taking ilock")]
    fn descending_inode_numbers_panic() {
        let (a, b) = (ILock::new(20, FILE), ILock::new(13, FILE));
        let _a = ilock(&a, LockMode::Shared);
        let _b = ilock(&b, LockMode::Shared);
    }

    #[test]
    fn a_range_goes_after_its_inode_and_before_the_next() {
        let (a, b) = (ILock::new(12, FILE), ILock::new(13, FILE));
        let ranges = RangeLock::new();
        let locked = ilock(&a, LockMode::Shared);
        let _held = ilock_range(&a, &ranges, 0..4096, &locked);
        assert!(try_ilock_range(&ranges, 4095..5000, &locked).is_none());
        assert!(try_ilock_range(&ranges, 4096..5000, &locked).is_some());
        drop(ilock(&b, LockMode::Shared));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock order: taking ilock (rank 7) while holding range")]
    fn an_inode_under_its_range_panics() {
        let a = ILock::new(12, FILE);
        let ranges = RangeLock::new();
        let _held = ilock_range(&a, &ranges, 0..1, &ilock(&a, LockMode::Shared));
        let _locked = ilock(&a, LockMode::Shared);
    }

    #[test]
    fn an_idle_lock_is_small() {
        assert_eq!(size_of::<ILock>(), 32);
    }

    #[test]
    fn variant_names_round_trip() {
        for variant in DioLock::ALL {
            assert_eq!(variant.to_string().parse(), Ok(variant));
        }
        let error = "fast".parse::<DioLock>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "dio-lock: no variant `fast`; there are exclusive-first, shared-first, shared-always, range"
        );
    }
}
