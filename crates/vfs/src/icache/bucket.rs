//! One bucket of the inode cache: the slots of the inodes that hash to it.
//!
//! # Invariants
//! A slot without an inode is *empty*: one thread loads or evicts that inode, with no lock held. No other thread fills or
//! removes the slot meanwhile.

use super::cached_inode::CachedInode;
use hashbrown::HashTable;
use std::sync::Arc;

/// The inode number's place in the cache.
pub(super) struct Slot<I> {
    /// The inode number, and [`USED`].
    key: u64,
    /// `None` while it is loaded or evicted.
    pub(super) inode: Option<Arc<I>>,
}

/// Set in a slot's key by every use, cleared by the clock: the inode gets a second chance. No file
/// system numbers inodes that high.
const USED: u64 = 1 << 63;

impl<I> Slot<I> {
    fn ino(&self) -> u64 {
        self.key & !USED
    }
}

/// A table of slots by inode number, with the hand of the clock.
pub(super) struct Bucket<I> {
    table: HashTable<Slot<I>>,
    hand: usize,
}

/// Spreads neighbouring inode numbers over the table.
fn hash(ino: u64) -> u64 {
    let wide = u128::from(ino) * 0x9e37_79b9_7f4a_7c15;
    (wide >> 64) as u64 ^ wide as u64
}

impl<I: CachedInode> Bucket<I> {
    pub(super) const fn new() -> Bucket<I> {
        Bucket {
            table: HashTable::new(),
            hand: 0,
        }
    }

    /// Where in the table the slot of `ino` is, until the next change of the table.
    #[inline]
    pub(super) fn place(&self, ino: u64) -> Option<usize> {
        self.table.find_bucket_index(hash(ino), |s| s.ino() == ino)
    }

    /// Whether the slot at `place` has its inode.
    #[inline]
    pub(super) fn is_filled(&self, place: usize) -> bool {
        self.table
            .get_bucket(place)
            .is_some_and(|slot| slot.inode.is_some())
    }

    /// The slot at `place`, marked as used.
    #[inline]
    pub(super) fn use_slot(&mut self, place: usize) -> Option<&mut Slot<I>> {
        let slot = self.table.get_bucket_mut(place)?;
        slot.key |= USED;
        Some(slot)
    }

    /// The inode, if it is loaded; does not mark it as used.
    pub(super) fn peek(&self, ino: u64) -> Option<&Arc<I>> {
        self.table
            .find(hash(ino), |s| s.ino() == ino)?
            .inode
            .as_ref()
    }

    /// The slot of `ino`; leaves the mark alone.
    pub(super) fn slot_mut(&mut self, ino: u64) -> Option<&mut Slot<I>> {
        self.table.find_mut(hash(ino), |s| s.ino() == ino)
    }

    /// Makes a slot for `ino`, which must have none.
    pub(super) fn insert(&mut self, ino: u64, inode: Option<Arc<I>>) {
        let slot = Slot {
            key: ino | USED,
            inode,
        };
        self.table.insert_unique(hash(ino), slot, |s| hash(s.ino()));
    }

    /// Removes the slot if `condition` holds for it.
    pub(super) fn remove_if(
        &mut self,
        ino: u64,
        condition: impl FnOnce(&Slot<I>) -> bool,
    ) -> Option<Slot<I>> {
        let entry = self.table.find_entry(hash(ino), |s| s.ino() == ino).ok()?;
        condition(entry.get()).then(|| entry.remove().0)
    }

    /// Adds every loaded inode to `out`.
    pub(super) fn snapshot(&self, out: &mut Vec<Arc<I>>) {
        out.extend(self.table.iter().filter_map(|s| s.inode.clone()));
    }

    /// Moves the hand over at most `steps` places. Empties at most `wanted` slots into `out`: those whose inode is idle and
    /// was not used since the last round. Inodes that must be written first are added to `dirty` instead, and count. True at
    /// the end of the round.
    pub(super) fn sweep(
        &mut self,
        steps: usize,
        wanted: usize,
        out: &mut Vec<Arc<I>>,
        dirty: &mut Vec<Arc<I>>,
    ) -> bool {
        let places = self.table.num_buckets();
        let end = places.min(self.hand.saturating_add(steps));
        let full = out.len().saturating_add(wanted);
        while self.hand < end && out.len() + dirty.len() < full {
            if let Some(slot) = self.table.get_bucket_mut(self.hand) {
                if slot.key & USED != 0 {
                    slot.key &= !USED;
                } else if let Some(inode) = slot.inode.as_mut()
                    && is_idle(inode)
                {
                    if inode.needs_write() {
                        dirty.push(Arc::clone(inode));
                    } else {
                        out.extend(slot.inode.take());
                    }
                }
            }
            self.hand += 1;
        }
        let done = self.hand >= places;
        if done {
            self.hand = 0;
        }
        done
    }
}

/// Whether only the cache has a reference, and the inode agrees to go. The bucket lock is held, so
/// no reference can be made meanwhile.
fn is_idle<I: CachedInode>(inode: &mut Arc<I>) -> bool {
    Arc::strong_count(inode) == 1 && inode.may_evict() && Arc::get_mut(inode).is_some()
}
