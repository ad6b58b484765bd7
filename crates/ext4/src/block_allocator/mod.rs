//! Block allocation (mechanism 6): claiming runs of free blocks in the groups' block bitmaps.
//!
//! # Variants
//! * `group-lock` (before): a group is searched, and a run published or freed, with the group's lock held.
//! * `trylock` (after): the same, but a search passes over a group whose lock is held, and files that leave their group have
//!   several goals instead of one.
//! * `percpu` (beyond, default): a CPU, and a file that grows, has a chunk of blocks reserved in memory, from which an atomic operation
//!   takes; bits are claimed, published and freed by atomic operations, and blocks of a group are counted when its
//!   descriptor is encoded.
//!
//! A new variant needs `options::balloc_variant`, and `search` or `ahead`; its name in the help and in `bench/src/variants.rs`. Its tests are
//! `tests`, `tests/operations/block_allocation.rs` and `tests/schedule/block_allocation.rs`, which run every variant;
//! `uext4 bench fxmark --only FALLOCATE2 --balloc` measures it.
//!
//! # Invariants
//! - Journal access to the descriptor block and the bitmap block precedes the change of a bit.
//! - A block freed in a transaction stays busy until that transaction is durable, so that its old
//!   content survives a crash while the old metadata can be recovered.
//! - A bit of `on_disk` is set by the thread that has it reserved in `busy`, and cleared once: of two that free it one fails.
//!
//! # Locking
//! In two variants the group's lock is held while its bitmap is searched and changed, with no I/O under it; the third has none.
//!
//! | module | holds |
//! | --- | --- |
//! | `clusters` | clusters and the blocks in them |
//! | `search` | finding free clusters: the variants |
//! | `ahead` | blocks that are reserved before they are wanted |
//! | `load` | the bitmap of a group |
//! | `trim` | discarding free blocks |
//! | `growth` | blocks that a larger file system has more |
//! | `client` | what happens when a transaction is durable |

mod ahead;
mod client;
pub(crate) mod clusters;
mod growth;
mod load;
mod search;
#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;
mod trim;

use crate::block_allocator::ahead::Ahead;
use crate::block_allocator::client::CommitClient;
use crate::block_allocator::clusters::ClusterRun;
use crate::block_allocator::search::SharedGoals;
use crate::block_allocator::trim::Trims;
use crate::group::{BlockBits, Group, bitmap};
use crate::options::balloc_variant::BallocVariant;
use crate::prelude::*;
use crate::quota::{OwnerIds, operation};
use crate::run::Run;
use crate::volume::Volume;
use uext4_ondisk::{Cluster, GroupBlk};
use uext4_sync::atomic::AtomicI64;
use uext4_sync::{BatchedCount, PerCpu};

/// Clears the bits of what the allocator may not have, unless they are set on disk; returns how many.
fn clear_unless_on_disk(bits: &BlockBits, range: Range<u32>) -> u32 {
    let reserved = range.filter(|bit| !bitmap::is_set(&bits.on_disk, *bit));
    reserved
        .map(|bit| u32::from(bitmap::clear(&bits.busy, bit)))
        .sum()
}

pub(crate) static ZEROS: [u8; 65536] = [0; 65536];

/// All CPUs together may have allocated one block in so many before the number that all share says so; near the end of
/// the space each is counted.
const FREE_BLOCKS_ERROR: u64 = 64;
/// A CPU says so after so many blocks.
const FREE_BLOCKS_BATCH: usize = 4096;

/// Where blocks should go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    /// The block that would be best.
    pub pblk: Pblk,
    /// The most that are wanted at once.
    pub most: u32,
    /// How many groups, from the first on, are in reach.
    pub groups: u32,
    /// The file that is to have them, and where in it; 0 for metadata.
    pub ino: Ino,
    pub lblk: Lblk,
    /// The blocks from there on in a cluster that the file already has: no other may be allocated for them.
    pub has_cluster: Option<Run>,
}

impl From<Pblk> for Goal {
    fn from(pblk: Pblk) -> Goal {
        Goal {
            pblk,
            most: u32::MAX,
            groups: u32::MAX,
            ino: Ino(0),
            lblk: Lblk(0),
            has_cluster: None,
        }
    }
}

