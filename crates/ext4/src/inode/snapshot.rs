//! What a lock guards, as a copy that many threads read without writing a cache line.
//!
//! # Data model
//! A copy and the version that it was made of. Every change raises the version, and so makes the copy useless. A new one
//! is made when as many readers took the lock as make it worth its while.
//!
//! # Invariants
//! - A copy never changes, so a reader that finds the current version on it has what the lock would have given it when
//!   it read the version.
//! - The version is raised under the lock, and before a change is published anywhere else: a thread that saw any effect
//!   of a change does not find a copy from before.
//!
//! # Locking
//! None to read. What is copied is guarded by the owner's lock, which changes hold alone.

use crate::prelude::*;
use arc_swap::ArcSwapOption;
use uext4_sync::atomic::AtomicI64;

#[derive(Debug)]
struct Copy<T> {
    version: u64,
    of: T,
}

/// The current version of what is copied, and the copy.
#[derive(Debug)]
struct Versioned<T> {
    version: AtomicU64,
    copy: ArcSwapOption<Copy<T>>,
}

/// A copy of what a lock guards; see the module.
#[derive(Debug)]
pub(crate) struct Snapshot<T> {
    /// Allocated with the first copy: most inodes never have one.
    versioned: OnceLock<Box<CachePadded<Versioned<T>>>>,
    /// Readers that take the lock until a copy is made.
    misses_left: AtomicU32,
}

impl<T> Snapshot<T> {
    /// Without a copy; the first is due after so many readers.
    pub fn new(misses: u32) -> Snapshot<T> {
        Snapshot {
            versioned: OnceLock::new(),
            misses_left: AtomicU32::new(misses),
        }
    }

    /// Runs `f` on the copy, if it is current.
    #[inline]
    pub fn read<R>(&self, f: impl FnOnce(&T) -> R) -> Option<R> {
        let versioned = self.versioned.get()?;
        let version = versioned.version.load(Ordering::Acquire);
        let copy = versioned.copy.load();
        let copy = copy.as_ref().filter(|copy| copy.version == version)?;
        Some(f(&copy.of))
    }

    /// Says that what was copied changes; the copy stays in memory.
    ///
    /// # Locks
    /// The caller holds the lock alone.
    #[inline]
    pub fn changed(&self) {
        if let Some(versioned) = self.versioned.get() {
            let version = versioned.version.load(Ordering::Relaxed);
            versioned.version.store(version + 1, Ordering::Release);
        }
    }

    /// Drops the copy, which writes a cache line of each thread that ever read one.
    pub fn forget(&self) {
        if let Some(versioned) = self.versioned.get()
            && versioned.copy.load().is_some()
        {
            versioned.copy.store(None);
        }
    }

    /// Counts a reader that took the lock; whether a copy is due.
    #[inline]
    pub fn missed(&self) -> bool {
        let left = self.misses_left.load(Ordering::Relaxed);
        if left > 0 {
            self.misses_left.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// Sets the copy, or none; the next is due after so many readers. Where there was a copy, that writes as
    /// [`Snapshot::forget`] does.
    ///
    /// # Locks
    /// The caller holds the lock, and has held it since it read what it copied.
    pub fn set(&self, of: Option<T>, misses: u32) {
        let new = || {
            let (version, copy) = (AtomicU64::new(0), ArcSwapOption::empty());
            Box::new(CachePadded::new(Versioned { version, copy }))
        };
        let versioned = self.versioned.get_or_init(new);
        let version = versioned.version.load(Ordering::Acquire);
        let copy = of.map(|of| Arc::new(Copy { version, of }));
        versioned.copy.store(copy);
        self.misses_left.store(misses, Ordering::Relaxed);
    }
}

/// How many bytes all copies of a file system that count may have together.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotBudget(Arc<AtomicI64>);

impl SnapshotBudget {
    /// So many bytes.
    pub fn new(bytes: u64) -> SnapshotBudget {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        SnapshotBudget(Arc::new(AtomicI64::new(bytes)))
    }

    /// Takes room for so many bytes, if there is some.
    pub fn take(&self, bytes: usize) -> Option<Room> {
        let bytes = bytes as i64;
        let before = self.0.fetch_sub(bytes, Ordering::Relaxed);
        let room = Room {
            budget: self.clone(),
            bytes,
        };
        (before >= bytes).then_some(room)
    }
}

/// Room in a budget, released when dropped.
#[derive(Debug)]
pub(crate) struct Room {
    budget: SnapshotBudget,
    bytes: i64,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_due_after_some_misses_and_holds_until_a_change() {
        let snapshot = Snapshot::new(3);
        for _ in 0..3 {
            assert!(!snapshot.missed());
        }
        assert!(snapshot.missed());
        snapshot.set(Some(7), 1);
        assert_eq!(snapshot.read(|n| *n), Some(7));
        assert!(!snapshot.missed());
        snapshot.changed();
        assert_eq!(snapshot.read(|n| *n), None);
        snapshot.set(Some(8), 1);
        assert_eq!(snapshot.read(|n| *n), Some(8));
        snapshot.forget();
        assert_eq!(snapshot.read(|n| *n), None);
    }

    #[test]
    fn copies_keep_to_a_budget() {
        let budget = SnapshotBudget::new(10);
        let room = budget.take(6);
        assert!(room.is_some());
        assert!(budget.take(6).is_none());
        drop(room);
        assert!(budget.take(6).is_some());
        assert_eq!(budget.0.load(Ordering::Relaxed), 10);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// A value under a lock, a snapshot of it, and an atomic that shows it, too.
    struct Guarded {
        value: Mutex<u64>,
        shown: AtomicU64,
        snapshot: Snapshot<u64>,
    }

    impl Guarded {
        fn change(&self) {
            let mut value = self.value.lock().unwrap();
            *value += 1;
            self.snapshot.changed();
            self.shown.store(*value, Ordering::Release);
        }

        fn read(&self) -> u64 {
            self.snapshot.read(|n| *n).unwrap_or_else(|| {
                let value = self.value.lock().unwrap();
                self.snapshot.set(Some(*value), 0);
                *value
            })
        }
    }

    /// A reader finds no less than what it saw before, in the atomic or in the snapshot.
    #[test]
    fn loom_a_snapshot_is_never_behind_what_was_seen() {
        loom::model(|| {
            let guarded = Arc::new(Guarded {
                value: Mutex::new(0),
                shown: AtomicU64::new(0),
                snapshot: Snapshot::new(0),
            });
            // Loom does not know that a `OnceLock` orders what is in it.
            guarded.read();
            let [writer, reader] = [(); 2].map(|()| Arc::clone(&guarded));
            let writer = thread::spawn(move || {
                writer.change();
                assert!(writer.read() >= 1, "its own change");
            });
            let reader = thread::spawn(move || {
                let shown = reader.shown.load(Ordering::Acquire);
                let first = reader.read();
                assert!(first >= shown);
                assert!(reader.read() >= first);
            });
            writer.join().unwrap();
            reader.join().unwrap();
            assert_eq!(guarded.read(), 1);
        });
    }
}
