//! Mechanism 5: the superblock registry of a file system type.
//!
//! # Variants
//! [`SuperVariant`] (`mqueue-super=`) says how a superblock is found and made:
//! * `keyed` (before): every creation searches all live superblocks under the one registry lock, also
//!   for a key that can't be there, so that N creations cost O(N^2).
//! * `nodev` (after): [`Registry::get_tree_nodev`] makes one without a search. Keyed look-ups search.
//! * `beyond`: hashed and sharded; look-ups are O(1), and creation takes no lock that all share.
//!
//! Every variant allocates an entry without the lock. A keyed creation looks its key up, allocates, and looks it up again: where
//! another thread published one meanwhile, that one is shared and the spare is dropped.
//!
//! # Life cycle
//! new (published, being filled) -> live -> freeing (no reference left, being shut down) -> gone. Filling and shutting down
//! happen outside the registry lock. Look-ups that find a new or freeing superblock wait, without that lock, and retry when
//! it is live, failed or gone. So a device is never mounted twice.
//!
//! # Invariants
//! * A key has at most one superblock in the registry, provided that callers of `get_tree_nodev` pass a
//!   key that nothing has.
//! * A new superblock has no value. A live one has a value, and `active` of 1 or more whenever the registry lock is held:
//!   only a thread that holds that lock sets `active` to 0, which makes the superblock freeing.
//! * A waiter is counted, under the lock, before its last check. A thread that fills a superblock reads that count after the
//!   value is visible. So filling takes no lock unless a thread waits.
//!
//! # Locking
//! A shard's entries are guarded by its `registry` lock, a leaf: nothing is called under it but `Eq` of
//! the keys, and the check whether a live superblock may be shared: a caller that may not share it never gets a
//! reference. `active` is atomic; going up from 1 needs no lock, going to 0 does.

mod shard;

use crate::errno::{Errno, Error};
use shard::{Entry, Home, Index, Shard};
use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use uext4_sync::atomic::Ordering::{AcqRel, Relaxed};
use uext4_sync::{CachePadded, MutexGuard};

/// What the registry asks of a superblock.
pub trait Superblock: Send + Sync + 'static {
    /// Ends it: writes what is not written, and leaves the device alone from then on. No reference is
    /// left, and the same key can't be mounted before this returns. It is dropped soon after.
    ///
    /// # Locks
    /// May sleep; called with none held by the registry.
    ///
    /// # Errors
    /// What could not be written; it is gone nevertheless.
    fn shutdown(&self) -> crate::errno::Result<()>;

    /// Whether it was asked for read-only.
    fn is_read_only(&self) -> bool {
        false
    }
}

/// What superblocks of a type are found by.
pub trait SuperKey: Eq {
    /// Spreads the keys: the lowest 32 bits over a shard's table, the 8 above over the shards, and the
    /// highest 7 distinguish neighbours in a table. Keys that one thread makes had better have a shard of
    /// their own, and lie side by side in its table.
    fn spread(&self) -> u64;
}

/// The one key of a type that has one superblock.
impl SuperKey for () {
    fn spread(&self) -> u64 {
        0
    }
}

/// The variants of mechanism 5 (`mqueue-super=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SuperVariant {
    /// `keyed` (before): creations search for what can't be there.
    Keyed,
    /// `nodev` (after): creations do not search, look-ups do.
    Nodev,
    /// `beyond`: hashed and sharded.
    #[default]
    Beyond,
}

variants!(
    SuperVariant,
    "mqueue-super",
    Keyed = "keyed",
    Nodev = "nodev",
    Beyond = "beyond",
);

/// A device is mounted read-only and asked for read-write, or the reverse (`EBUSY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("was opened {} already", if *.mounted_read_only { "read-only" } else { "read-write" })]
pub struct OtherMode {
    /// How it was asked for.
    pub mounted_read_only: bool,
}

impl From<OtherMode> for Error {
    fn from(other: OtherMode) -> Error {
        Error::from_source(Errno::EBUSY, other)
    }
}

/// Shards of the `beyond` variant: many more than CPUs, so that two hardly ever meet.
pub const SHARDS: usize = 256;

/// The live superblocks of one file system type, by key.
pub struct Registry<K, S> {
    variant: SuperVariant,
    /// One, or [`SHARDS`].
    shards: Box<[Home<K, S>]>,
}

