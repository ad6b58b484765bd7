//! A table to which entries are added and from which none is removed, read without a lock.
//!
//! # Locking
//! None. Of two threads that add the same key, one adds it.

use crate::prelude::*;

/// Chains of a table at the least.
const CHAINS_MIN: usize = 1024;
/// Chains at most.
const CHAINS_MAX: usize = 1 << 20;

type Link<T> = OnceLock<Box<Node<T>>>;

#[derive(Debug)]
struct Node<T> {
    key: u32,
    value: T,
    next: Link<T>,
}

/// The table; see the module.
#[derive(Debug)]
pub(crate) struct Table<T> {
    chains: Box<[Link<T>]>,
}

impl<T> Table<T> {
    /// An empty one that is to have about so many entries.
    pub fn new(expected: usize) -> Table<T> {
        let chains = expected.clamp(CHAINS_MIN, CHAINS_MAX).next_power_of_two();
        Table {
            chains: (0..chains).map(|_| OnceLock::new()).collect(),
        }
    }

    fn chain(&self, key: u32) -> &Link<T> {
        // The upper bits of a product depend on all bits of the key.
        let mixed = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.chains[mixed as usize & (self.chains.len() - 1)]
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: u32) -> Option<&T> {
        let mut link = self.chain(key);
        loop {
            let node = link.get()?;
            if node.key == key {
                return Some(&node.value);
            }
            link = &node.next;
        }
    }

    /// Adds a key; false if it is there.
    pub fn insert(&self, key: u32, value: T) -> bool {
        let mut node = Box::new(Node {
            key,
            value,
            next: OnceLock::new(),
        });
        let mut link = self.chain(key);
        loop {
            node = match link.set(node) {
                Ok(()) => return true,
                Err(node) => node,
            };
            match link.get() {
                Some(there) if there.key == key => return false,
                Some(there) => link = &there.next,
                None => return false,
            }
        }
    }

    /// Calls `each` for every entry, in no order.
    pub fn for_each(&self, mut each: impl FnMut(u32, &T)) {
        for chain in &self.chains {
            let mut link = chain;
            while let Some(node) = link.get() {
                each(node.key, &node.value);
                link = &node.next;
            }
        }
    }
}

impl<T> Drop for Table<T> {
    /// Without recursion, however long a chain is.
    fn drop(&mut self) {
        for chain in &mut self.chains {
            let mut link = chain.take();
            while let Some(mut node) = link {
                link = node.next.take();
            }
        }
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn keys_are_added_once() {
        let table = Table::new(0);
        for key in 0..5000u32 {
            assert!(table.insert(key, key * 2));
        }
        assert!(!table.insert(7, 0));
        for key in 0..5000 {
            assert_eq!(table.get(key), Some(&(key * 2)));
        }
        assert_eq!(table.get(5000), None);
        let mut sum = 0u64;
        table.for_each(|key, _| sum += u64::from(key));
        assert_eq!(sum, 4999 * 5000 / 2);
    }
}
