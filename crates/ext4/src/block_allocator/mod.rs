//! Block allocation: claiming runs of free blocks in the groups' block bitmaps.
//!
//! # Invariants
//! - Journal access to the descriptor block and the bitmap block precedes the change of a bit.
//! - A block freed in a transaction stays busy until that transaction is durable, so that its old
//!   content survives a crash while the old metadata can be recovered.
//!
//! # Locking
//! The group's lock is held while its bitmap is searched and changed; no I/O under it.
//!
//! | module | holds |
//! | --- | --- |
//! | `trim` | discarding free blocks |
//! | `growth` | blocks that a larger file system has more |
//! | `client` | what happens when a transaction is durable |

mod client;
mod growth;
#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;
mod trim;

use crate::block_allocator::client::CommitClient;
use crate::block_allocator::trim::Trims;
use crate::group::{BlockBits, Group, bitmap};
use crate::kinds;
use crate::prelude::*;
use crate::run::Run;
use crate::volume::Volume;
use uext4_sync::atomic::AtomicI64;
use uext4_sync::{BatchedCount, PerCpu};

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
}

impl From<Pblk> for Goal {
    fn from(pblk: Pblk) -> Goal {
        Goal {
            pblk,
            most: u32::MAX,
            groups: u32::MAX,
        }
    }
}

