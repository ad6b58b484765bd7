//! Inode allocation (mechanism 1): claiming a free bit in a group's inode bitmap.
//!
//! # Arms
//! `lock-free` (default): the bit is claimed by an atomic operation on the word in memory; a lost
//! race costs another round on the same word.
//!
//! # Policy
//! Directories spread by the Orlov rules: below the root to the group with the most free inodes
//! that has more free blocks than the average, others near their parent as long as it has room.
//! Files follow their parent. A full group falls through to others by quadratic, then linear probing.
//!
//! # Invariants
//! Access to the superblock, the descriptor block and the bitmap block is had before a bit changes.
//! Counters are changed in the same handle as the bit.
//!
//! # Locking
//! None on the path but those of the buffers, and those only once per transaction.

mod arm;

pub use arm::IallocArm;

use crate::error::{Ext4Error, Result};
use crate::fs::Ext4;
use crate::group::{self, Group, InodeBits};
use std::sync::Arc;
use uext4_jbd2::Handle;
use uext4_ondisk::{Corrupt, CorruptKind, GroupCsum, GroupFlags, GroupNo, Ino, Pblk};
use uext4_sync::atomic::Ordering::Relaxed;
use uext4_sync::{class, stat};

impl Ext4 {
    /// Claims an inode number for a child of `parent`.
    ///
    /// # Journal
    /// Three credits: superblock, descriptors, bitmap.
    ///
    /// # Errors
    /// [`Ext4Error::NoInode`].
    pub(crate) fn claim_ino(&self, handle: &Handle<'_>, parent: Ino, is_dir: bool) -> Result<Ino> {
        let (parent_group, _) = self.geometry().group_of_ino(parent)?;
        let start = if is_dir {
            self.orlov_group(parent, parent_group)
        } else {
            parent_group
        };
        let count = self.geometry().groups_count;
        let mut at = start.0;
        let mut step = 1;
        while step < count {
            if let Some(ino) = self.claim_in_group(handle, GroupNo(at), is_dir)? {
                return Ok(ino);
            }
            at = (at + step) % count;
            step <<= 1;
        }
        for i in 0..count {
            if let Some(ino) =
                self.claim_in_group(handle, GroupNo((start.0 + i) % count), is_dir)?
            {
                return Ok(ino);
            }
        }
        Err(Ext4Error::NoInode)
    }

