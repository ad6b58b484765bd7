//! Mechanism 3, the cache's side: the inodes in memory, and the look-ups of a lazytime hint.
//!
//! # Variants
//! Writing an inode also writes the pending timestamps of the others in its inode-table block, for
//! which it must look each of them up ([`InodeCache::hint`]). [`IcacheVariant`] chooses how:
//! * `global` (before): one lock for the cache; each look-up waits for it.
//! * `global-nowait` (after): one lock; each look-up tries it and gives up: a missed hint is harmless.
//! * `per-bucket` (beyond): a lock per bucket, inodes hashed by inode-table block, so that one try
//!   serves the whole hint. The file system asks for a hint only if the block's hint word says that an inode in it has
//!   pending timestamps ([`IcacheVariant::asks_block`]).
//! * `global-hint` and `per-bucket-nohint`: `global` with the hint word, and `per-bucket` without it, which show what the
//!   word and what the locks contribute.
//!
//! The variants share everything but the number of locks and that look-up. A look-up makes a reference only to inodes that have
//! pending timestamps.
//!
//! # Invariants
//! * An inode number has at most one slot, and an inode is in memory at most once.
//! * A slot is *empty* while its inode is new (being loaded) or freeing (being evicted). The thread that emptied it holds a
//!   `Claim`, works with no lock held, and fills or removes the slot. Look-ups wait for that. So an inode is never read
//!   from disk before its last state is there.
//! * References are returned under the bucket lock only, and an inode is found to be idle under it.
//!
//! # Locking
//! A bucket is guarded by its shard's `icache` lock, a leaf: no load, no eviction and no callback runs under it, except for
//! the methods of [`CachedInode`], which take no lock. The counters and `hand` are atomic; `hand` is only a hint.

mod bucket;
mod cached_inode;

use bucket::{Bucket, Slot};
pub use cached_inode::CachedInode;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;
use uext4_sync::atomic::{AtomicUsize, Ordering::Relaxed};
use uext4_sync::percpu::cpu_shards;
use uext4_sync::{BatchedCount, CachePadded, Condvar, Mutex, MutexGuard, class};

/// The variants of mechanism 3 (`icache=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IcacheVariant {
    /// `global` (before): one lock, waited for.
    Global,
    /// `global-nowait` (after): one lock, tried by hints.
    GlobalNowait,
    /// `per-bucket` (beyond): a lock per bucket, tried once per hint, if the block has pending timestamps.
    #[default]
    PerBucket,
    /// `global-hint`: as `global`, if the block has pending timestamps.
    GlobalHint,
    /// `per-bucket-nohint`: as `per-bucket`, for each block.
    PerBucketNohint,
}

impl IcacheVariant {
    /// Whether a hint is asked for only if the hint word of the inode-table block says that an inode in it has pending
    /// timestamps.
    #[inline]
    pub const fn asks_block(self) -> bool {
        matches!(self, IcacheVariant::PerBucket | IcacheVariant::GlobalHint)
    }
}

variants!(
    IcacheVariant,
    "icache",
    Global = "global",
    GlobalNowait = "global-nowait",
    PerBucket = "per-bucket",
    GlobalHint = "global-hint",
    PerBucketNohint = "per-bucket-nohint",
);

/// The inodes of one superblock that are in memory.
pub struct InodeCache<I: CachedInode> {
    variant: IcacheVariant,
    /// An inode number less one, shifted by this, is the inode-table block.
    block_shift: u32,
    /// The number of buckets less one.
    bucket_mask: usize,
    /// A right shift that leaves of a hash product the highest bits, as many as the mask has; they keep apart what CPUs use at regular distances.
    hash_shift: u32,
    /// As many as buckets, or one.
    shards: Box<[CachePadded<Shard<I>>]>,
    /// Slots.
    slots: BatchedCount,
    /// The bucket that eviction checks next.
    hand: CachePadded<AtomicUsize>,
}

struct Shard<I> {
    buckets: Mutex<Buckets<I>>,
    /// An empty slot was filled or removed.
    settled: Condvar,
}

enum Buckets<I> {
    One(Bucket<I>),
    All(Box<[Bucket<I>]>),
}

