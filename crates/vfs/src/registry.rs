//! Mechanism 5: the superblock registry of a file system type.
//!
//! # Arms
//! [`SuperArm`] (`mqueue-super=`) says how a superblock is found and made:
//! * `keyed` (before): every creation searches all live superblocks under the one registry lock, also
//!   for a key that can't be there, so that N creations cost O(N^2).
//! * `nodev` (after): [`Registry::get_tree_nodev`] makes one without a search. Keyed look-ups search.
//! * `beyond`: hashed and sharded; look-ups are O(1), and creation takes no lock that all share.
//!
//! # Life cycle
//! unborn (published, being filled) -> live -> dying (no reference left, being shut down) -> gone.
//! A superblock has a value only while it is live. Filling and shutting down happen outside the
//! registry lock; look-ups that meet an unborn or dying one wait, without that lock, and try again
//! when it is born, failed or gone. So a device is never open for two superblocks.
//!
//! # Invariants
//! * A key has at most one superblock in the registry, provided that callers of `get_tree_nodev` pass a
//!   key that nothing has.
//! * A live superblock has `active` of 1 or more whenever the registry lock is held; only who holds that
//!   lock takes `active` to 0, and takes the value out in the same breath.
//!
//! # Locking
//! A shard's entries are guarded by its `registry` lock, a leaf: nothing is called under it but `Eq` of
//! the keys. `active` is atomic; going up from 1 needs no lock, going to 0 does.

mod index;

use crate::errno::Errno;
use index::{Entry, Index};
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::ops::Deref;
use std::sync::Arc;
use uext4_sync::atomic::Ordering::{AcqRel, Relaxed};
use uext4_sync::{CachePadded, Condvar, Mutex, MutexGuard, class};

/// What the registry asks of a superblock.
pub trait Superblock: Send + Sync + 'static {
    /// Ends it: writes what is not written, and closes the device. No reference is left, and nobody
    /// can mount the same key before this returns.
    ///
    /// # Locks
    /// May sleep; called with none held by the registry.
    ///
    /// # Errors
    /// What could not be written; it is gone nevertheless.
    fn shutdown(self) -> crate::Result<()>;

    /// Whether it was mounted read-only.
    fn is_read_only(&self) -> bool {
        false
    }
}

/// What makes two mounts of a disk file system the same: the image or device behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceId {
    /// A block device, by its number.
    Block {
        /// As in `st_rdev`.
        rdev: u64,
    },
    /// An image in a file, by the file's identity.
    Image {
        /// As in `st_dev`.
        dev: u64,
        /// As in `st_ino`.
        ino: u64,
    },
    /// A device that exists in this process only, by a number that is its own.
    Memory {
        /// Chosen by who made it.
        id: u64,
    },
}

/// The arms of mechanism 5 (`mqueue-super=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SuperArm {
    /// `keyed` (before): creations search for what can't be there.
    Keyed,
    /// `nodev` (after): creations do not search, look-ups do.
    Nodev,
    /// `beyond`: hashed and sharded.
    #[default]
    Beyond,
}

crate::arms!(
    SuperArm,
    "mqueue-super",
    Keyed = "keyed",
    Nodev = "nodev",
    Beyond = "beyond",
);

/// Shards of the `beyond` arm: many more than CPUs, so that two hardly ever meet.
const SHARDS: usize = 128;

/// The live superblocks of one file system type, by key.
pub struct Registry<K, S> {
    arm: SuperArm,
    /// One, or [`SHARDS`]. A superblock keeps its own shard alive, so that no counter is shared.
    shards: Box<[Home<K, S>]>,
}

struct Shard<K, S> {
    index: Mutex<Index<K, S>>,
    /// An unborn superblock was born or failed, or a dying one is gone.
    settled: Condvar,
}

/// Where a superblock belongs.
type Home<K, S> = Arc<CachePadded<Shard<K, S>>>;

impl<K: Hash + Eq, S: Superblock> Registry<K, S> {
    /// A registry without superblocks.
    pub fn new(arm: SuperArm) -> Registry<K, S> {
        let shard = |index| {
            Arc::new(CachePadded::new(Shard {
                index: Mutex::new(&class::REGISTRY, index),
                settled: Condvar::new(),
            }))
        };
        Registry {
            arm,
            shards: match arm {
                SuperArm::Keyed | SuperArm::Nodev => Box::from([shard(Index::list())]),
                SuperArm::Beyond => (0..SHARDS).map(|_| shard(Index::table())).collect(),
            },
        }
    }

