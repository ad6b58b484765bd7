//! Inode allocation (mechanism 1): claiming a free bit in a group's inode bitmap.
//!
//! # Variants
//! * `retry-unlocked` (before): a clear bit is found without the group's lock; the handle is started
//!   if it is not yet, and gets write access to the bitmap, and only then the bit is set under the lock. If
//!   another thread took it meanwhile, all starts again from the next bit.
//! * `retry-locked` (after): the same, but the loser of the race searches again with the lock held.
//! * `lock-free` (beyond, default): the bit is claimed by an atomic operation on the word in memory,
//!   each CPU in a cache line of its own, of the parent's group or one near it; a lost race costs another round on the
//!   same word.
//!
//! A new variant needs `options::ialloc_variant`, `claim`, and `release_ino` here; its name in the help and the test of
//! `bench/src/variants.rs`. Its tests are
//! `tests/operations/inode_allocation.rs` and `tests/schedule/inode_allocation.rs`, which run every variant;
//! `uext4 bench mdtest --ialloc` measures it.
//!
//! # Policy
//! Directories spread by the Orlov rules (`orlov`). Files follow their parent: its group, those of
//! its flex group, then others by quadratic, then linear probing. A directory remembers the group in
//! which its last child found room. A goal, where the mount has one, precedes all that. Without a journal, a group whose
//! free inodes were all deleted just now is passed over while another group has one that was not.
//!
//! # Invariants
//! Journal access to the descriptor block and the bitmap block precedes the change of a bit.
//! Counters are changed in the same handle as the bit.
//!
//! # Locking
//! `lock-free`: none on the path but those of the buffers, and those only once per transaction. The
//! others: the group's lock, for one read of a bit, or a search.
//!
//! | module | holds |
//! | --- | --- |
//! | `claim` | the variants of claiming a bit |
//! | `orlov` | the group of a new directory |
//! | `load` | the bitmap of a group |
//! | `rest` | inodes that were deleted just now |

mod claim;
mod load;
mod orlov;
mod rest;
#[cfg(all(test, not(shuttle), not(loom), not(virtual_cpus)))]
mod tests;

use crate::group::inode_bits::{InodeBits, LINE_BITS};
use crate::group::{Group, bitmap};
use crate::inode::Inode;
use crate::options::ialloc_variant::IallocVariant;
use crate::prelude::*;
use crate::volume::Volume;
use crate::volume::handles::LazyHandle;
use orlov::SummedRooms;
use rest::Rest;

/// Groups from the parent's on that a CPU searches for a part of the bitmap of its own before it shares one.
const OWN_GROUPS_MAX: usize = 40;

/// Claims and releases inode numbers; see the module.
pub struct InodeAllocator {
    volume: Arc<Volume>,
    /// The group of the next top-level directory.
    next_top_group: CachePadded<AtomicU32>,
    rooms: SummedRooms,
}

impl InodeAllocator {
    pub(crate) fn new(volume: Arc<Volume>) -> InodeAllocator {
        InodeAllocator {
            volume,
            next_top_group: CachePadded::new(AtomicU32::new(0)),
            rooms: SummedRooms::new(),
        }
    }
}

impl InodeAllocator {
    /// Claims an inode number for a child of `parent`.
    ///
    /// # Journal
    /// Two credits: descriptors, bitmap. The handle starts here at the latest.
    ///
    /// # Errors
    /// [`Ext4Error::NoInode`].
    pub(crate) fn claim_ino(
        &self,
        late: &LazyHandle<'_>,
        parent: &Inode,
        is_dir: bool,
    ) -> Result<Ino> {
        let rest = self.rest();
        if let Some(ino) = self.claim_in_groups(late, parent, is_dir, rest)? {
            return Ok(ino);
        }
        if rest.is_some()
            && let Some(ino) = self.claim_in_groups(late, parent, is_dir, None)?
        {
            return Ok(ino);
        }
        Err(self
            .volume
            .none_found(Ext4Error::NoInode, Group::has_free_inode, |group| {
                self.inode_bits(group)
            }))
    }

