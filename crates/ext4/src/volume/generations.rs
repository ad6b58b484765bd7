//! What depends on the size of the file system, and how it changes when the file system grows.
//!
//! # Data model
//! A generation is what depends on one size. A mount starts with one, and each growth adds the next. Earlier ones stay until the unmount, so
//! what was borrowed from one remains valid. Generations share the groups that they have in common.
//!
//! # Invariants
//! - From one generation to the next, counts only grow, and no group, block or inode gets another place.
//! - Nothing names a new block, inode or group before the generation that has it is current: a caller that reads such a number first,
//!   and the geometry only then, finds it in range. What is read under the `map` lock of an inode counts as read first if the geometry
//!   was read under the same lock.
//! - A generation is prepared, then made current, by the one growth that runs, with the gate of changes closed. Only the freeze hook sees
//!   one that is prepared: it encodes the descriptors of the transaction that makes the file system larger.
//!
//! # Locking
//! None: each generation is set once, and the number of the current one is an atomic.

use crate::group::Group;
use crate::prelude::*;
use crate::volume::Volume;
use crate::volume::fixed_blocks::FixedBlocks;
use crate::volume::host_space::HostSpace;
// Each look-up of the geometry reads it: to the schedulers of tests none of these is a step.
use std::sync::atomic::AtomicUsize;

/// How often a file system can grow before it is mounted again.
const GROWTHS_MAX: usize = 1000;

/// What depends on the size of the file system; immutable.
#[derive(Debug)]
pub(crate) struct Generation {
    pub geometry: Geometry,
    pub groups: Box<[Arc<Group>]>,
    /// The blocks that belong to no file.
    pub fixed: FixedBlocks,
    pub host_space: HostSpace,
    /// For the superuser.
    pub reserved_blocks: u64,
    /// Blocks that can never hold data, as the superblock says; 0 if it does not.
    pub overhead_blocks: u64,
}

impl Generation {
    /// That of the file system `sb` with these groups, on a device of so many bytes.
    pub fn of(sb: &Superblock, groups: Box<[Arc<Group>]>, device_bytes: u64) -> Generation {
        Generation {
            geometry: sb.geometry,
            fixed: FixedBlocks::of(&groups, &sb.geometry),
            groups,
            host_space: HostSpace::new(device_bytes),
            reserved_blocks: sb.raw.reserved_blocks_count(),
            overhead_blocks: u64::from(sb.raw.overhead_clusters.get())
                << sb.geometry.cluster_bits(),
        }
    }
}

/// All generations of a mount; see the module.
#[derive(Debug)]
pub(crate) struct Generations {
    first: Generation,
    later: Box<[OnceLock<Box<Generation>>]>,
    /// How many of the later ones were made current: 0 for the first.
    current: AtomicUsize,
    /// How many of the later ones there are.
    prepared: AtomicUsize,
    is_growing: AtomicBool,
}

/// The growth that runs; ends when dropped.
#[derive(Debug)]
pub(crate) struct Growth<'g>(&'g Generations);

impl Generations {
    pub fn new(first: Generation) -> Generations {
        Generations {
            first,
            later: (0..GROWTHS_MAX).map(|_| OnceLock::new()).collect(),
            current: AtomicUsize::new(0),
            prepared: AtomicUsize::new(0),
            is_growing: AtomicBool::new(false),
        }
    }

    /// The generation that operations use.
    #[inline(always)]
    pub fn current(&self) -> &Generation {
        match self.current.load(Ordering::Acquire) {
            0 => &self.first,
            count => self.last_of(count),
        }
    }

    /// The generation that the running transaction makes durable: the prepared one, else the current one.
    pub fn newest(&self) -> &Generation {
        match self.prepared.load(Ordering::Acquire) {
            0 => &self.first,
            count => self.last_of(count),
        }
    }

    fn last_of(&self, count: usize) -> &Generation {
        let last = count
            .checked_sub(1)
            .and_then(|at| self.later.get(at)?.get());
        let Some(last) = last else {
            unreachable!("generation {count} is counted before it is set");
        };
        last
    }

    /// Begins a growth.
    ///
    /// # Errors
    /// [`Ext4Error::Busy`]: another runs, or there were too many since the mount.
    pub fn begin_growth(&self) -> Result<Growth<'_>> {
        if self.is_growing.swap(true, Ordering::Acquire) {
            return Err(Ext4Error::Busy("it is being made larger"));
        }
        let growth = Growth(self);
        if self.prepared.load(Ordering::Acquire) >= self.later.len() {
            return Err(Ext4Error::Busy(
                "it was made larger too often; mount it again",
            ));
        }
        Ok(growth)
    }
}

impl Growth<'_> {
    /// Makes the freeze hook encode `next`. The caller holds the gate of changes closed, and has journal access to every block of
    /// descriptors that `next` changes; it aborts the journal if the growth is not made durable.
    pub fn prepare(&self, next: Generation) {
        let at = self.0.prepared.load(Ordering::Acquire);
        if let Some(slot) = self.0.later.get(at)
            && slot.set(Box::new(next)).is_ok()
        {
            self.0.prepared.store(at + 1, Ordering::Release);
        }
    }

    /// Makes the prepared generation current.
    pub fn publish(&self) {
        let prepared = self.0.prepared.load(Ordering::Acquire);
        self.0.current.store(prepared, Ordering::Release);
    }
}

impl Drop for Growth<'_> {
    fn drop(&mut self) {
        self.0.is_growing.store(false, Ordering::Release);
    }
}

impl Volume {
    /// Sizes and places, as they are now.
    #[inline(always)]
    pub fn geometry(&self) -> &Geometry {
        &self.generations.current().geometry
    }

    /// The groups.
    #[inline(always)]
    pub(crate) fn groups(&self) -> &[Arc<Group>] {
        &self.generations.current().groups
    }

    /// The blocks that belong to no file.
    #[inline]
    pub(crate) fn fixed(&self) -> &FixedBlocks {
        &self.generations.current().fixed
    }

    #[inline]
    pub(crate) fn host_space(&self) -> &HostSpace {
        &self.generations.current().host_space
    }

    pub(crate) fn reserved_blocks(&self) -> isize {
        isize::try_from(self.generations.current().reserved_blocks).unwrap_or(isize::MAX)
    }
}