    fn claim_in_group(
        &self,
        handle: &Handle<'_>,
        no: GroupNo,
        is_dir: bool,
    ) -> Result<Option<Ino>> {
        let Some(group) = self.groups().get(no.0 as usize) else {
            return Ok(None);
        };
        if group.free_inodes.load(Relaxed) == 0 || group.damaged.load(Relaxed) {
            return Ok(None);
        }
        let bits = match self.inode_bits(group) {
            Ok(bits) => bits,
            Err(Ext4Error::Corrupt(why)) => {
                self.leave_group(group, &why);
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        self.access_group(handle, group)?;
        handle.access_native(&bits.buffer)?;
        let Some(index) = self.claim_bit(group, bits) else {
            return Ok(None);
        };
        bits.mark_dirty();
        group.clear_flags(GroupFlags::INODE_UNINIT);
        group.free_inodes.fetch_sub(1, Relaxed);
        if is_dir {
            group.used_dirs.fetch_add(1, Relaxed);
        }
        let unused = self.geometry().inodes_per_group - index - 1;
        if group.itable_unused.load(Relaxed) > unused {
            group.itable_unused.fetch_min(unused, Relaxed);
        }
        Ok(Some(self.geometry().ino_in_group(no, index)))
    }

    /// Sets a clear bit; None if there is none.
    fn claim_bit(&self, group: &Group, bits: &InodeBits) -> Option<u32> {
        let end = self.geometry().inodes_per_group;
        let reserved = if group.no.0 == 0 {
            self.geometry().first_ino.0.saturating_sub(1)
        } else {
            0
        };
        let hint = (group.inode_hint.load(Relaxed) * 64).max(reserved);
        let mut retries = 0;
        for (from, to) in [(hint, end), (reserved, hint.min(end))] {
            let mut at = from;
            while let Some(index) = group::find_clear(&bits.words, at, to) {
                let word = bits.words.get(index as usize / 64)?;
                let bit = 1u64 << (index % 64);
                if word.fetch_or(bit, Relaxed) & bit == 0 {
                    stat::count_atomic(&class::GROUP, retries);
                    if group.inode_hint.load(Relaxed) != index / 64 {
                        group.inode_hint.store(index / 64, Relaxed);
                    }
                    return Some(index);
                }
                retries += 1;
                at = index;
            }
        }
        None
    }

    /// Gives an inode number back.
    ///
    /// # Journal
    /// Three credits, as [`Ext4::claim_ino`].
    ///
    /// # Errors
    /// A number that is not in use, which is damage.
    pub(crate) fn release_ino(&self, handle: &Handle<'_>, ino: Ino, is_dir: bool) -> Result<()> {
        let (no, index) = self.geometry().group_of_ino(ino)?;
        let group = self.group(no)?;
        let bits = self.inode_bits(group)?;
        self.access_group(handle, group)?;
        handle.access_native(&bits.buffer)?;
        let bit = 1u64 << (index % 64);
        let was_set = bits
            .words
            .get(index as usize / 64)
            .is_some_and(|word| word.fetch_and(!bit, Relaxed) & bit != 0);
        if !was_set {
            return Err(Corrupt::new(CorruptKind::InoRange)
                .ino(ino)
                .pblk(group.inode_bitmap())
                .detail("freed twice")
                .into());
        }
        bits.mark_dirty();
        group.free_inodes.fetch_add(1, Relaxed);
        if is_dir {
            group.used_dirs.fetch_sub(1, Relaxed);
        }
        if group.inode_hint.load(Relaxed) > index / 64 {
            group.inode_hint.store(index / 64, Relaxed);
        }
        Ok(())
    }

    /// Journal access to what every change of a group changes: superblock and descriptor block.
    #[inline]
    pub(crate) fn access_group(&self, handle: &Handle<'_>, group: &Group) -> Result<()> {
        handle.access(&self.super_buffer)?;
        handle.access_native(&group.desc_buffer)?;
        Ok(())
    }

    /// The inode bitmap of a group, loaded on first touch.
    ///
    /// # Locks
    /// May read from the device, so no lock of rank `group` or below may be held.
    pub(crate) fn inode_bits<'g>(&self, group: &'g Group) -> Result<&'g InodeBits> {
        match group.inode_bits() {
            Some(bits) => Ok(bits),
            None => self.load_inode_bits(group),
        }
    }

