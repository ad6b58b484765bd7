//! The nodes that the kernel has references to.
//!
//! # Data model
//! A node's id is its inode number, but for the root, which has [`ROOT_ID`]. While the kernel has a reference, the
//! inode is kept here, so its number is not allocated to another file.
//!
//! # Locking
//! A shard for each of the last bits of the number (`fuse_nodes`). A removed node is dropped after the lock is
//! released: the last reference to an unlinked file deletes it.

use crate::abi::ROOT_ID;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use uext4_sync::{CachePadded, Mutex, class};

/// Shards; a power of two.
const SHARDS: usize = 64;

/// A node, and how many references to it the kernel has.
struct Held<N> {
    node: N,
    nlookup: u64,
    /// The kernel may have cached data of it.
    cached: bool,
    /// It was opened for writing: the kernel may have data of it that it has not sent.
    writable: bool,
    /// How often it is open for writing.
    writers: u32,
}

/// Numbers are their own hash: the kernel takes them from the file system, where they follow each other.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Spreads the number over all bits: the table uses the highest and the lowest.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Shard<N> = HashMap<u64, Held<N>, BuildHasherDefault<NumberHasher>>;

/// The nodes that the kernel has references to.
pub struct Nodes<N> {
    shards: Vec<CachePadded<Mutex<Shard<N>>>>,
    root: N,
}

impl<N: Clone> Nodes<N> {
    /// Only the root, which is never removed.
    pub fn new(root: N) -> Nodes<N> {
        let shard = || CachePadded::new(Mutex::new(&class::FUSE_NODES, Shard::default()));
        Nodes {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            root,
        }
    }

    fn shard(&self, id: u64) -> &Mutex<Shard<N>> {
        &self.shards[id as usize % SHARDS]
    }

    /// The node with that id.
    pub fn get(&self, id: u64) -> Option<N> {
        if id == ROOT_ID {
            return Some(self.root.clone());
        }
        self.shard(id).lock().get(&id).map(|held| held.node.clone())
    }

    /// The node with that id. Marks that the kernel may cache its data from now on.
    pub fn get_for_cache(&self, id: u64) -> Option<N> {
        let mut shard = self.shard(id).lock();
        let held = shard.get_mut(&id)?;
        held.cached = true;
        Some(held.node.clone())
    }

    /// Whether the kernel may have cached data of that node. Clears the mark: the caller invalidates the data.
    pub fn take_cached(&self, id: u64) -> bool {
        let mut shard = self.shard(id).lock();
        let held = shard.get_mut(&id);
        held.is_some_and(|held| std::mem::take(&mut held.cached))
    }

    /// Counts that a node was opened for writing: the kernel may write data of it later than it says.
    pub fn open_for_writing(&self, id: u64) {
        if let Some(held) = self.shard(id).lock().get_mut(&id) {
            held.writable = true;
            held.writers = held.writers.saturating_add(1);
        }
    }

    /// Counts that one that was opened for writing is closed.
    pub fn end_writing(&self, id: u64) {
        if let Some(held) = self.shard(id).lock().get_mut(&id) {
            held.writers = held.writers.saturating_sub(1);
        }
    }

    /// Whether a node is open for writing.
    pub fn has_writers(&self, id: u64) -> bool {
        let shard = self.shard(id).lock();
        shard.get(&id).is_some_and(|held| held.writers > 0)
    }