    /// The live superblock with this key, if `compatible` accepts it; made by `fill` when there is
    /// none.
    ///
    /// # Locks
    /// May sleep. Takes `registry`, but holds nothing during `compatible` and `fill`.
    ///
    /// # Errors
    /// What `compatible` or `fill` gives.
    pub fn get_tree_keyed<E>(
        &self,
        key: K,
        compatible: impl FnOnce(&S) -> Result<(), E>,
        fill: impl FnOnce() -> Result<S, E>,
    ) -> Result<SuperRef<K, S>, E> {
        let (hash, home) = self.locate(&key);
        let index = home.index.lock();
        match find_settled(home, index, &key, hash) {
            Found::Live(superblock) => {
                compatible(&superblock)?;
                Ok(superblock)
            }
            Found::Absent(mut index) => {
                let unborn = Unborn::publish(home, &mut index, key, hash);
                drop(index);
                Ok(unborn.born(fill()?))
            }
        }
    }

    /// Makes a superblock under a key that no other has, as that of a namespace being created; later
    /// keyed look-ups find it. Only the `keyed` arm searches, in vain.
    ///
    /// # Locks
    /// May sleep. Takes `registry`, but holds nothing during `fill`.
    ///
    /// # Errors
    /// What `fill` gives.
    pub fn get_tree_nodev<E>(
        &self,
        key: K,
        fill: impl FnOnce() -> Result<S, E>,
    ) -> Result<SuperRef<K, S>, E> {
        if self.arm == SuperArm::Keyed {
            return self.get_tree_keyed(key, |_| Ok(()), fill);
        }
        let (hash, home) = self.locate(&key);
        let unborn = Unborn::publish(home, &mut home.index.lock(), key, hash);
        Ok(unborn.born(fill()?))
    }

    /// The live superblock with this key; `None` when there is none, or when it is being made and that
    /// fails.
    ///
    /// # Locks
    /// May sleep. Takes `registry`.
    pub fn find(&self, key: &K) -> Option<SuperRef<K, S>> {
        let (hash, home) = self.locate(key);
        let index = home.index.lock();
        match find_settled(home, index, key, hash) {
            Found::Live(superblock) => Some(superblock),
            Found::Absent(_) => None,
        }
    }

    /// How many superblocks there are, unborn and dying ones included.
    ///
    /// # Locks
    /// Takes `registry`, one shard after the other.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.index.lock().len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn locate(&self, key: &K) -> (u64, &Home<K, S>) {
        // The lists compare keys and need no hash.
        if self.arm != SuperArm::Beyond {
            return (0, &self.shards[0]);
        }
        let hash = BuildHasherDefault::<DefaultHasher>::new().hash_one(key);
        // The table inside uses the lowest and the highest bits.
        (hash, &self.shards[(hash >> 32) as usize % SHARDS])
    }
}

impl<S: Superblock> Registry<(), S> {
    /// The one superblock of a type that has only one.
    ///
    /// # Locks
    /// As [`Registry::get_tree_keyed`].
    ///
    /// # Errors
    /// What `fill` gives.
    pub fn get_tree_single<E>(
        &self,
        fill: impl FnOnce() -> Result<S, E>,
    ) -> Result<SuperRef<(), S>, E> {
        self.get_tree_keyed((), |_| Ok(()), fill)
    }
}

impl<S: Superblock> Registry<DeviceId, S> {
    /// The superblock on a device or image, shared by all its mounts.
    ///
    /// # Locks
    /// As [`Registry::get_tree_keyed`].
    ///
    /// # Errors
    /// `EBUSY`: it is mounted read-only and asked for read-write, or the reverse. What `fill` gives.
    pub fn get_tree_bdev<E: From<Errno>>(
        &self,
        device: DeviceId,
        read_only: bool,
        fill: impl FnOnce() -> Result<S, E>,
    ) -> Result<SuperRef<DeviceId, S>, E> {
        let compatible = |live: &S| {
            if live.is_read_only() == read_only {
                Ok(())
            } else {
                Err(E::from(Errno::EBUSY))
            }
        };
        self.get_tree_keyed(device, compatible, fill)
    }
}

enum Found<'a, K: Eq, S: Superblock> {
    Live(SuperRef<K, S>),
    Absent(MutexGuard<'a, Index<K, S>>),
}

/// Looks `key` up, waiting while it is unborn or dying.
fn find_settled<'a, K: Eq, S: Superblock>(
    home: &Home<K, S>,
    mut index: MutexGuard<'a, Index<K, S>>,
    key: &K,
    hash: u64,
) -> Found<'a, K, S> {
    loop {
        let Some(node) = index.find(key, hash) else {
            return Found::Absent(index);
        };
        if let Some(value) = &node.live {
            node.entry.active.fetch_add(1, Relaxed);
            let superblock = SuperRef {
                entry: Arc::clone(&node.entry),
                value: Some(Arc::clone(value)),
                home: Arc::clone(home),
            };
            return Found::Live(superblock);
        }
        home.settled.wait(&mut index);
    }
}