impl Goal {
    /// The same for data of a file.
    pub(crate) fn of_file(self, ino: Ino, lblk: Lblk) -> Goal {
        Goal { ino, lblk, ..self }
    }
}

/// Allocates and frees blocks; see the module.
pub struct BlockAllocator {
    pub(crate) volume: Arc<Volume>,
    variant: BallocVariant,
    ahead: Ahead,
    shared_goals: SharedGoals,
    /// Binary logarithm of the blocks in a cluster; immutable.
    cluster_bits: u32,
    /// Free clusters in all groups, those that wait for their transaction included.
    free_blocks: BatchedCount,
    /// Freed runs that wait for their transaction; only the sum means anything.
    pending_frees: PerCpu<AtomicI64>,
    /// How often runs were released, so that a search that fails knows of a release beside it.
    releases: CachePadded<AtomicU64>,
    trims: Trims,
}

impl BlockAllocator {
    pub(crate) fn new(volume: Arc<Volume>) -> Arc<BlockAllocator> {
        let free_in = |g: &Arc<Group>| g.free_blocks.load(Relaxed) as isize;
        let free = volume.groups().iter().map(free_in).sum();
        let error_max = volume.geometry().clusters_count() / FREE_BLOCKS_ERROR;
        let error_max = usize::try_from(error_max).unwrap_or(usize::MAX);
        let geometry = volume.geometry();
        let (clusters, groups) = (geometry.clusters_count(), geometry.groups_count);
        let cluster_bits = geometry.cluster_bits();
        let variant = volume.options.balloc;
        let pending_frees = PerCpu::new(|_| AtomicI64::new(0));
        let cpus = pending_frees.iter().count();
        let blocks = Arc::new(BlockAllocator {
            volume,
            variant,
            ahead: Ahead::new(clusters),
            shared_goals: SharedGoals::new(variant, cpus, groups),
            cluster_bits,
            free_blocks: BatchedCount::new(free, error_max, FREE_BLOCKS_BATCH),
            pending_frees,
            releases: CachePadded::new(AtomicU64::new(0)),
            trims: Trims::new(),
        });
        let client = CommitClient(Arc::downgrade(&blocks));
        blocks.volume.journal().set_client(Arc::new(client));
        blocks
    }
}

impl BlockAllocator {
    /// Claims up to `want` blocks that lie together, at `goal` or as near as can be: reserved and
    /// published at once.
    ///
    /// # Journal
    /// Two credits: descriptors, bitmap.
    ///
    /// # Errors
    /// As [`BlockAllocator::reserve_blocks`].
    pub(crate) fn claim_blocks(
        &self,
        handle: &Handle<'_>,
        goal: impl Into<Goal>,
        want: u32,
        privileged: bool,
    ) -> Result<Run> {
        let run = self.reserve_blocks(goal, want, privileged)?;
        self.volume
            .allocate_on_host(run)
            .and_then(|()| self.publish_run(handle, run))
            .inspect_err(|_| self.unreserve(run))?;
        Ok(run)
    }

    /// Reserves up to `want` blocks that lie together, in memory only: data can be written to them
    /// before a handle publishes them, and a crash forgets them.
    ///
    /// `privileged`: may use the blocks reserved for the superuser.
    ///
    /// # Errors
    /// [`Ext4Error::NoSpace`], or the device's where a bitmap cannot be read; freed blocks that wait for their transaction do not count as free, so
    /// callers go through [`BlockAllocator::retry_no_space`].
    pub(crate) fn reserve_blocks(
        &self,
        goal: impl Into<Goal>,
        want: u32,
        privileged: bool,
    ) -> Result<Run> {
        let goal = goal.into();
        if let Some(run) = goal.has_cluster {
            let len = want.min(goal.most).clamp(1, run.len);
            return Ok(Run { len, ..run });
        }
        let want = want.min(goal.most).max(1);
        let clusters = self.clusters_for(&goal, want);
        let clusters = self.reserve_clusters(goal, clusters, privileged)?;
        Ok(self.run_at(&goal, clusters, want))
    }