/// Allocates and frees blocks; see the module.
pub struct BlockAllocator {
    pub(crate) volume: Arc<Volume>,
    /// Free blocks in all groups, those that wait for their transaction included.
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
        let error_max = volume.geometry().blocks_count / FREE_BLOCKS_ERROR;
        let error_max = usize::try_from(error_max).unwrap_or(usize::MAX);
        let blocks = Arc::new(BlockAllocator {
            volume,
            free_blocks: BatchedCount::new(free, error_max, FREE_BLOCKS_BATCH),
            pending_frees: PerCpu::new(|_| AtomicI64::new(0)),
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
        if !privileged && !self.free_blocks.is_above(self.volume.reserved_blocks()) {
            return Err(Ext4Error::NoSpace);
        }
        let most = self.volume.geometry().blocks_per_group;
        let want = want.min(goal.most).clamp(1, most);
        // First a group that has all of it, then one that has any.
        for least in [want, 1] {
            if let Some(run) = self.reserve_together(goal, want, least)? {
                return Ok(run);
            }
            if want == 1 {
                break;
            }
        }
        let has_room = |group: &Group| group.free_blocks.load(Relaxed) > 0;
        Err(self
            .volume
            .none_found(Ext4Error::NoSpace, has_room, |group| self.block_bits(group)))
    }

    /// Reserves up to `want` blocks that lie together, and at least `least`, in one group; None if no group has them.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn reserve_together(
        &self,
        goal: Goal,
        want: u32,
        least: u32,
    ) -> Result<Option<Run>> {
        let geometry = self.volume.geometry();
        let (start, at) = geometry.group_of_block(goal.pblk).unwrap_or_default();
        let groups = geometry.groups_count.min(goal.groups);
        for i in 0..groups {
            let no = GroupNo((start.0 + i) % groups);
            let from = if i == 0 { at.0 } else { 0 };
            if let Some(run) = self.reserve_in_group(no, from, want, least)? {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// Reserves up to `want` and at least `least` blocks in one group.
    fn reserve_in_group(
        &self,
        no: GroupNo,
        from: u32,
        want: u32,
        least: u32,
    ) -> Result<Option<Run>> {
        let group = self.volume.group(no)?;
        if group.free_blocks.load(Relaxed) < least || group.damaged.load(Relaxed) {
            return Ok(None);
        }
        let Some(bits) = self.volume.or_leave(group, self.block_bits(group)) else {
            return Ok(None);
        };
        let end = self.volume.geometry().blocks_in_group(no);
        let mut locked = group.changes.lock();
        let from = if from == 0 {
            locked.block_hint.min(end)
        } else {
            from
        };
        let Some((first, len)) = find_run(bits, from, end, want, least) else {
            return Ok(None);
        };
        bitmap::assign_run(&bits.busy, first, len, true);
        locked.block_hint = first + len;
        drop(locked);
        self.free_blocks.add(-(len as isize));
        Ok(Some(Run {
            pblk: Pblk(self.volume.geometry().group_first_block(no).0 + u64::from(first)),
            len,
        }))
    }

    /// Releases a reserved run after publishing it failed; not where the journal did, as then it is unknown what
    /// of it will be found.
    pub(crate) fn unreserve_after(&self, why: &Ext4Error, run: Run) {
        if !matches!(why, Ext4Error::Journal(_)) {
            self.unreserve(run);
        }
    }

    /// Gives a reserved run back that was not published.
    pub(crate) fn unreserve(&self, run: Run) {
        if let Some((no, first)) = self.volume.geometry().group_of_block(run.pblk)
            && let Some(group) = self.volume.groups().get(no.0 as usize)
            && let Some(bits) = group.block_bits()
        {
            let mut locked = group.changes.lock();
            bitmap::assign_run(&bits.busy, first.0, run.len, false);
            locked.block_hint = locked.block_hint.min(first.0);
            drop(locked);
            self.free_blocks.add(run.len as isize);
        }
    }

    /// Makes a reserved run (or a part of one) allocated on disk, as part of `handle`.
    ///
    /// # Journal
    /// Two credits.
    pub(crate) fn publish_run(&self, handle: &Handle<'_>, run: Run) -> Result<()> {
        let Some((no, first)) = self.volume.geometry().group_of_block(run.pblk) else {
            return Err(Corrupt::new(CorruptKind::BlockRange).pblk(run.pblk).into());
        };
        let group = self.volume.group(no)?;
        let bits = self.block_bits(group)?;
        self.volume.access_group(handle, group)?;
        handle.access_native(&bits.buffer)?;
        let _locked = group.changes.lock();
        bitmap::assign_run(&bits.on_disk, first.0, run.len, true);
        bits.mark_dirty();
        group.clear_flags(GroupFlags::BLOCK_UNINIT);
        group.free_blocks.fetch_sub(run.len, Relaxed);
        Ok(())
    }

    /// Makes just these blocks allocated, as far as they are not; calls `f` for the parts of the run, with
    /// whether they were.
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
        let geometry = self.volume.geometry();
        let end = run.pblk.0.saturating_add(u64::from(run.len));
        let mut pblk = run.pblk;
        while pblk.0 < end {
            let range = || Corrupt::new(CorruptKind::BlockRange).pblk(pblk);
            let (no, first) = geometry.group_of_block(pblk).ok_or_else(range)?;
            let group = self.volume.group(no)?;
            let bits = self.block_bits(group)?;
            let left = u32::try_from(end - pblk.0).unwrap_or(u32::MAX);
            let stop = first
                .0
                .saturating_add(left)
                .min(geometry.blocks_in_group(no));
            self.volume.access_group(handle, group)?;
            handle.access_native(&bits.buffer)?;
            let locked = group.changes.lock();
            let was_used = bitmap::is_set(&bits.on_disk, first.0);
            let upto = if was_used {
                bitmap::find_clear(&bits.on_disk, first.0, stop).unwrap_or(stop)
            } else {
                bitmap::find_set(&bits.on_disk, first.0, stop)
            };
            let len = upto.saturating_sub(first.0);
            if !was_used {
                bitmap::assign_run(&bits.on_disk, first.0, len, true);
                bitmap::assign_run(&bits.busy, first.0, len, true);
                bits.mark_dirty();
                group.clear_flags(GroupFlags::BLOCK_UNINIT);
                group.free_blocks.fetch_sub(len, Relaxed);
                self.free_blocks.add(-(len as isize));
            }
            drop(locked);
            if len == 0 {
                return Err(range().into());
            }
            f(Run { pblk, len }, was_used)?;
            pblk = Pblk(pblk.0 + u64::from(len));
        }
        Ok(())
    }

    /// Frees a run of blocks: at once on disk, for the allocator when the transaction is durable.
    ///
    /// # Journal
    /// Two credits for each group that the run touches.
    ///
    /// # Errors
    /// Blocks that are free or outside the file system, which is damage.
    pub(crate) fn free_run(&self, handle: &Handle<'_>, run: Run) -> Result<()> {
        let geometry = self.volume.geometry();
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
            self.free_in_group(handle, self.volume.group(no)?, first.0, here, pblk)?;
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
            let locked = group.changes.lock();
            let is_allocated = here > 0 && bitmap::run_is(&bits.on_disk, first.0, here, true);
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
        let locked = group.changes.lock();
        let used = bitmap::run_is(&bits.on_disk, first, len, true);
        if used {
            bitmap::assign_run(&bits.on_disk, first, len, false);
            bits.mark_dirty();
            group.free_blocks.fetch_add(len, Relaxed);
        }
        drop(locked);
        if !used {
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
        let geometry = self.volume.geometry();
        for &(pblk, len) in freed {
            let Some((no, first)) = geometry.group_of_block(Pblk(pblk)) else {
                continue;
            };
            let Some(group) = self.volume.groups().get(no.0 as usize) else {
                continue;
            };
            if let Some(bits) = group.block_bits() {
                let mut locked = group.changes.lock();
                bitmap::assign_run(&bits.busy, first.0, len, false);
                locked.block_hint = locked.block_hint.min(first.0);
            }
            for block in pblk..pblk + u64::from(len) {
                self.volume.cache().remove(block);
            }
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
        if !matches!(result, Err(Ext4Error::NoSpace)) {
            return result;
        }
        let pending: i64 = self.pending_frees.iter().map(|n| n.load(Relaxed)).sum();
        if pending > 0 || self.releases.load(Ordering::SeqCst) != releases {
            self.volume.journal().sync()?;
            let again = attempt();
            if !matches!(again, Err(Ext4Error::NoSpace)) {
                return again;
            }
        }
        self.trims.without(attempt).unwrap_or(result)
    }

    /// The block bitmaps of a group, loaded on first touch.
    ///
    /// # Locks
    /// May read from the device, so no lock of rank `group` or below may be held.
    pub(crate) fn block_bits<'g>(&self, group: &'g Group) -> Result<&'g BlockBits> {
        match group.block_bits() {
            Some(bits) => Ok(bits),
            None => self.load_block_bits(group),
        }
    }

    #[cold]
    fn load_block_bits<'g>(&self, group: &'g Group) -> Result<&'g BlockBits> {
        let loaded = self.read_block_bits(group);
        // Another thread may have changed flags, content and checksum under our eyes.
        match (group.block_bits(), loaded) {
            (Some(bits), _) => Ok(bits),
            (None, Ok(bits)) => Ok(group.publish_blocks(bits)),
            (None, Err(why)) => Err(why),
        }
    }