    #[cold]
    fn load_inode_bits<'g>(&self, group: &'g Group) -> Result<&'g InodeBits> {
        let geometry = self.geometry();
        let uninit =
            group.flags().contains(GroupFlags::INODE_UNINIT) && self.csum != GroupCsum::None;
        let buffer = if uninit {
            self.cache().get_unread(group.inode_bitmap().0)
        } else {
            self.cache().get(group.inode_bitmap().0)?
        };
        buffer.set_kind(crate::kinds::INODE_BITMAP, group.no.0);
        let mut bytes = vec![0u8; self.cache().block_size()];
        if uninit {
            // Before anybody can change it: content that is not on disk yet.
            let mut content = buffer.write();
            buffer.set_uptodate(&mut content);
        } else {
            bytes.copy_from_slice(buffer.read().data());
            if let Some(seed) = self.seed() {
                // The descriptor as mounted: the group is not loaded, so it has not changed.
                group
                    .encode(None, self.bitmap_bytes, true)
                    .verify_inode_bitmap(seed, geometry, &bytes)?;
            }
        }
        let words = InodeBits::new(buffer, &bytes);
        let end = geometry.inodes_per_group;
        let all = (bytes.len() * 8) as u32;
        group::assign_run(&words.words, end, all - end, true);
        self.check_reserved(group, &words)?;
        Ok(group.publish_inodes(words))
    }

    /// A bitmap that claims reserved inodes free is damaged.
    fn check_reserved(&self, group: &Group, bits: &InodeBits) -> Result<()> {
        let reserved = self.geometry().first_ino.0.saturating_sub(1);
        if group.no.0 == 0 && !group::run_is(&bits.words, 0, reserved, true) {
            return Err(Corrupt::new(CorruptKind::InodeBitmapChecksum)
                .pblk(group.inode_bitmap())
                .detail("reserved inodes are marked free")
                .into());
        }
        Ok(())
    }

    /// Leaves a group with a damaged bitmap alone from now on.
    pub(crate) fn leave_group(&self, group: &Group, why: &Corrupt) {
        if !group.damaged.swap(true, Relaxed) {
            tracing::error!("group {} is left alone: {why}", group.no);
            self.note_error(why);
        }
    }

    /// Where a new directory goes.
    fn orlov_group(&self, parent: Ino, parent_group: GroupNo) -> GroupNo {
        let groups = self.groups();
        let count = groups.len() as u64;
        let (mut inodes, mut blocks, mut dirs) = (0u64, 0u64, 0u64);
        for g in groups {
            inodes += u64::from(g.free_inodes.load(Relaxed));
            blocks += u64::from(g.free_blocks.load(Relaxed));
            dirs += u64::from(g.used_dirs.load(Relaxed));
        }
        let (mean_inodes, mean_blocks) = (inodes / count, blocks / count);
        let from = |start: u32| (0..count).map(move |i| ((u64::from(start) + i) % count) as usize);
        if parent == Ino::ROOT {
            let start = self.next_top_group.fetch_add(1, Relaxed) % (count as u32);
            return from(start)
                .filter_map(|i| groups.get(i))
                .filter(|g| {
                    u64::from(g.free_inodes.load(Relaxed)) >= mean_inodes.max(1)
                        && u64::from(g.free_blocks.load(Relaxed)) >= mean_blocks
                })
                .min_by_key(|g| g.used_dirs.load(Relaxed))
                .map_or(parent_group, |g| g.no);
        }
        let per_group = u64::from(self.geometry().inodes_per_group);
        let dirs_max = dirs / count + per_group / 16;
        let inodes_min = mean_inodes.saturating_sub(per_group / 4).max(1);
        let blocks_min =
            mean_blocks.saturating_sub(u64::from(self.geometry().blocks_per_group) / 4);
        from(parent_group.0)
            .filter_map(|i| groups.get(i))
            .find(|g| {
                u64::from(g.used_dirs.load(Relaxed)) < dirs_max
                    && u64::from(g.free_inodes.load(Relaxed)) >= inodes_min
                    && u64::from(g.free_blocks.load(Relaxed)) >= blocks_min
            })
            .map_or(parent_group, |g| g.no)
    }

    /// The block of the inode table that holds `ino`, and where. `fresh`: the inode was just claimed,
    /// so that a block in which nothing else was ever used need not be read.
    pub(crate) fn inode_place(&self, ino: Ino, fresh: bool) -> Result<crate::inode::InodePlace> {
        let geometry = self.geometry();
        let (no, index) = geometry.group_of_ino(ino)?;
        let group = self.group(no)?;
        let (block, offset) = geometry.itable_position(index);
        let pblk = Pblk(group.inode_table().0 + u64::from(block));
        let first = index - index % geometry.inodes_per_block;
        let buffer = self.cache().get_unread(pblk.0);
        if !buffer.is_uptodate() {
            if fresh && self.block_never_used(group, first, index) {
                let mut content = buffer.write();
                if !buffer.is_uptodate() {
                    content.data_mut().fill(0);
                    buffer.set_uptodate(&mut content);
                }
            } else {
                drop(self.cache().get(pblk.0)?);
            }
        }
        buffer.set_kind(
            crate::kinds::INODE_TABLE,
            geometry.ino_in_group(no, first).0,
        );
        Ok(crate::inode::InodePlace {
            buffer: Arc::clone(&buffer),
            offset,
            slot: index - first,
        })
    }

    /// Whether no inode of the table block from index `first` on is in use but `index` itself, so
    /// that what the device has there does not matter.
    fn block_never_used(&self, group: &Group, first: u32, index: u32) -> bool {
        let Some(bits) = group.inode_bits() else {
            return false;
        };
        let end = first + self.geometry().inodes_per_block;
        let others = (first..end)
            .filter(|i| *i != index && bits.is_set(*i))
            .count();
        others == 0 && self.csum != GroupCsum::None && first >= self.highest_used_at_mount(group)
    }

    /// The inode index in `group` from which on no inode was ever used when it was mounted.
    fn highest_used_at_mount(&self, group: &Group) -> u32 {
        self.geometry().inodes_per_group - group.mounted_unused()
    }
}