    fn reserve_clusters(&self, goal: Goal, want: u32, privileged: bool) -> Result<ClusterRun> {
        if !privileged && !self.free_blocks.is_above(self.reserved_clusters()) {
            return Err(Ext4Error::NoSpace);
        }
        let want = want.clamp(1, self.volume.geometry().clusters_per_group);
        if self.variant == BallocVariant::PerCpu
            && let Some(run) = self.reserve_ahead(&goal, want)?
        {
            return Ok(run);
        }
        if let Some(run) = self.reserve_anywhere(goal, want)? {
            return Ok(run);
        }
        // All that is free may be reserved for CPUs and files.
        if self.release_ahead()
            && let Some(run) = self.reserve_anywhere(goal, want)?
        {
            return Ok(run);
        }
        let has_room = |group: &Group| group.free_blocks.load(Relaxed) > 0;
        Err(self
            .volume
            .none_found(Ext4Error::NoSpace, has_room, |group| self.block_bits(group)))
    }

    /// Reserves up to `want` blocks for an inode, as [`BlockAllocator::reserve_blocks`] does, and fewer where its owners
    /// may have fewer.
    ///
    /// # Errors
    /// As that; [`Ext4Error::QuotaExceeded`].
    pub(crate) fn reserve_for(
        &self,
        owners: OwnerIds,
        goal: impl Into<Goal>,
        want: u32,
        privileged: bool,
    ) -> Result<Run> {
        let goal = goal.into();
        let run = self.reserve_blocks(goal, want, privileged)?;
        let Some(quotas) = self.volume.quotas().filter(|_| goal.has_cluster.is_none()) else {
            return Ok(run);
        };
        let all = self.clusters_of(run);
        let allowed = quotas.reserve_blocks(owners, self.volume.cluster_size(), all.len);
        let allowed = allowed.inspect_err(|_| self.unreserve(run))?;
        if allowed == all.len {
            return Ok(run);
        }
        self.unreserve_clusters(ClusterRun {
            first: Cluster(all.first.0 + u64::from(allowed)),
            len: all.len - allowed,
        });
        let all = ClusterRun {
            len: allowed,
            ..all
        };
        Ok(self.run_at(&goal, all, run.len))
    }

    /// Claims a block for an inode, as [`BlockAllocator::claim_blocks`] does.
    ///
    /// # Journal
    /// Two credits.
    ///
    /// # Errors
    /// As that; [`Ext4Error::QuotaExceeded`].
    pub(crate) fn claim_block_for(
        &self,
        handle: &Handle<'_>,
        owners: OwnerIds,
        goal: impl Into<Goal>,
    ) -> Result<Run> {
        let goal = goal.into();
        if let Some(quotas) = self.volume.quotas().filter(|_| goal.has_cluster.is_none()) {
            quotas.reserve(owners, self.volume.cluster_size(), 0)?;
        }
        self.claim_blocks(handle, goal, 1, true)
    }

    /// Reserves in a group that has all of it, or else in one that has any.
    fn reserve_anywhere(&self, goal: Goal, want: u32) -> Result<Option<ClusterRun>> {
        let all = self.reserve_clusters_together(goal, want, want)?;
        match all {
            None if want > 1 => self.reserve_clusters_together(goal, want, 1),
            all => Ok(all),
        }
    }

    /// Releases a reserved run after publishing it failed; not where the journal did, as then it is unknown what
    /// of it will be found.
    pub(crate) fn unreserve_after(&self, why: &Ext4Error, run: Run) {
        if !matches!(why, Ext4Error::Journal(_)) {
            self.unreserve(run);
        }
    }

    /// Gives a reserved run back that was not published. Clusters that the file had before stay with it.
    pub(crate) fn unreserve(&self, run: Run) {
        self.unreserve_clusters(self.clusters_of(run));
    }

    /// Gives reserved runs back, of which several may be in one cluster.
    pub(crate) fn unreserve_all(&self, runs: &[Run]) {
        let mut last = None;
        for run in runs {
            let clusters = self.clusters_of(*run);
            if last != Some(clusters) {
                self.unreserve_clusters(clusters);
            }
            last = Some(clusters);
        }
    }

    fn unreserve_clusters(&self, clusters: ClusterRun) {
        let cleared = self.clear_busy(clusters);
        self.free_blocks.add(cleared as isize);
    }

