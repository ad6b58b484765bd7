//! fs-verity of a file, for what copies it. Data is read without verification.
//!
//! # Locking
//! The inode's `ilock`, shared.
//!
//! Source: Linux documentation, filesystems/ext4/verity.

use crate::file::{FileIo, ReadKind};
use crate::inode::reference::InodeRef;
use crate::prelude::*;
use uext4_vfs::errno::Error;

/// Where the metadata begins: at a multiple of this past the end of the data.
const ALIGN: u64 = 64 << 10;
/// The least and the most bytes of a descriptor with its signature.
const DESCRIPTOR: std::ops::RangeInclusive<u64> = 256..=16384;

impl FileIo {
    /// The descriptor of fs-verity with the signature behind it; `None` if the file does not have it.
    ///
    /// # Locks
    /// The inode's `ilock`, shared; may read from the device.
    ///
    /// # Errors
    /// `EUCLEAN`: the file is marked as one with fs-verity and has no descriptor. Damage, or the device's.
    pub fn verity_descriptor(&self, inode: &InodeRef) -> Result<Option<Vec<u8>>> {
        if !inode.flags().contains(InodeFlags::VERITY) {
            return Ok(None);
        }
        let _locked = ilock(&inode.ilock, LockMode::Shared);
        let block = self.volume.block_size();
        let begin = inode.size().next_multiple_of(ALIGN);
        let end = match inode.has_extents() {
            true => self.end_of_blocks(inode, begin / block)? * block,
            false => 0,
        };
        let missing = || {
            let what = format!("inode {}: no descriptor of fs-verity", inode.ino);
            Error::new(Errno::EUCLEAN).context(what)
        };
        let size_at = end.checked_sub(4).filter(|at| *at >= begin);
        let size_at = size_at.ok_or_else(missing)?;
        let mut size = [0; 4];
        self.read_mapped(inode, size_at, &mut size, ReadKind::default())?;
        let size = u64::from(u32::from_le_bytes(size));
        let at = size_at.saturating_sub(size) / block * block;
        if !DESCRIPTOR.contains(&size) || at < begin {
            return Err(missing().into());
        }
        let mut descriptor = vec![0; size as usize];
        self.read_mapped(inode, at, &mut descriptor, ReadKind::default())?;
        Ok(Some(descriptor))
    }

    /// The block after the last that has a place, from a block on; 0 if none has.
    fn end_of_blocks(&self, inode: &InodeRef, first: u64) -> Result<u64> {
        let max = self.mapping.file_bytes_max() / self.volume.block_size();
        let (mut at, mut end) = (first, 0);
        while at < max {
            let mapping = self.mapping.map_block(inode, Lblk(at as u32))?;
            at += u64::from(mapping.len);
            if mapping.pblk.is_some() {
                end = at;
            }
        }
        Ok(end)
    }
}
