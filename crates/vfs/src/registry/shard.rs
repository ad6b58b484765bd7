//! The superblocks of one shard: a list, searched from end to end, or a hash table.
//!
//! # Invariants
//! `position` of an entry in a list is its place there, so that removal needs no search in either
//! form: what the variants differ in is how a key is found.

use hashbrown::HashTable;
use std::sync::{Arc, OnceLock};
use uext4_sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use uext4_sync::atomic::{AtomicUsize, fence};
use uext4_sync::{CachePadded, Condvar, Mutex, MutexGuard, class};

/// A superblock in the registry, and what the references to it share.
pub(super) struct Entry<K, S> {
    pub(super) key: K,
    /// Of the key; for tables only.
    hash: u64,
    /// References that the registry returned; at first 1, the creator's.
    pub(super) active: AtomicUsize,
    /// Where it is in the list; guarded by the shard's lock.
    position: AtomicUsize,
    pub(super) home: Home<K, S>,
    /// Empty while the superblock is new.
    value: OnceLock<S>,
}

impl<K, S> Entry<K, S> {
    pub(super) fn new(key: K, hash: u64, home: Home<K, S>) -> Entry<K, S> {
        Entry {
            key,
            hash,
            active: AtomicUsize::new(1),
            position: AtomicUsize::new(0),
            home,
            value: OnceLock::new(),
        }
    }

    /// Whether its value was made.
    pub(super) fn has_value(&self) -> bool {
        self.value.get().is_some()
    }

    /// Whether it has a value and a reference. The registry lock is held.
    pub(super) fn is_live(&self) -> bool {
        self.has_value() && self.active.load(Relaxed) > 0
    }

    pub(super) fn set_value(&self, value: S) {
        if self.value.set(value).is_err() {
            unreachable!("only the thread that published a superblock fills it");
        }
    }

    /// The value of a superblock that is not new.
    #[inline(always)]
    pub(super) fn value(&self) -> &S {
        match self.value.get() {
            Some(value) => value,
            None => unreachable!("a new superblock has no reference"),
        }
    }

    /// Drops a reference without a lock, unless it is the last; whether it did.
    pub(super) fn release_unless_last(&self) -> bool {
        let less = |n: usize| if n > 1 { Some(n - 1) } else { None };
        self.active.fetch_update(AcqRel, Acquire, less).is_ok()
    }
}

/// A table has room for so many at first, in 4 KiB and a half: small tables of several shards would lie in one cache line.
const TABLE_ENTRIES_MIN: usize = 448;

/// The superblocks of one shard.
pub(super) enum Index<K, S> {
    /// In no order.
    List(Vec<Arc<Entry<K, S>>>),
    /// By hash.
    Table(HashTable<Arc<Entry<K, S>>>),
}

impl<K: Eq, S> Index<K, S> {
    pub(super) const fn list() -> Index<K, S> {
        Index::List(Vec::new())
    }

    pub(super) const fn table() -> Index<K, S> {
        Index::Table(HashTable::new())
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Index::List(entries) => entries.len(),
            Index::Table(entries) => entries.len(),
        }
    }

    pub(super) fn find(&self, key: &K, hash: u64) -> Option<&Arc<Entry<K, S>>> {
        match self {
            Index::List(entries) => entries.iter().find(|e| e.key == *key),
            Index::Table(entries) => entries.find(hash, |e| e.key == *key),
        }
    }

    /// Adds a new superblock.
    pub(super) fn insert(&mut self, entry: Arc<Entry<K, S>>) {
        match self {
            Index::List(entries) => {
                entry.position.store(entries.len(), Relaxed);
                entries.push(entry);
            }
            Index::Table(entries) => {
                if entries.capacity() == 0 {
                    entries.reserve(TABLE_ENTRIES_MIN, |e| e.hash);
                }
                entries.insert_unique(entry.hash, entry, |e| e.hash);
            }
        }
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, entry: &Arc<Entry<K, S>>) -> Option<Arc<Entry<K, S>>> {
        match self {
            Index::List(entries) => {
                let position = entry.position.load(Relaxed);
                let gone = entries.swap_remove(position);
                if let Some(moved) = entries.get(position) {
                    moved.position.store(position, Relaxed);
                }
                Some(gone)
            }
            Index::Table(entries) => {
                let found = entries.find_entry(entry.hash, |e| Arc::ptr_eq(e, entry));
                found.ok().map(|found| found.remove().0)
            }
        }
    }
}

pub(super) struct Shard<K, S> {
    pub(super) index: Mutex<Index<K, S>>,
    /// How many wait for `settled`; changed under the lock.
    waiting: AtomicUsize,
    /// A new superblock was filled or failed, or a freeing one is gone.
    pub(super) settled: Condvar,
}

impl<K, S> Shard<K, S> {
    pub(super) fn new(index: Index<K, S>) -> Shard<K, S> {
        Shard {
            index: Mutex::new(&class::REGISTRY, index),
            waiting: AtomicUsize::new(0),
            settled: Condvar::new(),
        }
    }

    /// Waits until something has settled, unless `is_settled` by now.
    pub(super) fn wait(
        &self,
        index: &mut MutexGuard<'_, Index<K, S>>,
        is_settled: impl FnOnce(&Index<K, S>) -> bool,
    ) {
        self.waiting.fetch_add(1, SeqCst);
        fence(SeqCst);
        if !is_settled(index) {
            self.settled.wait(index);
        }
        self.waiting.fetch_sub(1, SeqCst);
    }

    /// Wakes the waiters after a value has become visible without the lock.
    pub(super) fn wake_after_fill(&self) {
        fence(SeqCst);
        if self.waiting.load(SeqCst) > 0 {
            // A counted waiter waits by now, or has seen the value.
            drop(self.index.lock());
            self.settled.notify_all();
        }
    }

    /// Removes an entry and wakes its waiters.
    pub(super) fn remove(&self, entry: &Arc<Entry<K, S>>)
    where
        K: Eq,
    {
        let mut index = self.index.lock();
        let gone = index.remove(entry);
        let waiting = self.waiting.load(Relaxed) > 0;
        drop(index);
        drop(gone);
        if waiting {
            self.settled.notify_all();
        }
    }
}

/// Where a superblock belongs; it keeps its own shard alive, so that no counter is shared by all.
pub(super) type Home<K, S> = Arc<CachePadded<Shard<K, S>>>;