    /// Lets the allocator have clusters of a group, but those that are allocated on disk: of a file that has some of the
    /// blocks. Returns how many it lets it have.
    fn clear_busy(&self, clusters: ClusterRun) -> u32 {
        let pblk = self.blocks_of(clusters).pblk;
        if let Some((no, first)) = self.bit_of(pblk)
            && let Some(group) = self.volume.groups().get(no.0 as usize)
            && let Some(bits) = group.block_bits()
        {
            let locked = self.lock(group);
            let cleared = match self.cluster_bits {
                0 => {
                    bitmap::assign_run(&bits.busy, first, clusters.len, false);
                    clusters.len
                }
                _ => clear_unless_on_disk(bits, first..first + clusters.len),
            };
            if let Some(mut locked) = locked {
                locked.block_hint = locked.block_hint.min(first);
            } else if group.chunk_hint.load(Relaxed) > first {
                group.chunk_hint.fetch_min(first, Relaxed);
            }
            return cleared;
        }
        0
    }

    /// Makes a reserved run (or a part of one) allocated on disk, as part of `handle`; returns how many clusters that adds to
    /// those of its file.
    ///
    /// # Journal
    /// Two credits.
    pub(crate) fn publish_run(&self, handle: &Handle<'_>, run: Run) -> Result<u32> {
        let Some((no, first)) = self.bit_of(run.pblk) else {
            return Err(Corrupt::new(CorruptKind::BlockRange).pblk(run.pblk).into());
        };
        let group = self.volume.group(no)?;
        let bits = self.block_bits(group)?;
        self.volume.access_group(handle, group)?;
        handle.access_native(&bits.buffer)?;
        let locked = self.lock(group);
        let added = self.set_on_disk(bits, first, run);
        bits.mark_dirty();
        group.clear_flags(GroupFlags::BLOCK_UNINIT);
        if locked.is_some() {
            group.free_blocks.fetch_sub(added, Relaxed);
        }
        Ok(added)
    }

    /// Sets the bits of a run whose first is `first`; returns how many were clear.
    fn set_on_disk(&self, bits: &BlockBits, first: u32, run: Run) -> u32 {
        if self.cluster_bits == 0 {
            bitmap::assign_run(&bits.on_disk, first, run.len, true);
            return run.len;
        }
        let mut added = 0;
        for bit in first..first + self.clusters_of(run).len {
            bitmap::set(&bits.busy, bit);
            added += u32::from(bitmap::set(&bits.on_disk, bit));
        }
        added
    }

    /// Makes just these blocks allocated, with their clusters, as far as they are not; calls `f` for the parts of the run, in
    /// whole clusters, with whether they were.
    ///
    /// # Journal
    /// Two credits for each group that the run touches.
    ///
    /// # Errors
    /// Blocks outside the file system, a damaged bitmap, or the device's.
    pub(crate) fn claim_this_run(
        &self,
        handle: &Handle<'_>,
        run: Run,
        f: &mut dyn FnMut(Run, bool) -> Result<()>,
    ) -> Result<()> {
        let run = self.whole_clusters(run);
        let end = run.pblk.0.saturating_add(u64::from(run.len));
        let mut pblk = run.pblk;
        while pblk.0 < end {
            let range = || Corrupt::new(CorruptKind::BlockRange).pblk(pblk);
            let (no, first) = self.bit_of(pblk).ok_or_else(range)?;
            let group = self.volume.group(no)?;
            let bits = self.block_bits(group)?;
            let left = u32::try_from(end - pblk.0).unwrap_or(u32::MAX);
            let left = self.clusters_of(Run { pblk, len: left }).len;
            let stop = first.saturating_add(left).min(self.clusters_in_group(no));
            self.volume.access_group(handle, group)?;
            handle.access_native(&bits.buffer)?;
            let locked = group.changes.lock();
            let was_used = bitmap::is_set(&bits.on_disk, first);
            let upto = if was_used {
                bitmap::find_clear(&bits.on_disk, first, stop).unwrap_or(stop)
            } else {
                bitmap::find_set(&bits.on_disk, first, stop)
            };
            let len = upto.saturating_sub(first);
            if !was_used {
                bitmap::assign_run(&bits.on_disk, first, len, true);
                bitmap::assign_run(&bits.busy, first, len, true);
                bits.mark_dirty();
                group.clear_flags(GroupFlags::BLOCK_UNINIT);
                group.free_blocks.fetch_sub(len, Relaxed);
                self.free_blocks.add(-(len as isize));
            }
            drop(locked);
            if len == 0 {
                return Err(range().into());
            }
            let part = self.blocks_of(self.clusters_from(no, first, len));
            f(part, was_used)?;
            pblk = Pblk(pblk.0 + u64::from(part.len));
        }
        Ok(())
    }

