//! Inodes as they are in their table: found, checked, decoded.
//!
//! # Locking
//! The inode-table block's, shared. It has all that was changed: every change is encoded into it before its
//! handle stops.

use crate::inline;
use crate::inode::{Inode, InodePlace};
use crate::inodes::Inodes;
use crate::prelude::*;

impl Inodes {
    /// An inode, to be cached.
    ///
    /// # Errors
    /// [`Ext4Error::Stale`] if it is not in use, or without links and not `unlinked`; damage, or the device's.
    pub(crate) fn load_inode(&self, ino: Ino, unlinked: bool) -> Result<Inode> {
        let place = self.table.inode_place(ino, false)?;
        let disk = self.decode_inode(ino, &place)?;
        if disk.mode == 0 || (disk.links == 0 && !unlinked) {
            return Err(Ext4Error::Stale);
        }
        if disk.size > self.mapping.file_bytes_max() {
            return Err(Corrupt::new(CorruptKind::InodeSize)
                .ino(ino)
                .detail(format_args!("{} bytes", disk.size))
                .into());
        }
        let seed = disk.seed(self.volume.sb.csum_seed, ino);
        let inode = Inode::new(self.table.me(), ino, place, disk, self.volume.params, seed);
        if inode.has_extents() && !inode.is_inline() {
            self.mapping.check_extent_root(&inode)?;
        }
        Ok(inode)
    }

    /// The inode at `place`, decoded.
    ///
    /// # Errors
    /// [`Ext4Error::Stale`] if it never was in use, damage.
    pub(crate) fn decode_inode(&self, ino: Ino, place: &InodePlace) -> Result<uext4_ondisk::Inode> {
        let content = place.buffer.read();
        let end = place.offset + usize::from(self.volume.params.inode_size);
        let raw = &content.data()[place.offset..end];
        // What a transaction changed has its checksum only once it is frozen.
        if let Some(seed) = self.volume.seed()
            && !place.buffer.is_dirty(place.slot)
            && !uext4_ondisk::inode_checksum_ok(raw, seed, ino)
        {
            if raw.iter().all(|b| *b == 0) {
                return Err(Ext4Error::Stale);
            }
            return Err(Corrupt::new(CorruptKind::InodeChecksum)
                .ino(ino)
                .pblk(Pblk(place.buffer.block()))
                .into());
        }
        let disk = uext4_ondisk::Inode::decode(raw, &self.volume.params).map_err(|e| e.ino(ino))?;
        // An orphan is only deleted.
        let in_use = disk.mode != 0 && disk.links != 0;
        if in_use && disk.flags.contains(InodeFlags::INLINE_DATA) {
            inline::check(raw, &disk, &self.volume).map_err(|e| e.ino(ino))?;
        }
        Ok(disk)
    }
}