    fn read_block_bits(&self, group: &Group) -> Result<BlockBits> {
        let geometry = self.volume.geometry();
        let uninit =
            group.flags().contains(GroupFlags::BLOCK_UNINIT) && self.volume.csum != GroupCsum::None;
        let buffer = if uninit {
            self.volume.cache().get_unread(group.block_bitmap().0)
        } else {
            self.volume.cache().get(group.block_bitmap().0)?
        };
        kinds::take(&buffer, kinds::BLOCK_BITMAP, group.no.0)?;
        self.volume.allocate_bitmap(group.block_bitmap())?;
        let mut bytes = vec![0u8; self.volume.cache().block_size()];
        if uninit {
            let mut content = buffer.write();
            buffer.set_uptodate(&mut content);
            drop(content);
            self.fill_uninit_bitmap(group, &mut bytes);
        } else {
            bytes.copy_from_slice(buffer.read().data());
            if let Some(seed) = self.volume.seed() {
                group
                    .encode(None, self.volume.bitmap_bytes, true)
                    .verify_block_bitmap(seed, geometry, &bytes)?;
            }
        }
        let bits = BlockBits::new(buffer, &bytes);
        let end = geometry.blocks_in_group(group.no);
        let all = (bytes.len() * 8) as u32;
        for words in [&bits.busy, &bits.on_disk] {
            bitmap::assign_run(words, end, all - end, true);
        }
        self.check_own_metadata(group, &bits)?;
        let (free, said) = (
            bitmap::count_clear(&bits.on_disk),
            group.free_blocks.load(Relaxed),
        );
        if free != said {
            return Err(Corrupt::new(CorruptKind::BlockBitmapCount)
                .pblk(group.block_bitmap())
                .detail(format_args!("{free} are free, the descriptor says {said}"))
                .into());
        }
        Ok(bits)
    }