impl<K: SuperKey, S: Superblock> Registry<K, S> {
    /// A registry without superblocks.
    pub fn new(variant: SuperVariant) -> Registry<K, S> {
        let shard = |index| Arc::new(CachePadded::new(Shard::new(index)));
        Registry {
            variant,
            shards: match variant {
                SuperVariant::Keyed | SuperVariant::Nodev => Box::from([shard(Index::list())]),
                SuperVariant::Beyond => (0..SHARDS).map(|_| shard(Index::table())).collect(),
            },
        }
    }

    /// The live superblock with this key, if `compatible` accepts it; made by `fill` when there is
    /// none.
    ///
    /// # Locks
    /// May sleep. Takes `registry`, and holds it during `compatible`, which only looks; but not during
    /// `fill`, which must not ask for the same key.
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
        let mut index = home.index.lock();
        if let Some(found) = find_settled(home, &mut index, &key, hash) {
            return share(&index, found, compatible);
        }
        drop(index);
        let spare = Arc::new(Entry::new(key, hash, Arc::clone(home)));
        let mut index = home.index.lock();
        // Another thread may have published one while the lock was not held.
        if let Some(found) = find_settled(home, &mut index, &spare.key, hash) {
            return share(&index, found, compatible);
        }
        NewEntry::publish(home, index, spare).fill(fill)
    }

    /// Makes a superblock under a key that no other has, as that of a namespace being created; later
    /// keyed look-ups find it. Only the `keyed` variant searches, in vain.
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
        if self.variant == SuperVariant::Keyed {
            return self.get_tree_keyed(key, |_| Ok(()), fill);
        }
        let (hash, home) = self.locate(&key);
        let entry = Arc::new(Entry::new(key, hash, Arc::clone(home)));
        NewEntry::publish(home, home.index.lock(), entry).fill(fill)
    }

    /// The superblock on a device or image, which `key` names, shared by all its mounts that are alike:
    /// read-only or not, and as `alike` says.
    ///
    /// # Locks
    /// As [`Registry::get_tree_keyed`]; `alike` only looks.
    ///
    /// # Errors
    /// [`OtherMode`]. What `alike` or `fill` gives.
    pub fn get_tree_bdev<E: From<OtherMode>>(
        &self,
        key: K,
        read_only: bool,
        alike: impl FnOnce(&S) -> Result<(), E>,
        fill: impl FnOnce() -> Result<S, E>,
    ) -> Result<SuperRef<K, S>, E> {
        let compatible = |live: &S| match live.is_read_only() {
            mounted_read_only if mounted_read_only != read_only => {
                Err(E::from(OtherMode { mounted_read_only }))
            }
            _ => alike(live),
        };
        self.get_tree_keyed(key, compatible, fill)
    }

    /// The live superblock with this key; `None` when there is none, or when it is being made and that
    /// fails.
    ///
    /// # Locks
    /// May sleep. Takes `registry`.
    pub fn find(&self, key: &K) -> Option<SuperRef<K, S>> {
        let (hash, home) = self.locate(key);
        let mut index = home.index.lock();
        let found = find_settled(home, &mut index, key, hash)?;
        share(&index, found, |_| Ok::<(), Infallible>(())).ok()
    }

    /// The number of superblocks, including new and freeing ones.
    ///
    /// # Locks
    /// Takes `registry`, one shard after the other.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.index.lock().len()).sum()
    }

    /// Whether there are no superblocks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn locate(&self, key: &K) -> (u64, &Home<K, S>) {
        // The lists compare keys and need no hash.
        if self.variant != SuperVariant::Beyond {
            return (0, &self.shards[0]);
        }
        let hash = key.spread();
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

/// Looks `key` up, waiting while it is new or freeing; what is found is live while the lock is held.
fn find_settled<K: Eq, S: Superblock>(
    home: &Home<K, S>,
    index: &mut MutexGuard<'_, Index<K, S>>,
    key: &K,
    hash: u64,
) -> Option<Arc<Entry<K, S>>> {
    loop {
        let entry = index.find(key, hash)?;
        if entry.is_live() {
            return Some(Arc::clone(entry));
        }
        home.wait(index, |index| {
            index.find(key, hash).is_none_or(|entry| entry.is_live())
        });
    }
}

/// A reference to a live superblock, if `compatible` accepts it.
fn share<K: Eq, S: Superblock, E>(
    _locked: &MutexGuard<'_, Index<K, S>>,
    found: Arc<Entry<K, S>>,
    compatible: impl FnOnce(&S) -> Result<(), E>,
) -> Result<SuperRef<K, S>, E> {
    compatible(found.value())?;
    found.active.fetch_add(1, Relaxed);
    Ok(SuperRef::new(found))
}

