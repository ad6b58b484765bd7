//! Inodes that were deleted just now, which a file system without a journal leaves alone for a while: what refers to them may
//! still be on the device.
//!
//! # Invariants
//! An inode that rests is given out only if no group has another.

use crate::clock::now_s;
use crate::group::Group;
use crate::group::inode_bits::InodeBits;
use crate::inode_allocator::InodeAllocator;

/// Which inodes rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    /// An inode that was deleted later rests, in seconds since 1970.
    since_s: u32,
}

impl Rest {
    /// Whether a clear bit's inode does not rest.
    pub fn admits(self, bits: &InodeBits, index: u32) -> bool {
        !bits.deleted_since(index, self.since_s)
    }

    /// Whether a search of the group may find such an inode: not if an earlier search found that all of them rest, and the
    /// first of them still does.
    pub fn may_admit(self, group: &Group) -> bool {
        group
            .inode_bits()
            .is_none_or(|bits| bits.first_deleted_s() <= self.since_s)
    }

    /// Remembers that a search found no inode that does not rest among the first `end`. Returns whether one that rests is free.
    pub fn note_none(self, bits: &InodeBits, end: u32) -> bool {
        bits.note_all_deleted(self.since_s, end)
    }
}

impl InodeAllocator {
    /// Which inodes rest; None with a journal.
    pub(super) fn rest(&self) -> Option<Rest> {
        let rest_s = self.volume.options.commit_interval.as_secs() as u32 + 5;
        (!self.volume.journal().has_log()).then(|| Rest {
            since_s: now_s().saturating_sub(rest_s),
        })
    }
}