    /// Whether a block is free on disk.
    ///
    /// # Errors
    /// A bitmap that is damaged or can't be read.
    pub(crate) fn is_free(&self, no: GroupNo, block: u32) -> Result<bool> {
        let bits = self.block_bits(self.volume.group(no)?)?;
        Ok(bitmap::run_is(&bits.on_disk, block, 1, false))
    }

    /// The bitmap of a group whose flag says that nothing but metadata is in it.
    fn fill_uninit_bitmap(&self, group: &Group, bytes: &mut [u8]) {
        let geometry = self.volume.geometry();
        let first = geometry.group_first_block(group.no).0;
        let end = first + u64::from(geometry.blocks_in_group(group.no));
        let mut mark = |pblk: u64, len: u64| {
            for b in pblk.max(first)..(pblk + len).min(end) {
                let bit = (b - first) as usize;
                if let Some(byte) = bytes.get_mut(bit / 8) {
                    *byte |= 1 << (bit % 8);
                }
            }
        };
        mark(first, u64::from(geometry.base_meta_blocks(group.no)));
        // With flex_bg the tables of this and of other groups may lie here.
        for g in self.volume.groups() {
            mark(g.block_bitmap().0, 1);
            mark(g.inode_bitmap().0, 1);
            mark(
                g.inode_table().0,
                u64::from(geometry.itable_blocks_per_group),
            );
        }
    }

    /// A bitmap that claims the group's own metadata free is damaged.
    fn check_own_metadata(&self, group: &Group, bits: &BlockBits) -> Result<()> {
        let geometry = self.volume.geometry();
        let places = [
            (group.block_bitmap(), 1),
            (group.inode_bitmap(), 1),
            (group.inode_table(), geometry.itable_blocks_per_group),
        ];
        for (pblk, len) in places {
            if let Some((no, first)) = geometry.group_of_block(pblk)
                && no == group.no
                && !bitmap::run_is(&bits.on_disk, first.0, len, true)
            {
                return Err(Corrupt::new(CorruptKind::BlockBitmapChecksum)
                    .pblk(group.block_bitmap())
                    .detail(format_args!("metadata block {pblk} is marked free"))
                    .into());
            }
        }
        Ok(())
    }

    /// Where the blocks of an inode go that has none yet: its group.
    pub(crate) fn goal_of(&self, ino: uext4_ondisk::Ino) -> Pblk {
        match self.volume.geometry().group_of_ino(ino) {
            Ok((no, _)) => self.volume.geometry().group_first_block(no),
            Err(_) => Pblk(0),
        }
    }
}

/// Finds a run of at least `least` clear bits, from `from` on and then from the start; takes `want` of
/// it at most, or the longest there is if that is at least `least`.
fn find_run(bits: &BlockBits, from: u32, end: u32, want: u32, least: u32) -> Option<(u32, u32)> {
    let mut best: Option<(u32, u32)> = None;
    for (start, stop) in [(from, end), (0, from.min(end))] {
        let mut at = start;
        while let Some(first) = bitmap::find_clear(&bits.busy, at, stop) {
            let limit = end.min(first.saturating_add(want));
            let len = bitmap::find_set(&bits.busy, first, limit) - first;
            if len >= want {
                return Some((first, want));
            }
            if len >= least && best.is_none_or(|(_, l)| len > l) {
                best = Some((first, len));
            }
            at = first + len + 1;
        }
    }
    best
}

impl BlockAllocator {
    /// Free blocks of all groups, those included that wait for their transaction.
    pub(crate) fn free_blocks_total(&self) -> u64 {
        u64::try_from(self.free_blocks.exact()).unwrap_or(0)
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