    /// Claims an inode number that `rest` admits, in the first group of the policy that has one.
    fn claim_in_groups(
        &self,
        late: &LazyHandle<'_>,
        parent: &Inode,
        is_dir: bool,
        rest: Option<Rest>,
    ) -> Result<Option<Ino>> {
        let goal = Ino(self.volume.options.inode_goal);
        let (start, from) = if goal.0 == 0 || goal.0 > self.volume.geometry().inodes_count {
            (self.start_group(parent, is_dir)?, 0)
        } else {
            self.volume.geometry().group_of_ino(goal)?
        };
        // A CPU that shares its bits is slower than one whose files are in the next group.
        let own_first = self.volume.options.ialloc == IallocVariant::LockFree && from == 0;
        match self.claim_in_group(late, start, is_dir, from, !own_first, rest)? {
            Some(ino) => Ok(Some(ino)),
            None => self.claim_elsewhere(late, parent, (start, from), is_dir, own_first, rest),
        }
    }

    /// The rest of [`InodeAllocator::claim_in_groups`], after `start` had no inode, or with `own_first` no line of its bitmap
    /// for this CPU alone.
    #[cold]
    fn claim_elsewhere(
        &self,
        late: &LazyHandle<'_>,
        parent: &Inode,
        (start, from): (GroupNo, u32),
        is_dir: bool,
        own_first: bool,
        rest: Option<Rest>,
    ) -> Result<Option<Ino>> {
        // Whether bits are shared, how many groups were searched already, and how many are searched.
        let passes: &[(bool, usize, usize)] = match own_first {
            true => &[(false, 1, OWN_GROUPS_MAX - 1), (true, 0, usize::MAX)],
            false => &[(true, 1, usize::MAX)],
        };
        for &(share, searched, groups_max) in passes {
            let others = self.groups_after(start, parent.ino).map(|no| (no, 0));
            for (no, from) in std::iter::once((start, from))
                .chain(others)
                .skip(searched)
                .take(groups_max)
            {
                if let Some(ino) = self.claim_in_group(late, no, is_dir, from, share, rest)? {
                    if no != start {
                        parent.set_alloc_group(no);
                    }
                    return Ok(Some(ino));
                }
            }
        }
        Ok(None)
    }

    fn start_group(&self, parent: &Inode, is_dir: bool) -> Result<GroupNo> {
        let (home, _) = self.volume.geometry().group_of_ino(parent.ino)?;
        if is_dir {
            return Ok(self.orlov_group(parent, home));
        }
        let has_room = |no: &GroupNo| {
            self.volume
                .groups()
                .get(no.0 as usize)
                .is_some_and(|group| {
                    group.has_free_inode()
                        && group.inode_bits().is_none_or(InodeBits::has_line_for_claim)
                })
        };
        Ok(parent
            .alloc_group()
            .filter(|last| !has_room(&home) && has_room(last))
            .unwrap_or(home))
    }