    /// Frees the clusters of a run of blocks: at once on disk, for the allocator when the transaction is durable.
    ///
    /// # Journal
    /// Two credits for each group that the run touches.
    ///
    /// # Errors
    /// Blocks that are free or outside the file system, which is damage.
    pub(crate) fn free_run(&self, handle: &Handle<'_>, run: Run) -> Result<()> {
        let geometry = self.volume.geometry();
        let run = self.whole_clusters(run);
        let mut pblk = run.pblk;
        let mut left = run.len;
        while left > 0 {
            let Some((no, first)) = geometry.group_of_block(pblk) else {
                return Err(Corrupt::new(CorruptKind::BlockRange).pblk(pblk).into());
            };
            let here = left.min(geometry.blocks_in_group(no).saturating_sub(first.0));
            if here == 0 {
                return Err(Corrupt::new(CorruptKind::BlockRange).pblk(pblk).into());
            }
            let bits = self.clusters_of(Run { pblk, len: here }).len;
            let first = first.0 >> self.cluster_bits;
            self.free_in_group(handle, self.volume.group(no)?, first, bits, pblk)?;
            handle.free(pblk.0, here);
            pblk = Pblk(pblk.0 + u64::from(here));
            left -= here;
        }
        Ok(())
    }

    /// Checks that a run is allocated, so that freeing it will not fail; reads the bitmaps of its groups.
    ///
    /// # Locks
    /// May read from the device, so no handle may be open.
    ///
    /// # Errors
    /// Blocks that are free or outside the file system, a damaged bitmap, or the device's.
    pub(crate) fn check_allocated(&self, run: Run) -> Result<()> {
        let geometry = self.volume.geometry();
        let (mut pblk, mut left) = (run.pblk, run.len);
        while left > 0 {
            let damage = || Corrupt::new(CorruptKind::BlockRange).pblk(pblk);
            let (no, first) = geometry.group_of_block(pblk).ok_or_else(damage)?;
            let here = left.min(geometry.blocks_in_group(no).saturating_sub(first.0));
            let group = self.volume.group(no)?;
            let bits = self.block_bits(group)?;
            let locked = self.lock(group);
            let clusters = self.clusters_of(Run { pblk, len: here }).len;
            let bit = first.0 >> self.cluster_bits;
            let is_allocated = here > 0 && bitmap::run_is(&bits.on_disk, bit, clusters, true);
            drop(locked);
            if !is_allocated {
                return Err(damage().detail("in use, but marked free").into());
            }
            pblk = Pblk(pblk.0 + u64::from(here));
            left -= here;
        }
        Ok(())
    }

    fn free_in_group(
        &self,
        handle: &Handle<'_>,
        group: &Group,
        first: u32,
        len: u32,
        pblk: Pblk,
    ) -> Result<()> {
        let bits = self.block_bits(group)?;
        self.volume.access_group(handle, group)?;
        handle.access_native(&bits.buffer)?;
        let locked = self.lock(group);
        let is_freed = bitmap::clear_run(&bits.on_disk, first, len);
        if is_freed {
            bits.mark_dirty();
            if locked.is_some() {
                group.free_blocks.fetch_add(len, Relaxed);
            }
        }
        drop(locked);
        if !is_freed {
            return Err(Corrupt::new(CorruptKind::BlockRange)
                .pblk(pblk)
                .detail("freed twice")
                .into());
        }
        self.free_blocks.add(len as isize);
        self.pending_frees.get().fetch_add(1, Relaxed);
        Ok(())
    }

