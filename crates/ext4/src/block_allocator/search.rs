//! The variants: how free blocks of a group are found and claimed.
//!
//! # Locking
//! `group-lock` holds the group's lock for the search and the claim. `trylock` does so too, but passes over a group whose lock is
//! held; it waits for locks only after every group was searched or passed over. `percpu` takes no lock: it claims what it
//! found by atomic operations, and searches again if another thread was faster.
//!
//! A file of which a part went to another group than its own is continued there: the two variants with locks remember the group in
//! a goal that files share. `group-lock` has one goal, `trylock` one for each CPU at most, and a file's number chooses it.

use crate::block_allocator::clusters::ClusterRun;
use crate::block_allocator::{BlockAllocator, Goal};
use crate::group::{BitmapChanges, BlockBits, Group, bitmap};
use crate::options::balloc_variant::BallocVariant;
use crate::prelude::*;
use crate::run::Run;
use uext4_sync::MutexGuard;

/// Blocks of a file from which on it uses a shared goal: 64 KiB of the usual size.
const LARGE_FILE_BLOCKS: u64 = 16;

/// A shared goal that no file has set.
const NO_GROUP: u32 = u32::MAX;

/// The groups in which large files found room after their own had none.
#[derive(Debug)]
pub(super) struct SharedGoals(Box<[CachePadded<AtomicU32>]>);

impl SharedGoals {
    pub fn new(variant: BallocVariant, cpus: usize, groups: u32) -> SharedGoals {
        let count = match variant {
            BallocVariant::GroupLock => 1,
            BallocVariant::TryLock => cpus.min(groups as usize / 4).max(1),
            BallocVariant::PerCpu => 0,
        };
        let goals = (0..count).map(|_| CachePadded::new(AtomicU32::new(NO_GROUP)));
        SharedGoals(goals.collect())
    }

    /// That of a request, if it has one.
    fn of(&self, goal: &Goal, want: u32) -> Option<&AtomicU32> {
        let is_large = u64::from(goal.lblk.0) + u64::from(want) >= LARGE_FILE_BLOCKS;
        let at = (goal.ino.0 as usize).checked_rem(self.0.len())?;
        let shared = self.0.get(at).filter(|_| goal.ino.0 != 0 && is_large);
        shared.map(|goal| &**goal)
    }
}

/// The result of a search in one group.
enum Search {
    Found(ClusterRun),
    Nothing,
    /// Another thread holds the lock.
    Busy,
}

/// What to do about a lock that is held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Wait,
    PassOver,
}