/// An entry without a value, in the registry; removed when dropped without having been born.
struct Unborn<'a, K: Eq, S> {
    home: &'a Home<K, S>,
    entry: Arc<Entry<K>>,
    is_born: bool,
}

impl<'a, K: Eq, S: Superblock> Unborn<'a, K, S> {
    fn publish(
        home: &'a Home<K, S>,
        index: &mut Index<K, S>,
        key: K,
        hash: u64,
    ) -> Unborn<'a, K, S> {
        let entry = Arc::new(Entry::new(key, hash));
        index.insert(Arc::clone(&entry));
        Unborn {
            home,
            entry,
            is_born: false,
        }
    }

    fn born(mut self, value: S) -> SuperRef<K, S> {
        let value = Arc::new(value);
        let superblock = SuperRef {
            entry: Arc::clone(&self.entry),
            value: Some(Arc::clone(&value)),
            home: Arc::clone(self.home),
        };
        self.home.index.lock().set_live(&self.entry, value);
        self.is_born = true;
        superblock
    }
}

impl<K: Eq, S> Drop for Unborn<'_, K, S> {
    fn drop(&mut self) {
        if !self.is_born {
            self.home.index.lock().remove(&self.entry);
        }
        self.home.settled.notify_all();
    }
}

/// A dying entry, in the registry without a value; removed when dropped.
struct Dying<'a, K: Eq, S> {
    home: &'a Home<K, S>,
    entry: &'a Arc<Entry<K>>,
}

impl<K: Eq, S> Drop for Dying<'_, K, S> {
    fn drop(&mut self) {
        self.home.index.lock().remove(self.entry);
        self.home.settled.notify_all();
    }
}

/// A counted reference to a live superblock; the last one dropped shuts it down.
pub struct SuperRef<K: Eq, S: Superblock> {
    entry: Arc<Entry<K>>,
    /// `None` only while it is dropped. Let go before `active` goes down, so that the last reference
    /// finds that the registry's is the only one.
    value: Option<Arc<S>>,
    home: Home<K, S>,
}

impl<K: Eq, S: Superblock> SuperRef<K, S> {
    /// The key it is registered under.
    pub fn key(&self) -> &K {
        &self.entry.key
    }

    /// Lets go of it, as dropping does, and says what its end came to where this was the last.
    ///
    /// # Locks
    /// May sleep. Takes `registry`, but holds nothing during [`Superblock::shutdown`].
    ///
    /// # Errors
    /// What [`Superblock::shutdown`] gives.
    pub fn deactivate(mut self) -> crate::Result<()> {
        self.release()
    }

    fn release(&mut self) -> crate::Result<()> {
        let Some(value) = self.value.take() else {
            return Ok(());
        };
        drop(value);
        if self.entry.release_unless_last() {
            return Ok(());
        }
        let value = {
            let mut index = self.home.index.lock();
            // A look-up may have come between.
            if self.entry.active.fetch_sub(1, AcqRel) > 1 {
                return Ok(());
            }
            index.take_live(&self.entry)
        };
        let _dying = Dying {
            home: &self.home,
            entry: &self.entry,
        };
        match value.and_then(Arc::into_inner) {
            Some(superblock) => superblock.shutdown(),
            None => unreachable!("a reference outlived the count of references"),
        }
    }
}

impl<K: Eq, S: Superblock> Clone for SuperRef<K, S> {
    fn clone(&self) -> SuperRef<K, S> {
        // From 1 upwards: this reference is there.
        self.entry.active.fetch_add(1, Relaxed);
        SuperRef {
            entry: Arc::clone(&self.entry),
            value: self.value.clone(),
            home: Arc::clone(&self.home),
        }
    }
}

impl<K: Eq, S: Superblock> Deref for SuperRef<K, S> {
    type Target = S;

    #[inline(always)]
    fn deref(&self) -> &S {
        match &self.value {
            Some(value) => value,
            None => unreachable!("only a dropped reference has no value"),
        }
    }
}

impl<K: Eq, S: Superblock> Drop for SuperRef<K, S> {
    fn drop(&mut self) {
        // Nobody is left to hear of it; who wants to, deactivates.
        let _ = self.release();
    }
}

impl<K: Eq + fmt::Debug, S: Superblock> fmt::Debug for SuperRef<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SuperRef")
            .field("key", &self.entry.key)
            .field("active", &self.entry.active.load(Relaxed))
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
