//! FIEMAP: where on the device a file is, as Linux's ioctl of that name reports it.
//!
//! # Locking
//! The inode's `ilock`, shared.

use crate::file::FileIo;
use crate::inode::reference::InodeRef;
use crate::prelude::*;
use uext4_vfs::fiemap::{FiemapExtent, FiemapFlags, FiemapOf};

/// Where `i_block` is in an inode, in bytes.
const I_BLOCK_AT: u64 = 40;

impl FileIo {
    /// The extents of `len` bytes of a file from `start` on, in order, those past its size too. Blocks that
    /// are in the range in part are given whole.
    ///
    /// # Locks
    /// The inode's `ilock`, shared; may read from the device.
    ///
    /// # Errors
    /// [`Ext4Error::Invalid`] for an empty range, [`Ext4Error::TooLarge`] for one past the largest file,
    /// [`Ext4Error::Unsupported`]: neither a regular file nor a directory. Damage, or the device's.
    pub fn fiemap(
        &self,
        inode: &InodeRef,
        of: FiemapOf,
        start: u64,
        len: u64,
    ) -> Result<Vec<FiemapExtent>> {
        if !matches!(inode.file_type, FileType::Regular | FileType::Directory) {
            return Err(Ext4Error::Unsupported("FIEMAP of a special file"));
        }
        if len == 0 {
            return Err(Ext4Error::Invalid("an empty range"));
        }
        let max = self.mapping.file_bytes_max();
        if start >= max {
            return Err(Ext4Error::TooLarge);
        }
        let _locked = ilock(&inode.ilock, LockMode::Shared);
        let mut extents = match of {
            FiemapOf::Data => self.data_extents(inode, start, len.min(max - start))?,
            FiemapOf::Xattrs => self.xattr_extent(inode).into_iter().collect(),
        };
        if let Some(last) = extents.last_mut() {
            last.flags |= FiemapFlags::LAST;
        }
        Ok(extents)
    }

    /// The extents of a file whose data on the device is what a read returns, in order: neither unwritten nor in the inode. None of a file whose
    /// data is journaled, as that may not be in place, or encrypted.
    ///
    /// # Locks
    /// The inode's `ilock`, shared; may read from the device.
    ///
    /// # Errors
    /// As [`FileIo::fiemap`].
    pub fn extents_in_place(&self, inode: &InodeRef) -> Result<Vec<FiemapExtent>> {
        let size = inode.size();
        if size == 0 || self.mapping.journals_data(inode) || inode.is_encrypted() {
            return Ok(Vec::new());
        }
        let mut extents = self.fiemap(inode, FiemapOf::Data, 0, size)?;
        let elsewhere = FiemapFlags::UNWRITTEN | FiemapFlags::DATA_INLINE;
        extents.retain(|extent| !extent.flags.intersects(elsewhere));
        Ok(extents)
    }

    fn data_extents(&self, inode: &InodeRef, start: u64, len: u64) -> Result<Vec<FiemapExtent>> {
        let block = self.volume.block_size();
        if inode.is_inline() {
            let inside = start < inode.size();
            return Ok(inside
                .then(|| inline_extent(inode, block))
                .into_iter()
                .collect());
        }
        let mut kind = match inode.has_extents() {
            true => FiemapFlags::empty(),
            false => FiemapFlags::MERGED,
        };
        if inode.is_encrypted() && inode.file_type == FileType::Regular {
            kind |= FiemapFlags::ENCRYPTED | FiemapFlags::ENCODED;
        }
        let (mut at, end) = (start / block, (start + len).div_ceil(block));
        let mut extents = Vec::new();
        while at < end {
            let mapping = self.mapping.map_block(inode, Lblk(at as u32))?;
            let blocks = u64::from(mapping.len).min(end - at);
            if let Some(pblk) = mapping.pblk {
                let mut flags = kind;
                flags.set(FiemapFlags::UNWRITTEN, mapping.unwritten);
                extents.push(FiemapExtent {
                    logical: at * block,
                    physical: pblk.0 * block,
                    len: blocks * block,
                    flags,
                });
            }
            at += blocks;
        }
        Ok(extents)
    }

    /// Where the extended attributes are: those in the inode if there are any there, else the block.
    fn xattr_extent(&self, inode: &InodeRef) -> Option<FiemapExtent> {
        let _xattrs = inode.xattr.lock();
        let block = self.volume.block_size();
        let extra = inode.state().extra_isize;
        if inode.with_raw(|raw| matches!(XattrArea::in_inode(raw), Ok(Some(_)))) {
            let at = GOOD_OLD_INODE_SIZE as u64 + u64::from(extra);
            return Some(FiemapExtent {
                logical: 0,
                physical: inode.place_bytes(block) + at,
                len: u64::from(self.volume.params.inode_size) - at,
                flags: FiemapFlags::DATA_INLINE | FiemapFlags::NOT_ALIGNED,
            });
        }
        let pblk = inode.state().file_acl;
        (pblk != Pblk(0)).then_some(FiemapExtent {
            logical: 0,
            physical: pblk.0 * block,
            len: block,
            flags: FiemapFlags::empty(),
        })
    }
}

/// The data in an inode, as one extent: as Linux has it, though what does not fit `i_block` is further on.
fn inline_extent(inode: &InodeRef, block: u64) -> FiemapExtent {
    FiemapExtent {
        logical: 0,
        physical: inode.place_bytes(block) + I_BLOCK_AT,
        len: inode.size(),
        flags: FiemapFlags::DATA_INLINE | FiemapFlags::NOT_ALIGNED,
    }
}
