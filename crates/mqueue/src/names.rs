//! The names of a namespace, and its queues by inode number.
//!
//! # Invariants
//! A queue that has a name is in both maps, under the one name and the one number it ever has: queues can
//! be neither linked nor renamed, and a number is given out once. So the numbers are an order in which a
//! reader of the directory meets whatever is there all the time exactly once.
//!
//! # Locking
//! Guarded by the lock of the namespace.

use crate::node::Node;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// Queues that have a name; nothing is allocated before the first, as most namespaces never have one.
#[derive(Default)]
pub(crate) struct Names {
    maps: Option<Box<Maps>>,
}

#[derive(Default)]
struct Maps {
    by_name: HashMap<Arc<[u8]>, Arc<Node>>,
    by_ino: BTreeMap<u64, Arc<[u8]>>,
}

impl Names {
    pub fn len(&self) -> usize {
        self.maps.as_ref().map_or(0, |maps| maps.by_name.len())
    }

    pub fn get(&self, name: &[u8]) -> Option<&Arc<Node>> {
        self.maps.as_ref()?.by_name.get(name)
    }

    pub fn by_ino(&self, ino: u64) -> Option<&Arc<Node>> {
        self.get(self.maps.as_ref()?.by_ino.get(&ino)?)
    }

    /// Gives a new queue a name that is free.
    pub fn insert(&mut self, name: &[u8], node: Arc<Node>) {
        let maps = self.maps.get_or_insert_default();
        let name: Arc<[u8]> = Arc::from(name);
        maps.by_ino.insert(node.ino(), Arc::clone(&name));
        maps.by_name.insert(name, node);
    }

    /// Takes a name away.
    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<Node>> {
        let maps = self.maps.as_mut()?;
        let node = maps.by_name.remove(name)?;
        maps.by_ino.remove(&node.ino());
        Some(node)
    }

    /// Numbers and names, from the lowest number above `ino`.
    pub fn after(&self, ino: u64) -> impl Iterator<Item = (u64, &Arc<[u8]>)> {
        let above = (Bound::Excluded(ino), Bound::Unbounded);
        let maps = self.maps.iter();
        maps.flat_map(move |maps| maps.by_ino.range(above))
            .map(|(ino, name)| (*ino, name))
    }
}