/// An entry without a value, in the registry; removed when dropped without a value.
struct NewEntry<'a, K: Eq, S> {
    home: &'a Home<K, S>,
    entry: Arc<Entry<K, S>>,
}

impl<'a, K: Eq, S: Superblock> NewEntry<'a, K, S> {
    /// Adds an entry, and releases the lock.
    fn publish(
        home: &'a Home<K, S>,
        mut index: MutexGuard<'_, Index<K, S>>,
        entry: Arc<Entry<K, S>>,
    ) -> NewEntry<'a, K, S> {
        index.insert(Arc::clone(&entry));
        NewEntry { home, entry }
    }

    fn fill<E>(self, fill: impl FnOnce() -> Result<S, E>) -> Result<SuperRef<K, S>, E> {
        // What `fill` panics with, or its error, drops the entry.
        let value = fill()?;
        let entry = Arc::clone(&self.entry);
        entry.set_value(value);
        self.home.wake_after_fill();
        Ok(SuperRef::new(entry))
    }
}

impl<K: Eq, S> Drop for NewEntry<'_, K, S> {
    fn drop(&mut self) {
        if !self.entry.has_value() {
            self.home.remove(&self.entry);
        }
    }
}

/// A freeing entry; removed when dropped.
struct FreeingEntry<'a, K: Eq, S>(&'a Arc<Entry<K, S>>);

impl<K: Eq, S> Drop for FreeingEntry<'_, K, S> {
    fn drop(&mut self) {
        self.0.home.remove(self.0);
    }
}

/// A counted reference to a live superblock. Dropping the last one shuts it down: sleeps, takes `registry`, and only logs an error of
/// [`Superblock::shutdown`], which `deactivate` gives.
pub struct SuperRef<K: Eq, S: Superblock> {
    /// `None` only while it is dropped.
    entry: Option<Arc<Entry<K, S>>>,
}

impl<K: Eq, S: Superblock> SuperRef<K, S> {
    /// Of an entry whose `active` counts this reference.
    fn new(entry: Arc<Entry<K, S>>) -> SuperRef<K, S> {
        SuperRef { entry: Some(entry) }
    }

    #[inline(always)]
    fn entry(&self) -> &Arc<Entry<K, S>> {
        match &self.entry {
            Some(entry) => entry,
            None => unreachable!("only a dropped reference has no entry"),
        }
    }

    /// The key it is registered under.
    pub fn key(&self) -> &K {
        &self.entry().key
    }

    /// Whether there are other references; they may go at any time, and new ones come.
    pub fn is_shared(&self) -> bool {
        self.entry().active.load(Relaxed) > 1
    }

    /// Drops it, and returns whether this was the last reference.
    ///
    /// # Locks
    /// May sleep. Takes `registry`, but holds nothing during [`Superblock::shutdown`].
    ///
    /// # Errors
    /// What [`Superblock::shutdown`] gives, where this was the last.
    pub fn deactivate(mut self) -> crate::errno::Result<bool> {
        self.release()
    }

    fn release(&mut self) -> crate::errno::Result<bool> {
        let Some(entry) = self.entry.take() else {
            return Ok(false);
        };
        if entry.release_unless_last() {
            return Ok(false);
        }
        let index = entry.home.index.lock();
        // A look-up may have come between.
        if entry.active.fetch_sub(1, AcqRel) > 1 {
            return Ok(false);
        }
        drop(index);
        let freeing = FreeingEntry(&entry);
        let ended = freeing.0.value().shutdown();
        drop(freeing);
        ended.map(|()| true)
    }
}

impl<K: Eq, S: Superblock> Clone for SuperRef<K, S> {
    fn clone(&self) -> SuperRef<K, S> {
        let entry = self.entry();
        // From 1 upwards: this reference is there.
        entry.active.fetch_add(1, Relaxed);
        SuperRef::new(Arc::clone(entry))
    }
}

impl<K: Eq, S: Superblock> Deref for SuperRef<K, S> {
    type Target = S;

    #[inline(always)]
    fn deref(&self) -> &S {
        self.entry().value()
    }
}

impl<K: Eq, S: Superblock> Drop for SuperRef<K, S> {
    fn drop(&mut self) {
        // A caller that needs the error calls `deactivate`.
        if let Err(why) = self.release() {
            tracing::error!("a superblock did not end well: {why}");
        }
    }
}

impl<K: Eq + fmt::Debug, S: Superblock> fmt::Debug for SuperRef<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.entry();
        f.debug_struct("SuperRef")
            .field("key", &entry.key)
            .field("active", &entry.active.load(Relaxed))
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
