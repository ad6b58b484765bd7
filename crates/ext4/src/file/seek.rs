//! lseek(2) with `SEEK_DATA` and `SEEK_HOLE`: what of a file is data.
//!
//! # Locking
//! The inode's `ilock`, shared.

use crate::file::{FileIo, check_regular};
use crate::inode::reference::InodeRef;
use crate::prelude::*;

impl FileIo {
    /// The first byte at `offset` or after it that is data.
    ///
    /// # Errors
    /// [`Ext4Error::NoData`] if there is none.
    pub fn seek_data(&self, inode: &InodeRef, offset: u64) -> Result<u64> {
        let (found, size) = self.seek(inode, offset, true)?;
        if found < size {
            Ok(found)
        } else {
            Err(Ext4Error::NoData)
        }
    }

    /// The first byte at `offset` or after it that is in a hole, or was allocated and never written; at the
    /// latest the end.
    ///
    /// # Errors
    /// [`Ext4Error::NoData`] if the offset is at the end or beyond.
    pub fn seek_hole(&self, inode: &InodeRef, offset: u64) -> Result<u64> {
        let (found, size) = self.seek(inode, offset, false)?;
        Ok(found.min(size))
    }

    /// Where what is wanted begins, and the size; past the size if there is none.
    fn seek(&self, inode: &InodeRef, offset: u64, wants_data: bool) -> Result<(u64, u64)> {
        check_regular(inode)?;
        let _locked = ilock(&inode.ilock, LockMode::Shared);
        let (block, size) = (self.volume.block_size(), inode.size());
        if offset >= size {
            return Err(Ext4Error::NoData);
        }
        if inode.is_inline() {
            return Ok((if wants_data { offset } else { size }, size));
        }
        let mut at = offset;
        while at < size {
            let lblk = at / block;
            let mapping = self.mapping.map_block(inode, Lblk(lblk as u32))?;
            let is_data = mapping.pblk.is_some() && !mapping.unwritten;
            if is_data == wants_data {
                break;
            }
            at = (lblk + u64::from(mapping.len)) * block;
        }
        Ok((at, size))
    }
}
