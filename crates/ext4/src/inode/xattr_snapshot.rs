//! The extended attributes of an inode, to be looked up by many threads without a lock: a [`Snapshot`] of those whose
//! values are beside their names. An inode with a value in an inode of its own has no copy.
//!
//! # Invariants
//! Copies keep to the budget of the file system's snapshots, and go with the last reference to their inode.

use crate::inode::snapshot::{Room, Snapshot, SnapshotBudget};
use crate::prelude::*;

/// A copy is made after so many look-ups.
const MISSES: u32 = 64;

#[derive(Debug)]
struct Attributes {
    list: XattrList,
    _room: Room,
}

/// The extended attributes of an inode as they were a moment ago.
#[derive(Debug)]
pub(crate) struct XattrSnapshot(Snapshot<Attributes>);

impl XattrSnapshot {
    /// Nothing is known yet.
    pub fn new() -> XattrSnapshot {
        XattrSnapshot(Snapshot::new(MISSES))
    }

    /// The value of an attribute, or that there is none, if that is known.
    pub fn find(&self, index: XattrIndex, name: &[u8]) -> Option<Option<Vec<u8>>> {
        self.0
            .read(|copy| match &copy.list.get(index, name)?.value {
                XattrOwnedValue::Inline(value) => Some(value.clone()),
                XattrOwnedValue::Inode { .. } => None,
            })
    }

    /// Says that attributes change. The copy stays in memory, as dropping it writes a cache line of each thread.
    ///
    /// # Locks
    /// The caller holds the `xattr` lock.
    pub fn changed(&self) {
        self.0.changed();
    }

    /// Drops the copy.
    pub fn forget(&self) {
        self.0.forget();
    }

    /// Counts a look-up under the lock; whether a copy is due.
    pub fn missed(&self) -> bool {
        self.0.missed()
    }

    /// Copies `lists`, of which a later one hides an earlier one's attributes; none, if they have values in inodes of their
    /// own, or the budget has no room for them.
    ///
    /// # Locks
    /// The caller holds the `xattr` lock, and has held it since it read them.
    pub fn set(&self, lists: Option<[XattrList; 2]>, budget: &SnapshotBudget) {
        let copy = lists.and_then(|lists| {
            let mut list = XattrList::default();
            for x in lists.iter().flat_map(XattrList::iter) {
                match &x.value {
                    XattrOwnedValue::Inline(_) => list.set(x.index, &x.name, x.value.clone()),
                    XattrOwnedValue::Inode { .. } => return None,
                };
            }
            let _room = budget.take(size_of::<Attributes>() + 2 * list.encoded_size())?;
            Some(Attributes { list, _room })
        });
        self.0.set(copy, MISSES);
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    const USER: XattrIndex = XattrIndex(1);

    fn list(name: &[u8], value: XattrOwnedValue) -> XattrList {
        let mut list = XattrList::default();
        list.set(USER, name, value);
        list
    }

    fn inline(value: &[u8]) -> XattrOwnedValue {
        XattrOwnedValue::Inline(value.to_vec())
    }

    #[test]
    fn finds_what_is_there_and_what_is_not() {
        let snapshot = XattrSnapshot::new();
        let budget = SnapshotBudget::new(1000);
        assert_eq!(snapshot.find(USER, b"a"), None);
        let lists = [list(b"a", inline(b"hidden")), list(b"a", inline(b"seen"))];
        snapshot.set(Some(lists.clone()), &budget);
        assert_eq!(snapshot.find(USER, b"a"), Some(Some(b"seen".to_vec())));
        assert_eq!(snapshot.find(USER, b"b"), Some(None));
        snapshot.changed();
        assert_eq!(snapshot.find(USER, b"a"), None);
        snapshot.set(Some(lists), &SnapshotBudget::new(10));
        assert_eq!(snapshot.find(USER, b"a"), None, "no room");
    }

    #[test]
    fn values_in_inodes_of_their_own_are_not_copied() {
        let snapshot = XattrSnapshot::new();
        let large = XattrOwnedValue::Inode {
            ino: Ino(20),
            size: 10_000,
            entry_hash: 0,
        };
        let lists = [list(b"a", inline(b"small")), list(b"b", large)];
        snapshot.set(Some(lists), &SnapshotBudget::new(1000));
        assert_eq!(snapshot.find(USER, b"a"), None);
    }
}