impl<I> Buckets<I> {
    #[inline(always)]
    fn at(&mut self, index: usize) -> &mut Bucket<I> {
        match self {
            Buckets::One(bucket) => bucket,
            Buckets::All(buckets) => &mut buckets[index],
        }
    }
}

/// A CPU counts so many slots before it says so to the others.
const SLOTS_BATCH: usize = 64;

/// Of a product with it the highest bits keep blocks apart at the distances at which CPUs take lines of inode bitmaps, and at those
/// of groups; found by search, as the golden ratio does not (`buckets_of_regular_distances_differ`).
const HASH: u64 = 0x91b7_584a_2265_b1f5;

/// So many buckets for each CPU at least (2^15 in all at most), that the inodes of two seldom meet in one.
const BUCKETS_PER_CPU: usize = 64;

/// A hint collects so many inodes on the stack: a 4 KiB block of 128-byte inodes.
const HINT_BATCH: usize = 32;

/// In so many rounds of an eviction the inodes of all CPUs are counted once.
const ROUNDS_PER_SUM: usize = 64;

impl<I: CachedInode> InodeCache<I> {
    /// An empty cache, made for `capacity` inodes; beyond that its buckets get longer.
    /// `inodes_per_block` is a power of two.
    pub fn new(variant: IcacheVariant, capacity: usize, inodes_per_block: u32) -> InodeCache<I> {
        debug_assert!(inodes_per_block.is_power_of_two());
        // 64 inodes in a bucket: four blocks of 16 inodes, in 2 KiB of slots.
        let for_cpus = BUCKETS_PER_CPU * cpu_shards();
        let buckets = (capacity / 64)
            .max(for_cpus)
            .clamp(16, 1 << 15)
            .next_power_of_two();
        let shard = |buckets| {
            CachePadded::new(Shard {
                buckets: Mutex::new(&class::ICACHE, buckets),
                settled: Condvar::new(),
            })
        };
        let shards = match variant {
            IcacheVariant::Global | IcacheVariant::GlobalHint | IcacheVariant::GlobalNowait => {
                let all = (0..buckets).map(|_| Bucket::new()).collect();
                Box::from([shard(Buckets::All(all))])
            }
            IcacheVariant::PerBucket | IcacheVariant::PerBucketNohint => (0..buckets)
                .map(|_| shard(Buckets::One(Bucket::new())))
                .collect(),
        };
        InodeCache {
            variant,
            block_shift: inodes_per_block.max(1).ilog2(),
            bucket_mask: buckets - 1,
            hash_shift: u64::BITS - buckets.ilog2(),
            shards,
            slots: BatchedCount::new(0, capacity / 16, SLOTS_BATCH),
            hand: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// The number of the inode-table block of `ino`, for [`InodeCache::hint`].
    #[inline(always)]
    pub const fn block_of(&self, ino: u64) -> u64 {
        ino.wrapping_sub(1) >> self.block_shift
    }

    /// How many inodes are cached, those being loaded or evicted included; off by up to 64 for each CPU while others add or evict.
    pub fn len(&self) -> usize {
        usize::try_from(self.slots.sum()).unwrap_or(0)
    }

    /// About as many as [`InodeCache::len`], within a sixteenth of the capacity; `None` unless this CPU added
    /// to the shared count since its last call. So a caller that limits the cache seldom accesses what all CPUs write.
    #[inline]
    pub fn grown_to(&self) -> Option<usize> {
        let slots = self.slots.estimate()?;
        Some(usize::try_from(slots).unwrap_or(0))
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The inode, if it is cached; waits while it is loaded or evicted.
    ///
    /// # Locks
    /// May sleep. Takes `icache`.
    pub fn find(&self, ino: u64) -> Option<Arc<I>> {
        let (index, shard) = self.locate(ino);
        let mut buckets = shard.buckets.lock();
        match self.find_settled(index, shard, &mut buckets, ino) {
            Some(slot) => slot.inode.as_ref().map(get_inode),
            None => None,
        }
    }

    /// The inode, loaded first if it is not cached. Concurrent callers wait for that load and retry it if it fails.
    ///
    /// # Locks
    /// May sleep. Takes `icache`, but holds nothing during `load`.
    ///
    /// # Errors
    /// What `load` gives.
    pub fn get_or_load<E>(
        &self,
        ino: u64,
        load: impl FnOnce() -> Result<I, E>,
    ) -> Result<Arc<I>, E> {
        let (index, shard) = self.locate(ino);
        let claim = {
            let mut buckets = shard.buckets.lock();
            if let Some(slot) = self.find_settled(index, shard, &mut buckets, ino)
                && let Some(inode) = &slot.inode
            {
                return Ok(get_inode(inode));
            }
            buckets.at(index).insert(ino, None);
            self.slots.add(1);
            Claim { cache: self, ino }
        };
        let inode = Arc::new(load()?);
        debug_assert_eq!(inode.ino(), ino);
        claim.fill(&inode);
        Ok(inode)
    }

    /// Adds an inode that was just allocated.
    ///
    /// # Locks
    /// Takes `icache`; sleeps only while a stale look-up of that number ends.
    ///
    /// # Errors
    /// The inode that has the number already: the bitmap it was claimed from is wrong.
    pub fn insert_new(&self, ino: u64, inode: Arc<I>) -> Result<(), Arc<I>> {
        debug_assert_eq!(inode.ino(), ino);
        let (index, shard) = self.locate(ino);
        let mut buckets = shard.buckets.lock();
        if let Some(slot) = self.find_settled(index, shard, &mut buckets, ino)
            && let Some(other) = &slot.inode
        {
            return Err(Arc::clone(other));
        }
        inode.on_get();
        buckets.at(index).insert(ino, Some(inode));
        self.slots.add(1);
        Ok(())
    }

    /// Removes an inode from the cache and returns it, also if it has other references. Does nothing to an inode that is
    /// being loaded or evicted.
    ///
    /// # Locks
    /// Takes `icache`.
    pub fn remove(&self, ino: u64) -> Option<Arc<I>> {
        let (index, shard) = self.locate(ino);
        let slot = {
            let mut buckets = shard.buckets.lock();
            buckets.at(index).remove_if(ino, |s| s.inode.is_some())?
        };
        self.slots.add(-1);
        slot.inode
    }

    /// Removes an abandoned inode (without name and user) from the cache for its deletion; `None` if it is not one, or not cached, or being
    /// loaded or freed. Look-ups wait until the returned value is dropped, and then
    /// find no inode.
    ///
    /// # Locks
    /// Takes `icache`.
    pub fn reap(&self, ino: u64) -> Option<FreeingInode<'_, I>> {
        let (index, shard) = self.locate(ino);
        let mut buckets = shard.buckets.lock();
        let slot = buckets.at(index).slot_mut(ino)?;
        if !slot.inode.as_ref()?.is_abandoned() {
            return None;
        }
        let inode = slot.inode.take()?;
        drop(buckets);
        Some(self.freeing(inode))
    }

    /// Calls `f` for the cached inodes of one inode-table block that have pending timestamps, as lazytime asks before it
    /// writes that block. False if some were not visited, because their lock was busy.
    ///
    /// `f` gets inodes that may be on their way out, and all it may trust is their own state. This
    /// counts as no use of them.
    ///
    /// # Locks
    /// Takes `icache`, for which `global` and `global-hint` wait; the others only try it. Holds nothing during `f`.
    pub fn hint(&self, block: u64, f: impl FnMut(&Arc<I>)) -> bool {
        match self.variant {
            IcacheVariant::Global | IcacheVariant::GlobalHint => self.hint_waiting(block, f),
            IcacheVariant::GlobalNowait => self.hint_each(block, f),
            IcacheVariant::PerBucket | IcacheVariant::PerBucketNohint => self.hint_whole(block, f),
        }
    }

    fn hint_waiting(&self, block: u64, mut f: impl FnMut(&Arc<I>)) -> bool {
        for ino in self.inos_of(block) {
            let (index, shard) = self.locate(ino);
            let found = pending(shard.buckets.lock().at(index), ino).cloned();
            if let Some(inode) = found {
                f(&inode);
            }
        }
        true
    }

    fn hint_each(&self, block: u64, mut f: impl FnMut(&Arc<I>)) -> bool {
        let mut complete = true;
        for ino in self.inos_of(block) {
            let (index, shard) = self.locate(ino);
            let Some(mut buckets) = shard.buckets.try_lock() else {
                complete = false;
                continue;
            };
            let found = pending(buckets.at(index), ino).cloned();
            drop(buckets);
            if let Some(inode) = found {
                f(&inode);
            }
        }
        complete
    }

    fn hint_whole(&self, block: u64, mut f: impl FnMut(&Arc<I>)) -> bool {
        let mut inos = self.inos_of(block);
        let (index, shard) = self.locate(inos.start);
        while !inos.is_empty() {
            let mut batch: [Option<Arc<I>>; HINT_BATCH] = [const { None }; HINT_BATCH];
            let Some(mut buckets) = shard.buckets.try_lock() else {
                return false;
            };
            let bucket = buckets.at(index);
            for (place, ino) in batch.iter_mut().zip(inos.by_ref()) {
                *place = pending(bucket, ino).cloned();
            }
            drop(buckets);
            batch.iter().flatten().for_each(&mut f);
        }
        true
    }

    /// Evicts idle inodes until at most `target` are left, or none is idle: those not used for a
    /// round of the clock first. At most `step` slots are visited under one lock. `write` is called
    /// for each that must be written first; it stays cached until the next round. `evict` is called for
    /// each that goes, before look-ups can load it again. Gives the number evicted.
    ///
    /// # Locks
    /// Takes `icache`, but holds nothing during `write`, which may wait for whatever it likes. During
    /// `evict` look-ups of the inode wait, some of them in a journal handle: it must not wait for one.
    pub fn shrink(
        &self,
        target: usize,
        step: usize,
        mut write: impl FnMut(&Arc<I>),
        mut evict: impl FnMut(&Arc<I>),
    ) -> usize {
        let step = step.max(1);
        let mut evicted = 0;
        // The first round may find every inode used, the second each to be written, and the third began
        // in the middle of a bucket.
        let mut rounds_left = 3 * self.bucket_count() + 1;
        let mut dirty = Vec::new();
        let mut excess = 0;
        while rounds_left > 0 {
            // The sum accesses a line of every CPU.
            if excess == 0 || rounds_left.is_multiple_of(ROUNDS_PER_SUM) {
                excess = self.len().saturating_sub(target);
            }
            if excess == 0 {
                break;
            }
            let hand = self.hand.load(Relaxed);
            let index = hand & self.bucket_mask;
            let mut batch = FreeingBatch {
                cache: self,
                index,
                inodes: Vec::with_capacity(step.min(64)),
            };
            let round_ended = self.shard_of(index).buckets.lock().at(index).sweep(
                step,
                excess,
                &mut batch.inodes,
                &mut dirty,
            );
            if round_ended {
                // Where another thread moved the hand, it stays there.
                let next = hand.wrapping_add(1);
                let _ = self.hand.compare_exchange(hand, next, Relaxed, Relaxed);
                rounds_left -= 1;
            }
            evicted += batch.inodes.len();
            excess = excess.saturating_sub(batch.inodes.len());
            batch.inodes.iter().for_each(&mut evict);
            drop(batch);
            dirty.drain(..).for_each(|inode| write(&inode));
        }
        evicted
    }

    /// Calls `f` for every inode that is cached throughout.
    ///
    /// # Locks
    /// Takes `icache`, but holds nothing during `f`.
    pub fn for_each(&self, mut f: impl FnMut(&Arc<I>)) {
        let mut batch = Vec::new();
        for index in 0..self.bucket_count() {
            self.shard_of(index)
                .buckets
                .lock()
                .at(index)
                .snapshot(&mut batch);
            batch.drain(..).for_each(|inode| f(&inode));
        }
    }

    fn bucket_count(&self) -> usize {
        self.bucket_mask + 1
    }

    /// The bucket of `ino` and the shard that has it.
    #[inline(always)]
    fn locate(&self, ino: u64) -> (usize, &Shard<I>) {
        let spread = self.block_of(ino).wrapping_mul(HASH);
        let index = (spread >> self.hash_shift) as usize & self.bucket_mask;
        (index, self.shard_of(index))
    }

    #[inline(always)]
    fn shard_of(&self, index: usize) -> &Shard<I> {
        // One shard has every bucket, or each has its own.
        &self.shards[index & (self.shards.len() - 1)]
    }

    fn inos_of(&self, block: u64) -> std::ops::Range<u64> {
        let first = (block << self.block_shift) + 1;
        first..first + (1 << self.block_shift)
    }

    /// The slot of `ino`, marked as used, once it is not empty; `None` if there is no slot.
    fn find_settled<'b>(
        &self,
        index: usize,
        shard: &Shard<I>,
        buckets: &'b mut MutexGuard<'_, Buckets<I>>,
        ino: u64,
    ) -> Option<&'b mut Slot<I>> {
        loop {
            let bucket = buckets.at(index);
            let place = bucket.place(ino)?;
            if bucket.is_filled(place) {
                return buckets.at(index).use_slot(place);
            }
            shard.settled.wait(buckets);
        }
    }

