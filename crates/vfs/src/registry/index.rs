//! The superblocks of one shard: a list, searched from end to end, or a hash table.
//!
//! # Invariants
//! `position` of an entry in a list is its place there, so that removal needs no search in either
//! form: what the arms differ in is how a key is found.

use hashbrown::HashTable;
use std::sync::Arc;
use uext4_sync::atomic::{AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

/// What the references to a superblock share.
pub(super) struct Entry<K> {
    pub(super) key: K,
    /// Of the key; for tables only.
    hash: u64,
    /// References that the registry gave out. 1 at birth, for who made it.
    pub(super) active: AtomicUsize,
    /// Where it is in the list; guarded by the shard's lock.
    position: AtomicUsize,
}

impl<K> Entry<K> {
    pub(super) fn new(key: K, hash: u64) -> Entry<K> {
        Entry {
            key,
            hash,
            active: AtomicUsize::new(1),
            position: AtomicUsize::new(0),
        }
    }

    /// Lets go of a reference without a lock; false, and nothing done, for the last.
    pub(super) fn release_unless_last(&self) -> bool {
        let less = |n: usize| if n > 1 { Some(n - 1) } else { None };
        self.active.fetch_update(AcqRel, Acquire, less).is_ok()
    }
}

/// A superblock in the registry.
pub(super) struct Node<K, S> {
    pub(super) entry: Arc<Entry<K>>,
    /// `None` while it is unborn or dying.
    pub(super) live: Option<Arc<S>>,
}

/// The superblocks of one shard.
pub(super) enum Index<K, S> {
    /// In no order.
    List(Vec<Node<K, S>>),
    /// By hash.
    Table(HashTable<Node<K, S>>),
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
            Index::List(nodes) => nodes.len(),
            Index::Table(nodes) => nodes.len(),
        }
    }

    pub(super) fn find(&self, key: &K, hash: u64) -> Option<&Node<K, S>> {
        match self {
            Index::List(nodes) => nodes.iter().find(|n| n.entry.key == *key),
            Index::Table(nodes) => nodes.find(hash, |n| n.entry.key == *key),
        }
    }

    /// Adds an unborn superblock.
    pub(super) fn insert(&mut self, entry: Arc<Entry<K>>) {
        match self {
            Index::List(nodes) => {
                entry.position.store(nodes.len(), Relaxed);
                nodes.push(Node { entry, live: None });
            }
            Index::Table(nodes) => {
                let hash = entry.hash;
                let node = Node { entry, live: None };
                nodes.insert_unique(hash, node, |n| n.entry.hash);
            }
        }
    }

    pub(super) fn set_live(&mut self, entry: &Arc<Entry<K>>, value: Arc<S>) {
        if let Some(node) = self.node_mut(entry) {
            node.live = Some(value);
        }
    }

    pub(super) fn take_live(&mut self, entry: &Arc<Entry<K>>) -> Option<Arc<S>> {
        self.node_mut(entry)?.live.take()
    }

    pub(super) fn remove(&mut self, entry: &Arc<Entry<K>>) {
        match self {
            Index::List(nodes) => {
                let position = entry.position.load(Relaxed);
                nodes.swap_remove(position);
                if let Some(moved) = nodes.get(position) {
                    moved.entry.position.store(position, Relaxed);
                }
            }
            Index::Table(nodes) => {
                if let Ok(found) = nodes.find_entry(entry.hash, |n| Arc::ptr_eq(&n.entry, entry)) {
                    found.remove();
                }
            }
        }
    }

    fn node_mut(&mut self, entry: &Arc<Entry<K>>) -> Option<&mut Node<K, S>> {
        match self {
            Index::List(nodes) => nodes.get_mut(entry.position.load(Relaxed)),
            Index::Table(nodes) => nodes.find_mut(entry.hash, |n| Arc::ptr_eq(&n.entry, entry)),
        }
    }
}
