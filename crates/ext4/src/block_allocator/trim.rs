//! FITRIM: telling the device what holds nothing.
//!
//! # Invariants
//! Only blocks are discarded that the allocator could give out, and meanwhile it gives none of them out. A block
//! that was freed in a transaction that is not durable is not among them.
//!
//! # Locking
//! The group's lock to take a run and to return it, in the variants that have it; none while the device works. An allocation that finds no space waits until the
//! runs in flight are returned ([`Trims`]).

use crate::block_allocator::BlockAllocator;
use crate::group::{BlockBits, Group, bitmap};
use crate::prelude::*;

/// Runs of free blocks that are being discarded, and the waiters for them.
#[derive(Debug)]
pub(crate) struct Trims {
    /// Whether this mount was ever trimmed.
    any: AtomicBool,
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Now {
    /// Runs that the device works on.
    runs: u32,
    /// Allocations that found no space; no new run is taken while there are any.
    waiting: u32,
}

impl Trims {
    pub fn new() -> Trims {
        Trims {
            any: AtomicBool::new(false),
            now: Mutex::new(&class::TRIM, Now::default()),
            changed: Condvar::new(),
        }
    }

    /// Runs `f`, which takes a run from the allocator and returns it, while no allocation waits for space.
    fn during<R>(&self, f: impl FnOnce() -> R) -> R {
        self.any.store(true, Relaxed);
        let mut now = self.now.lock();
        while now.waiting > 0 {
            self.changed.wait(&mut now);
        }
        now.runs += 1;
        drop(now);
        let done = f();
        self.now.lock().runs -= 1;
        self.changed.notify_all();
        done
    }

    /// Runs `attempt`, which found no space, again when all runs are returned and no new one is taken; None if
    /// there never was any.
    ///
    /// # Locks
    /// Waits for the device: call it with no handle.
    #[cold]
    pub fn without<R>(&self, attempt: impl FnOnce() -> R) -> Option<R> {
        if !self.any.load(Relaxed) {
            return None;
        }
        let mut now = self.now.lock();
        now.waiting += 1;
        while now.runs > 0 {
            self.changed.wait(&mut now);
        }
        drop(now);
        let done = attempt();
        self.now.lock().waiting -= 1;
        self.changed.notify_all();
        Some(done)
    }
}

impl BlockAllocator {
    /// Discards free blocks in `[start, start + len)`, in bytes of the file system, in runs of at least
    /// `least` bytes; returns how many bytes that were (`FITRIM`).
    ///
    /// # Locks
    /// Each group's for a moment, and it waits for allocations that search for space.
    ///
    /// # Errors
    /// [`Ext4Error::Invalid`]: `start` is past the end, `len` less than a block, or `least` more than a group
    /// holds. [`Ext4Error::ReadOnly`]. The device's; one that cannot discard does nothing.
    pub fn trim(&self, start: u64, len: u64, least: u64) -> Result<u64> {
        let _change = self.volume.freeze.begin_change();
        self.volume.check_writable()?;
        self.release_ahead();
        let geometry = self.volume.geometry();
        let block = self.volume.block_size();
        let first = (start / block).max(u64::from(geometry.first_data_block));
        let end = start.saturating_add(len) / block;
        let end = end.min(geometry.blocks_count);
        let least = least.div_ceil(block).max(1);
        if len < block
            || start / block >= geometry.blocks_count
            || least > u64::from(geometry.blocks_per_group)
        {
            return Err(Ext4Error::Invalid("a range to trim"));
        }
        let mut trimmed = 0;
        for group in self.volume.groups() {
            let base = geometry.group_first_block(group.no).0;
            let blocks = u64::from(geometry.blocks_in_group(group.no));
            let from = first.saturating_sub(base);
            let to = end.saturating_sub(base).min(blocks);
            // Both are below the blocks of a group now, unless there is nothing of it in the range; only clusters that are in
            // it as a whole.
            let mask = self.in_cluster_mask();
            let from = from.saturating_add(mask.into()) >> self.cluster_bits;
            let to = to >> self.cluster_bits;
            let least = (least as u32).div_ceil(mask + 1);
            if from < to && !group.damaged.load(Relaxed) {
                trimmed += self.trim_group(group, from as u32, to as u32, least)?;
            }
        }
        Ok((trimmed << self.cluster_bits) * block)
    }

    /// The same of clusters `[at, end)` of a group; how many clusters it was.
    fn trim_group(&self, group: &Group, mut at: u32, end: u32, least: u32) -> Result<u64> {
        if group.free_blocks.load(Relaxed) < least {
            return Ok(0);
        }
        let bits = self.block_bits(group)?;
        let mut trimmed = 0;
        while let Some(run) = self
            .trims
            .during(|| self.trim_run(group, bits, at..end, least))?
        {
            at = run.end;
            if run.end - run.start >= least {
                trimmed += u64::from(run.end - run.start);
            }
        }
        Ok(trimmed)
    }

    /// Discards the first free run in `range` of a group, if it has at least `least` clusters; says which it is.
    fn trim_run(
        &self,
        group: &Group,
        bits: &BlockBits,
        range: Range<u32>,
        least: u32,
    ) -> Result<Option<Range<u32>>> {
        let locked = self.lock(group);
        let Some(first) = bitmap::find_clear(&bits.busy, range.start, range.end) else {
            return Ok(None);
        };
        let len = bitmap::claim_run(&bits.busy, first, range.end - first);
        let end = first + len.max(1);
        if len < least {
            bitmap::assign_run(&bits.busy, first, len, false);
            return Ok(Some(first..end));
        }
        drop(locked);
        let block = self.volume.block_size();
        let clusters = self.clusters_from(group.no, first, len);
        let run = self.blocks_of(clusters);
        let (place, bytes) = (run.pblk.0 * block, u64::from(run.len) * block);
        let done = self.volume.device().discard(place, bytes);
        self.volume.host_space().forget(place, bytes);
        self.clear_busy(clusters);
        done?;
        Ok(Some(first..end))
    }

    /// With the option `discard`: discards the blocks whose transaction is durable, before the
    /// allocator has them.
    pub(crate) fn discard_freed(&self, freed: &[(u64, u32)]) {
        let block = self.volume.block_size();
        let mut runs: Vec<(u64, u64)> = freed.iter().map(|(b, n)| (*b, u64::from(*n))).collect();
        runs.sort_unstable();
        runs.dedup_by(|next, run| {
            let follows = run.0 + run.1 == next.0;
            if follows {
                run.1 += next.1;
            }
            follows
        });
        for (first, len) in runs {
            let done = self.volume.device().discard(first * block, len * block);
            self.volume.host_space().forget(first * block, len * block);
            if let Err(why) = done {
                tracing::warn!("blocks from {first} on are not discarded: {why}");
            }
        }
    }
}