    /// Claims the slot that `inode` was just removed from.
    fn freeing(&self, inode: Arc<I>) -> FreeingInode<'_, I> {
        let ino = inode.ino();
        FreeingInode {
            inode,
            _claim: Claim { cache: self, ino },
        }
    }
}

/// The inode, if it is cached and has pending timestamps.
#[inline]
fn pending<I: CachedInode>(bucket: &Bucket<I>, ino: u64) -> Option<&Arc<I>> {
    bucket.peek(ino).filter(|inode| inode.has_pending_times())
}

/// Makes a reference. The bucket lock is held.
fn get_inode<I: CachedInode>(inode: &Arc<I>) -> Arc<I> {
    inode.on_get();
    Arc::clone(inode)
}

/// The right to fill or remove an empty slot; removes it when dropped.
struct Claim<'a, I: CachedInode> {
    cache: &'a InodeCache<I>,
    ino: u64,
}

impl<I: CachedInode> Claim<'_, I> {
    /// Puts the loaded inode into the slot.
    fn fill(self, inode: &Arc<I>) {
        let claim = ManuallyDrop::new(self);
        let (index, shard) = claim.cache.locate(claim.ino);
        let mut buckets = shard.buckets.lock();
        if let Some(slot) = buckets.at(index).slot_mut(claim.ino) {
            slot.inode = Some(get_inode(inode));
        }
        drop(buckets);
        shard.settled.notify_all();
    }
}