impl BlockAllocator {
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
        let (most, enough) = (
            self.clusters_for(&goal, want),
            self.clusters_for(&goal, least),
        );
        let found = self.reserve_clusters_together(goal, most, enough)?;
        Ok(found.map(|clusters| self.run_at(&goal, clusters, want)))
    }

    /// The same, of clusters.
    pub(super) fn reserve_clusters_together(
        &self,
        goal: Goal,
        want: u32,
        least: u32,
    ) -> Result<Option<ClusterRun>> {
        let found = match self.variant {
            BallocVariant::TryLock => match self.search(goal, want, least, Held::PassOver)? {
                Search::Busy => self.search(goal, want, least, Held::Wait)?,
                found => found,
            },
            _ => self.search(goal, want, least, Held::Wait)?,
        };
        let Search::Found(run) = found else {
            return Ok(None);
        };
        self.free_blocks.add(-(run.len as isize));
        Ok(Some(run))
    }

    /// Searches the goal's group, then the others, from the shared goal on.
    fn search(&self, goal: Goal, want: u32, least: u32, held: Held) -> Result<Search> {
        let geometry = self.volume.geometry();
        let (start, at) = self.bit_of(goal.pblk).unwrap_or_default();
        let groups = geometry.groups_count.min(goal.groups);
        let Some(own) = start.0.checked_rem(groups).map(GroupNo) else {
            return Ok(Search::Nothing);
        };
        let mut any_busy = false;
        match self.search_group(own, at, want, least, held)? {
            Search::Nothing => {}
            Search::Busy => any_busy = true,
            found => return Ok(found),
        }
        let shared = self.shared_goals.of(&goal, want);
        let set = shared.map_or(NO_GROUP, |goal| goal.load(Relaxed));
        let first = if set == NO_GROUP { own.0 + 1 } else { set };
        for i in 0..groups {
            let no = GroupNo(((u64::from(first) + u64::from(i)) % u64::from(groups)) as u32);
            if no == own {
                continue;
            }
            match self.search_group(no, 0, want, least, held)? {
                Search::Nothing => {}
                Search::Busy => any_busy = true,
                found => {
                    if let Some(shared) = shared
                        && set != no.0
                    {
                        shared.store(no.0, Relaxed);
                    }
                    return Ok(found);
                }
            }
        }
        Ok(match any_busy {
            true => Search::Busy,
            false => Search::Nothing,
        })
    }

    /// Reserves up to `want` and at least `least` clusters in one group, from `from` on and then from its start; with 0 from where
    /// the last search ended, in the variants that lock.
    fn search_group(
        &self,
        no: GroupNo,
        from: u32,
        want: u32,
        least: u32,
        held: Held,
    ) -> Result<Search> {
        let Some((group, bits)) = self.group_with(no, least)? else {
            return Ok(Search::Nothing);
        };
        let mut locked = match (self.variant, held) {
            (BallocVariant::PerCpu, _) => None,
            (_, Held::Wait) => Some(group.changes.lock()),
            (_, Held::PassOver) => match group.changes.try_lock() {
                Some(locked) => Some(locked),
                None => return Ok(Search::Busy),
            },
        };
        let end = self.clusters_in_group(no);
        let from = match &locked {
            Some(locked) if from == 0 => locked.block_hint.min(end),
            _ => from,
        };
        let found = claim_found(bits, least, || find_run(bits, from, end, want, least));
        let Some((first, len)) = found else {
            return Ok(Search::Nothing);
        };
        if let Some(locked) = &mut locked {
            locked.block_hint = first + len;
        }
        drop(locked);
        Ok(Search::Found(self.clusters_from(no, first, len)))
    }

    /// A group that may have so many free clusters, and its bitmaps.
    pub(super) fn group_with(
        &self,
        no: GroupNo,
        least: u32,
    ) -> Result<Option<(&Group, &BlockBits)>> {
        let group = self.volume.group(no)?;
        if group.free_blocks.load(Relaxed) < least || group.damaged.load(Relaxed) {
            return Ok(None);
        }
        let bits = self.volume.or_leave(group, self.block_bits(group));
        Ok(bits.map(|bits| (group, bits)))
    }

    /// The lock of a group's bitmaps, in the variants that have it.
    #[inline]
    pub(super) fn lock<'g>(&self, group: &'g Group) -> Option<MutexGuard<'g, BitmapChanges>> {
        (self.variant != BallocVariant::PerCpu).then(|| group.changes.lock())
    }
}

/// Claims the run that `find` finds; it finds another if other threads left less than `least` of it.
pub(super) fn claim_found(
    bits: &BlockBits,
    least: u32,
    find: impl Fn() -> Option<(u32, u32)>,
) -> Option<(u32, u32)> {
    loop {
        let (first, len) = find()?;
        let claimed = bitmap::claim_run(&bits.busy, first, len);
        if claimed >= least {
            return Some((first, claimed));
        }
        bitmap::assign_run(&bits.busy, first, claimed, false);
    }
}

/// Finds a run of at least `least` clear bits, from `from` on and then from the start; takes `want` of
/// it at most, or the longest there is if that is at least `least`.
pub(super) fn find_run(
    bits: &BlockBits,
    from: u32,
    end: u32,
    want: u32,
    least: u32,
) -> Option<(u32, u32)> {
    let mut best: Option<(u32, u32)> = None;
    for (start, stop) in [(from, end), (0, from.min(end))] {
        let mut at = start;
        while let Some(first) = bitmap::find_clear(&bits.busy, at, stop) {
            let limit = end.min(first.saturating_add(want));
            let len = bitmap::find_set(&bits.busy, first, limit).saturating_sub(first);
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