    /// Frees one metadata block: it is revoked in the journal.
    ///
    /// # Journal
    /// Three credits.
    ///
    /// # Errors
    /// As [`BlockAllocator::free_run`].
    pub(crate) fn free_metadata(&self, handle: &Handle<'_>, pblk: Pblk) -> Result<()> {
        self.volume.geometry().check_block(pblk)?;
        handle.forget(&self.volume.cache().get_unread(pblk.0))?;
        self.free_run(handle, Run { pblk, len: 1 })
    }

    /// The transaction that freed these runs is durable: the allocator may have them.
    pub(crate) fn release_runs(&self, freed: &[(u64, u32)]) {
        for &(pblk, len) in freed {
            for block in pblk..pblk + u64::from(len) {
                self.volume.cache().remove(block);
            }
            let pblk = Pblk(pblk);
            self.clear_busy(self.clusters_of(Run { pblk, len }));
        }
        self.releases.fetch_add(1, Ordering::SeqCst);
        let released = freed.len() as i64;
        self.pending_frees.get().fetch_sub(released, Relaxed);
    }

    /// Runs `attempt`; when it finds no space although freed blocks wait for their transaction,
    /// commits and runs it again; and again when free blocks that were being discarded are back.
    ///
    /// # Locks
    /// Waits for a commit: call it with no handle.
    ///
    /// # Errors
    /// Those of `attempt`.
    pub(crate) fn retry_no_space<R>(&self, mut attempt: impl FnMut() -> Result<R>) -> Result<R> {
        let releases = self.releases.load(Ordering::SeqCst);
        let result = attempt();
        if !result.as_ref().is_err_and(Ext4Error::is_no_space) {
            return result;
        }
        operation::start_again();
        let pending: i64 = self.pending_frees.iter().map(|n| n.load(Relaxed)).sum();
        if pending > 0 || self.releases.load(Ordering::SeqCst) != releases {
            self.volume.journal().sync()?;
            let again = attempt();
            if !again.as_ref().is_err_and(Ext4Error::is_no_space) {
                return again;
            }
        }
        self.trims.without(attempt).unwrap_or(result)
    }

    /// Whether a block is free on disk.
    ///
    /// # Errors
    /// A bitmap that is damaged or can't be read.
    pub(crate) fn is_free(&self, no: GroupNo, block: GroupBlk) -> Result<bool> {
        let bits = self.block_bits(self.volume.group(no)?)?;
        let bit = block.0 >> self.cluster_bits;
        Ok(bitmap::run_is(&bits.on_disk, bit, 1, false))
    }

    /// Where the blocks of an inode go that has none yet: its group.
    pub(crate) fn goal_of(&self, ino: uext4_ondisk::Ino) -> Pblk {
        match self.volume.geometry().group_of_ino(ino) {
            Ok((no, _)) => self.volume.geometry().group_first_block(no),
            Err(_) => Pblk(0),
        }
    }
}

impl BlockAllocator {
    /// Free blocks of all groups, those included that wait for their transaction.
    pub(crate) fn free_blocks_total(&self) -> u64 {
        u64::try_from(self.free_blocks.exact()).unwrap_or(0) << self.cluster_bits
    }

    /// Clusters that only a privileged caller gets.
    fn reserved_clusters(&self) -> isize {
        self.volume.reserved_blocks() >> self.cluster_bits
    }

    /// Writes data into blocks that hold nothing yet, from byte `within` on, and zeros around it.
    pub(crate) fn fill_run(&self, run: Run, within: u64, data: &[u8]) -> Result<usize> {
        let size = self.volume.block_size();
        let bytes = u64::from(run.len) * size;
        let n = (bytes - within).min(data.len() as u64) as usize;
        let start = run.pblk.0 * size;
        let part = &data[..n];
        let tail = bytes - within - n as u64;
        if within == 0 && tail == 0 {
            self.volume.device().write_at(start, part)?;
            return Ok(n);
        }
        let head = &ZEROS[..within as usize];
        let zeros = &ZEROS[..tail as usize];
        self.volume.device().write_vectored_at(
            start,
            &[
                std::io::IoSlice::new(head),
                std::io::IoSlice::new(part),
                std::io::IoSlice::new(zeros),
            ],
        )?;
        Ok(n)
    }
}
