//! fs-verity: files whose data cannot change, with a tree of hashes behind it.
//!
//! # Data model
//! See [`uext4_ondisk::fs_verity`]. What is checked against is the root hash that the file has; a signature is kept and not checked.
//!
//! # Locking
//! The inode's `ilock`, shared to read and to check.
//!
//! | module | holds |
//! | --- | --- |
//! | `checked` | reads whose data is checked |
//! | `enable` | a file that gets it |
//!
//! Source: Linux documentation, filesystems/fsverity, filesystems/ext4/verity.

mod checked;
mod enable;

use crate::file::{FileIo, ReadKind};
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::prelude::*;
use uext4_ondisk::{FsVerity, FsVerityDescriptor, VERITY_DESCRIPTOR_BYTES};
use uext4_vfs::errno::Error;

/// An error of the metadata of fs-verity of an inode.
fn damaged(inode: &Inode, what: &str) -> Ext4Error {
    let what = format!("inode {}: {what}", inode.ino);
    Error::new(Errno::EUCLEAN).context(what).into()
}

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
        self.descriptor_bytes(inode).map(Some)
    }

    /// What fs-verity keeps of a file, with the digest by which the file is known to others; `None` if the file does not have it.
    ///
    /// # Locks
    /// The inode's `ilock`, shared; may read from the device.
    ///
    /// # Errors
    /// `EUCLEAN`: the file is marked as one with fs-verity, and its descriptor is missing or damaged. The device's.
    pub fn verity(&self, inode: &InodeRef) -> Result<Option<FsVerityDescriptor>> {
        if !inode.flags().contains(InodeFlags::VERITY) {
            return Ok(None);
        }
        let _locked = ilock(&inode.ilock, LockMode::Shared);
        self.decoded_descriptor(inode).map(Some)
    }

    /// The descriptor of a file that is marked as one with fs-verity, whose `ilock` is held.
    fn decoded_descriptor(&self, inode: &Inode) -> Result<FsVerityDescriptor> {
        let bytes = self.descriptor_bytes(inode)?;
        FsVerityDescriptor::decode(&bytes)
            .filter(|descriptor| descriptor.data_bytes == inode.size())
            .ok_or_else(|| damaged(inode, "the descriptor of fs-verity is damaged"))
    }

    fn descriptor_bytes(&self, inode: &Inode) -> Result<Vec<u8>> {
        let block = self.volume.block_size();
        let begin = FsVerity::tree_at(inode.size());
        let end = match inode.has_extents() {
            true => self.end_of_blocks(inode, begin / block)? * block,
            false => 0,
        };
        let missing = || damaged(inode, "no descriptor of fs-verity");
        let size_at = end.checked_sub(4).filter(|at| *at >= begin);
        let size_at = size_at.ok_or_else(missing)?;
        let mut size = [0; 4];
        self.read_mapped(inode, size_at, &mut size, ReadKind::default())?;
        let size = u64::from(u32::from_le_bytes(size));
        let at = size_at.saturating_sub(size) / block * block;
        if !VERITY_DESCRIPTOR_BYTES.contains(&size) || at < begin {
            return Err(missing());
        }
        let mut descriptor = vec![0; size as usize];
        self.read_mapped(inode, at, &mut descriptor, ReadKind::default())?;
        Ok(descriptor)
    }

    /// The block after the last that has a place, from a block on; 0 if none has.
    fn end_of_blocks(&self, inode: &Inode, first: u64) -> Result<u64> {
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
