//! Loading a group's inode bitmap, and leaving a group alone whose bitmap is damaged.

use super::bits::InodeBits;
use super::claim::reserved_is_free;
use crate::bitmap;
use crate::error::{Ext4Error, Result};
use crate::fs::Ext4;
use crate::group::Group;
use crate::kinds;
use uext4_ondisk::{Corrupt, CorruptKind, GroupCsum, GroupFlags};
use uext4_sync::atomic::Ordering::Relaxed;

impl Ext4 {
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
        let loaded = self.read_inode_bits(group);
        // Whoever was faster may have changed flags, content and checksum under our eyes.
        match (group.inode_bits(), loaded) {
            (Some(bits), _) => Ok(bits),
            (None, Ok(bits)) => Ok(group.publish_inodes(bits)),
            (None, Err(why)) => Err(why),
        }
    }

    fn read_inode_bits(&self, group: &Group) -> Result<InodeBits> {
        let geometry = self.geometry();
        let uninit =
            group.flags().contains(GroupFlags::INODE_UNINIT) && self.csum != GroupCsum::None;
        let buffer = if uninit {
            self.cache().get_unread(group.inode_bitmap().0)
        } else {
            self.cache().get(group.inode_bitmap().0)?
        };
        kinds::take(&buffer, kinds::INODE_BITMAP, group.no.0)?;
        self.allocate_bitmap(group.inode_bitmap())?;
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
        let bits = InodeBits::new(buffer, &bytes);
        let end = geometry.inodes_per_group;
        let all = (bytes.len() * 8) as u32;
        bitmap::assign_run(&bits.words, end, all - end, true);
        if !bitmap::run_is(&bits.words, 0, self.reserved_in(group), true) {
            return Err(reserved_is_free(group).into());
        }
        let (free, said) = (
            bitmap::count_clear(&bits.words),
            group.free_inodes_at_first(),
        );
        if free != said {
            return Err(Corrupt::new(CorruptKind::InodeBitmapCount)
                .pblk(group.inode_bitmap())
                .detail(format_args!("{free} are free, the descriptor says {said}"))
                .into());
        }
        Ok(bits)
    }

    /// A bitmap as it was loaded, to allocate from; `None` if it is damaged, and then nothing is allocated from the
    /// group any more, or if it could not be read.
    pub(crate) fn or_leave<B>(&self, group: &Group, loaded: Result<B>) -> Option<B> {
        match loaded {
            Ok(bits) => Some(bits),
            Err(Ext4Error::Corrupt(why)) => {
                self.leave_group(group, &why);
                None
            }
            Err(why) => {
                tracing::warn!("group {}: nothing is allocated there: {why}", group.no);
                None
            }
        }
    }

    /// Why nothing was found to allocate: `none`, unless a group in which there may be room cannot be read.
    #[cold]
    pub(crate) fn none_found<'g, B: 'g>(
        &'g self,
        none: Ext4Error,
        has_room: impl Fn(&Group) -> bool,
        load: impl Fn(&'g Group) -> Result<&'g B>,
    ) -> Ext4Error {
        let groups = self.groups().iter();
        let mut unread = groups
            .filter(|group| !group.damaged.load(Relaxed) && has_room(group))
            .filter_map(|group| load(group).err());
        unread.next().unwrap_or(none)
    }

    /// Leaves a group with a damaged bitmap alone from now on.
    pub(crate) fn leave_group(&self, group: &Group, why: &Corrupt) {
        if !group.damaged.swap(true, Relaxed) {
            tracing::error!("group {} is left alone: {why}", group.no);
            self.note_error(why);
        }
    }
}