    /// Where to search after `start`: the flex group, a quadratic probe of groups that have blocks too, then every group from there; some of
    /// them more than once.
    fn groups_after(&self, start: GroupNo, parent: Ino) -> impl Iterator<Item = GroupNo> + '_ {
        let count = self.volume.geometry().groups_count;
        let mates = 1u32 << self.volume.geometry().log_groups_per_flex;
        let first_mate = start.0 & !(mates - 1);
        let flex = (first_mate..count.min(first_mate.saturating_add(mates))).map(GroupNo);
        // Files of different directories whose group is full go to different groups.
        let probe_from = (u64::from(start.0) + u64::from(parent.0)) % u64::from(count);
        let probes = (0..31)
            .map(|i| 1u64 << i)
            .take_while(move |step| *step < u64::from(count))
            .map(move |step| (probe_from + 2 * step - 1) % u64::from(count))
            .map(|no| GroupNo(no as u32))
            .filter(|no| {
                self.volume
                    .groups()
                    .get(no.0 as usize)
                    .is_some_and(|g| g.free_blocks.load(Relaxed) > 0)
            });
        let all = (1..=count).map(move |i| {
            let no = (u64::from(start.0) + u64::from(i)) % u64::from(count);
            GroupNo(no as u32)
        });
        flex.chain(probes).chain(all)
    }

    fn claim_in_group(
        &self,
        late: &LazyHandle<'_>,
        no: GroupNo,
        is_dir: bool,
        from: u32,
        share: bool,
        rest: Option<Rest>,
    ) -> Result<Option<Ino>> {
        let Some(group) = self.volume.groups().get(no.0 as usize) else {
            return Ok(None);
        };
        if !group.has_free_inode() || group.damaged.load(Relaxed) {
            return Ok(None);
        }
        if rest.is_some_and(|rest| !rest.may_admit(group)) {
            return Ok(None);
        }
        let Some(bits) = self.volume.or_leave(group, self.inode_bits(group)) else {
            return Ok(None);
        };
        if !share && !bits.has_line_for_claim() {
            return Ok(None);
        }
        let end = self.volume.geometry().inodes_per_group;
        let Some(index) = self.claim_bit(late, group, bits, from, share, rest)? else {
            if share && !rest.is_some_and(|rest| rest.note_none(bits, end)) {
                bits.note_full(end);
            }
            return Ok(None);
        };
        self.note_claimed(group, bits, index, is_dir);
        Ok(Some(self.volume.geometry().ino_in_group(no, index)))
    }

    /// Whether an inode number is in use.
    pub(crate) fn is_ino_used(&self, ino: Ino) -> Result<bool> {
        let (no, index) = self.volume.geometry().group_of_ino(ino)?;
        Ok(self.inode_bits(self.volume.group(no)?)?.is_set(index))
    }

    /// Claims just this inode number; false if it is in use.
    ///
    /// # Journal
    /// Two credits, as [`InodeAllocator::claim_ino`].
    pub(crate) fn claim_this_ino(
        &self,
        handle: &Handle<'_>,
        ino: Ino,
        is_dir: bool,
    ) -> Result<bool> {
        let (no, index) = self.volume.geometry().group_of_ino(ino)?;
        let group = self.volume.group(no)?;
        let bits = self.inode_bits(group)?;
        self.volume.access_group(handle, group)?;
        handle.access_native(&bits.buffer)?;
        if !bitmap::set(&bits.words, index) {
            return Ok(false);
        }
        bits.mark_dirty();
        self.note_claimed(group, bits, index, is_dir);
        Ok(true)
    }

    /// Counts an inode that was claimed in a group.
    fn note_claimed(&self, group: &Group, bits: &InodeBits, index: u32, is_dir: bool) {
        group.clear_flags(GroupFlags::INODE_UNINIT);
        bits.count(-1, i32::from(is_dir));
        let per_group = self.volume.geometry().inodes_per_group;
        // By whole cache lines of the bitmap, so that it is written once for each: what is zeroed may count as used.
        let used = match group.flags().contains(GroupFlags::ITABLE_ZEROED) {
            true => (index + 1).next_multiple_of(LINE_BITS).min(per_group),
            false => index + 1,
        };
        let unused = per_group - used;
        if group.itable_unused.load(Relaxed) > unused {
            group.itable_unused.fetch_min(unused, Relaxed);
        }
    }

    /// Checks that an inode number is in use, so that giving it back will not fail.
    ///
    /// # Locks
    /// May read from the device, so no handle may be open.
    ///
    /// # Errors
    /// One that is marked free, a damaged bitmap, or the device's.
    pub(crate) fn check_ino_in_use(&self, ino: Ino) -> Result<()> {
        let (no, index) = self.volume.geometry().group_of_ino(ino)?;
        let group = self.volume.group(no)?;
        match bitmap::is_set(&self.inode_bits(group)?.words, index) {
            true => Ok(()),
            false => Err(Corrupt::new(CorruptKind::InoRange)
                .ino(ino)
                .pblk(group.inode_bitmap())
                .detail("in use, but marked free")
                .into()),
        }
    }

    /// Gives an inode number back.
    ///
    /// # Journal
    /// Two credits, as [`InodeAllocator::claim_ino`].
    ///
    /// # Errors
    /// A number that is not in use, which is damage.
    pub(crate) fn release_ino(&self, handle: &Handle<'_>, ino: Ino, is_dir: bool) -> Result<()> {
        let (no, index) = self.volume.geometry().group_of_ino(ino)?;
        let group = self.volume.group(no)?;
        let bits = self.inode_bits(group)?;
        self.volume.access_group(handle, group)?;
        handle.access_native(&bits.buffer)?;
        let locked =
            (self.volume.options.ialloc != IallocVariant::LockFree).then(|| group.changes.lock());
        // First: a thread that finds the bit clear finds when its inode was deleted.
        if !self.volume.journal().has_log() {
            bits.note_deleted(index);
        }
        let was_set = bitmap::clear(&bits.words, index);
        drop(locked);
        if !was_set {
            return Err(Corrupt::new(CorruptKind::InoRange)
                .ino(ino)
                .pblk(group.inode_bitmap())
                .detail("freed twice")
                .into());
        }
        bits.mark_dirty();
        bits.note_released(is_dir);
        Ok(())
    }
}