    /// The nodes of which the kernel may have data that it has not sent.
    pub fn writable(&self) -> Vec<u64> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            found.extend(
                shard
                    .iter()
                    .filter(|(_, held)| held.writable)
                    .map(|(id, _)| *id),
            );
        }
        found
    }

    /// The nodes to which the kernel has references.
    pub fn all(&self) -> Vec<u64> {
        let mut found = Vec::new();
        for shard in &self.shards {
            found.extend(shard.lock().keys().copied());
        }
        found
    }

    /// Counts a reference of the kernel.
    pub fn hold(&self, id: u64, node: N) {
        if id == ROOT_ID {
            return;
        }
        let mut spare = Some(node);
        let mut shard = self.shard(id).lock();
        let held = shard.entry(id).or_insert_with(|| Held {
            node: spare.take().expect("runs at most once"),
            nlookup: 0,
            cached: false,
            writable: false,
            writers: 0,
        });
        held.nlookup += 1;
        drop(shard);
        drop(spare);
    }

    /// Removes `count` references of the kernel.
    pub fn forget(&self, id: u64, count: u64) {
        let mut shard = self.shard(id).lock();
        let Some(held) = shard.get_mut(&id) else {
            return;
        };
        held.nlookup = held.nlookup.saturating_sub(count);
        let gone = (held.nlookup == 0).then(|| shard.remove(&id));
        drop(shard);
        drop(gone);
    }

    /// Removes all nodes but the root.
    pub fn clear(&self) {
        for shard in &self.shards {
            let gone = std::mem::take(&mut *shard.lock());
            drop(gone);
        }
    }

    /// The number of nodes besides the root.
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_is_cached_is_dropped_once() {
        let nodes = Nodes::new(2);
        nodes.hold(77, 77);
        assert!(!nodes.take_cached(77) && !nodes.take_cached(78));
        assert_eq!(nodes.get_for_cache(77), Some(77));
        assert!(nodes.take_cached(77) && !nodes.take_cached(77));
    }

    #[test]
    fn what_is_written_is_known_until_it_is_forgotten() {
        let nodes = Nodes::new(2);
        nodes.hold(77, 77);
        nodes.hold(78, 78);
        nodes.open_for_writing(78);
        nodes.open_for_writing(79);
        assert_eq!(nodes.writable(), [78]);
        nodes.forget(78, 1);
        nodes.hold(78, 78);
        assert_eq!(nodes.writable(), [0; 0]);
    }

    #[test]
    fn writers_are_counted() {
        let nodes = Nodes::new(2);
        nodes.hold(77, 77);
        nodes.end_writing(77);
        nodes.open_for_writing(77);
        nodes.open_for_writing(77);
        nodes.end_writing(77);
        assert!(nodes.has_writers(77) && !nodes.has_writers(78));
        nodes.end_writing(77);
        assert!(!nodes.has_writers(77));
        assert_eq!(nodes.writable(), [77]);
    }

    #[test]
    fn a_node_stays_until_its_last_reference_goes() {
        let nodes = Nodes::new(Arc::new(2));
        let node = Arc::new(77);
        nodes.hold(77, Arc::clone(&node));
        nodes.hold(77, Arc::new(77));
        assert_eq!(Arc::strong_count(&node), 2, "the first one stays");
        nodes.forget(77, 1);
        assert!(nodes.get(77).is_some());
        nodes.forget(77, 1);
        assert!(nodes.get(77).is_none());
        assert_eq!(Arc::strong_count(&node), 1);
        nodes.forget(77, 1);
        nodes.hold(77, Arc::clone(&node));
        nodes.forget(77, u64::MAX);
        assert_eq!(nodes.count(), 0);
    }

    #[test]
    fn all_but_the_root_are_let_go_of() {
        let nodes = Nodes::new(Arc::new(2));
        let node = Arc::new(77);
        nodes.hold(77, Arc::clone(&node));
        nodes.clear();
        assert_eq!((nodes.count(), Arc::strong_count(&node)), (0, 1));
        assert!(nodes.get(ROOT_ID).is_some() && nodes.get(77).is_none());
        nodes.forget(77, 1);
    }

    #[test]
    fn the_root_stays() {
        let nodes = Nodes::new(2);
        nodes.hold(ROOT_ID, 2);
        nodes.forget(ROOT_ID, 100);
        assert_eq!(nodes.get(ROOT_ID), Some(2));
        assert_eq!(nodes.count(), 0);
    }
}