impl<I: CachedInode> Drop for Claim<'_, I> {
    fn drop(&mut self) {
        let (index, shard) = self.cache.locate(self.ino);
        shard
            .buckets
            .lock()
            .at(index)
            .remove_if(self.ino, |s| s.inode.is_none());
        self.cache.slots.add(-1);
        shard.settled.notify_all();
    }
}

/// An inode that is being freed. Look-ups of its number wait until this is dropped.
pub struct FreeingInode<'a, I: CachedInode> {
    // Dropped before the claim, so that the inode is in memory at most once.
    inode: Arc<I>,
    _claim: Claim<'a, I>,
}

impl<I: CachedInode> Deref for FreeingInode<'_, I> {
    type Target = Arc<I>;

    fn deref(&self) -> &Arc<I> {
        &self.inode
    }
}

/// Inodes of one bucket on their way out: look-ups of their numbers wait until this is dropped, which
/// takes the bucket's lock once for all of them.
struct FreeingBatch<'a, I: CachedInode> {
    cache: &'a InodeCache<I>,
    index: usize,
    inodes: Vec<Arc<I>>,
}

impl<I: CachedInode> Drop for FreeingBatch<'_, I> {
    fn drop(&mut self) {
        if self.inodes.is_empty() {
            return;
        }
        let inos: Vec<u64> = self.inodes.iter().map(|inode| inode.ino()).collect();
        // Before the slots, so that an inode is in memory at most once.
        self.inodes.clear();
        let shard = self.cache.shard_of(self.index);
        let mut buckets = shard.buckets.lock();
        for ino in &inos {
            buckets
                .at(self.index)
                .remove_if(*ino, |s| s.inode.is_none());
        }
        drop(buckets);
        self.cache.slots.add(-inos.len().cast_signed());
        shard.settled.notify_all();
    }
}

impl<I: CachedInode> fmt::Debug for InodeCache<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InodeCache")
            .field("variant", &self.variant)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
