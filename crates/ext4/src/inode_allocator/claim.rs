//! The variants: how a clear bit of a group's inode bitmap becomes ours.
//!
//! # Locking
//! `retry-unlocked` and `retry-locked` search without the group's lock, then start the handle and get
//! write access, either of which may sleep, and only then take the lock: another may have the bit by
//! then. `lock-free` starts the handle first, and nothing sleeps between its search and its claim.
//!
//! The published code gets write access to the descriptor once, after the claim. Here every change of a
//! group asks for it before it touches the bitmap, once per claim as well: the descriptor that an
//! earlier transaction still has to write is completed (with the bitmap's checksum) at that moment.

use crate::group::inode_bits::InodeBits;
use crate::group::{Group, bitmap};
use crate::inode_allocator::InodeAllocator;
use crate::inode_allocator::rest::Rest;
use crate::options::ialloc_variant::IallocVariant;
use crate::prelude::*;
use crate::volume::handles::LazyHandle;
use uext4_sync::probe;
use uext4_sync::stat;

impl InodeAllocator {
    /// Sets a clear bit at or after `from` whose inode `rest` admits; None if there is none. `lock-free` looks before
    /// it, too, and with `share` also among the bits of other CPUs.
    ///
    /// # Journal
    /// Two credits: descriptors, bitmap. The handle starts here at the latest.
    pub(super) fn claim_bit(
        &self,
        late: &LazyHandle<'_>,
        group: &Group,
        bits: &InodeBits,
        from: u32,
        share: bool,
        rest: Option<Rest>,
    ) -> Result<Option<u32>> {
        // Where the inode table was not zeroed, inodes that are skipped would be garbage in use.
        let dense = self.volume.csum != GroupCsum::None
            && !group.flags().contains(GroupFlags::ITABLE_ZEROED);
        let from = if dense { 0 } else { from };
        let claimed = match self.volume.options.ialloc {
            IallocVariant::LockFree => {
                self.claim_lock_free(late, group, bits, (from, dense), share, rest)?
            }
            IallocVariant::RetryUnlocked => {
                self.claim_retrying(late, group, bits, from, rest, |_, _| None)?
            }
            IallocVariant::RetryLocked => {
                self.claim_retrying(late, group, bits, from, rest, |numbers, lost_at| {
                    let index = numbers.find_in_group(group, bits, lost_at, rest)?;
                    bitmap::set(&bits.words, index).then_some(index)
                })?
            }
        };
        match claimed {
            Some(_) => bits.mark_dirty(),
            // Access alone changes nothing, and the next group's bitmap may be damaged.
            None => late.nothing_changed(),
        }
        Ok(claimed)
    }

    /// The two variants that race: `again` is what a loser does with the group locked.
    fn claim_retrying(
        &self,
        late: &LazyHandle<'_>,
        group: &Group,
        bits: &InodeBits,
        from: u32,
        rest: Option<Rest>,
        again: impl Fn(&InodeAllocator, u32) -> Option<u32>,
    ) -> Result<Option<u32>> {
        let mut at = from;
        let mut described = false;
        while let Some(index) = self.find_in_group(group, bits, at, rest) {
            let handle = late.get()?;
            if !described {
                self.volume.access_group(handle, group)?;
                described = true;
            }
            get_write_access(handle, &bits.buffer)?;
            let locked = group.changes.lock();
            if bitmap::set(&bits.words, index) {
                return Ok(Some(index));
            }
            if let Some(index) = again(self, index) {
                return Ok(Some(index));
            }
            drop(locked);
            if group.damaged.load(Relaxed) {
                break;
            }
            at = index + 1;
        }
        Ok(None)
    }

    /// Finds the first clear bit at or after `from` that may be given out, and whose inode `rest` admits. Claims nothing.
    ///
    /// A clear bit of a reserved inode is damage: it is reported and the group left alone.
    fn find_in_group(
        &self,
        group: &Group,
        bits: &InodeBits,
        from: u32,
        rest: Option<Rest>,
    ) -> Option<u32> {
        let end = self.volume.geometry().inodes_per_group;
        let mut at = from;
        while let Some(index) = bitmap::find_clear(&bits.words, at, end) {
            if index < self.reserved_in(group) {
                self.volume.leave_group(group, &reserved_is_free(group));
                return None;
            }
            if rest.is_none_or(|rest| rest.admits(bits, index)) {
                return Some(index);
            }
            at = index + 1;
        }
        None
    }

    fn claim_lock_free(
        &self,
        late: &LazyHandle<'_>,
        group: &Group,
        bits: &InodeBits,
        (goal, dense): (u32, bool),
        share: bool,
        rest: Option<Rest>,
    ) -> Result<Option<u32>> {
        let handle = late.get()?;
        self.volume.access_group(handle, group)?;
        get_write_access(handle, &bits.buffer)?;
        let end = self.volume.geometry().inodes_per_group;
        let reserved = self.reserved_in(group);
        let mut retries = 0;
        let may = |index| rest.is_none_or(|rest| rest.admits(bits, index));
        let claimed = if dense || goal > reserved {
            bitmap::claim_if(&bits.words, goal.max(reserved), end, may, &mut retries)
        } else {
            bits.claim_own(reserved, end, &may, &mut retries)
        };
        let claimed = claimed.or_else(|| {
            let among_all = || bitmap::claim_if(&bits.words, reserved, end, may, &mut retries);
            share.then(among_all).flatten()
        });
        if claimed.is_some() {
            stat::count_atomic(&class::GROUP, retries);
        }
        Ok(claimed)
    }

    /// How many inodes at the start of the group are reserved.
    pub(super) fn reserved_in(&self, group: &Group) -> u32 {
        if group.no.0 == 0 {
            self.volume.geometry().first_ino.0.saturating_sub(1)
        } else {
            0
        }
    }
}

/// Gets write access to an inode bitmap.
fn get_write_access(handle: &Handle<'_>, bitmap: &Arc<Buffer>) -> Result<()> {
    let _timed = probe::time_bitmap_access();
    Ok(handle.access_native(bitmap)?)
}

/// The damage of a bitmap that claims reserved inodes free.
pub(super) fn reserved_is_free(group: &Group) -> Corrupt {
    Corrupt::new(CorruptKind::InodeBitmapChecksum)
        .ino(Ino(1))
        .pblk(group.inode_bitmap())
        .detail("reserved inodes are marked free")
}
