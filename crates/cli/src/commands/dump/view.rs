//! An image read by block and by inode, nothing of it trusted.

use crate::{diagnostics, superblock};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::sync::Arc;
use uext4::unstable::ondisk::{
    CsumSeed, GroupCsum, GroupDesc, GroupNo, Ino, Inode, InodeParams, Pblk, Superblock,
    inode_checksum_ok,
};
use uext4::{BlockDevice, DeviceOptions};

/// An image.
pub struct View {
    device: Arc<dyn BlockDevice>,
    /// Its superblock.
    pub sb: Superblock,
}

/// The bytes of an inode, and where they lie.
pub struct Raw {
    /// They.
    pub bytes: Vec<u8>,
    /// The group it belongs to.
    pub group: GroupNo,
    /// The block of the inode table.
    pub block: Pblk,
    /// Where in it.
    pub offset: usize,
    /// Whether its checksum is right; nothing without checksums.
    pub checksum_ok: Option<bool>,
}

/// An inode.
pub struct Found {
    /// Decoded.
    pub inode: Inode,
    /// Its bytes.
    pub raw: Raw,
}

impl View {
    /// Opens an image for reading, even while others use it.
    ///
    /// # Errors
    /// No image, or one that can't be read.
    pub fn open(image: &Path) -> Result<View> {
        let options = DeviceOptions::read_only().exclusive(false);
        let device = superblock::open(image, &options)
            .map_err(|e| diagnostics::opening_device(image, e))?
            .device;
        let sb = uext4::unstable::read_superblock(&*device)
            .map_err(|e| diagnostics::opening(image, &e.of_mount()))?;
        Ok(View { device, sb })
    }

    /// An image that is open.
    pub fn new(device: Arc<dyn BlockDevice>, sb: Superblock) -> View {
        View { device, sb }
    }

    /// The content of a block.
    ///
    /// # Errors
    /// No such block, or the device's.
    pub fn block(&self, at: Pblk) -> Result<Vec<u8>> {
        let geometry = &self.sb.geometry;
        if at.0 >= geometry.blocks_count {
            bail!("block {}: there are {} blocks", at.0, geometry.blocks_count);
        }
        let mut bytes = vec![0; geometry.block_size as usize];
        let offset = geometry.block_offset(at);
        self.device
            .read_at(offset, &mut bytes)
            .with_context(|| format!("block {}", at.0))?;
        Ok(bytes)
    }

    /// A group's descriptor.
    ///
    /// # Errors
    /// It can't be read.
    pub fn group(&self, no: GroupNo) -> Result<GroupDesc> {
        Ok(GroupDesc::decode(&self.group_bytes(no)?)?)
    }

    fn group_bytes(&self, no: GroupNo) -> Result<Vec<u8>> {
        let (block, at) = self.sb.geometry.group_desc_location(no);
        let bytes = self.block(block)?;
        let end = at + usize::from(self.sb.geometry.desc_size);
        Ok(bytes.get(at..end).unwrap_or(&[]).to_vec())
    }

    /// The checksum that a group's descriptor ought to have.
    ///
    /// # Errors
    /// It can't be read.
    pub fn group_checksum(&self, no: GroupNo) -> Result<u16> {
        let bytes = self.group_bytes(no)?;
        Ok(GroupCsum::of(&self.sb).desc_checksum(no, &bytes))
    }

    /// An inode.
    ///
    /// # Errors
    /// No such inode, or it can't be read or decoded.
    pub fn inode(&self, ino: Ino) -> Result<Found> {
        let raw = self.raw_inode(ino)?;
        let inode = Inode::decode(&raw.bytes, &InodeParams::of(&self.sb))
            .with_context(|| format!("inode {}", ino.0))?;
        Ok(Found { inode, raw })
    }

    /// The bytes of an inode.
    ///
    /// # Errors
    /// No such inode, or it can't be read.
    pub fn raw_inode(&self, ino: Ino) -> Result<Raw> {
        let geometry = &self.sb.geometry;
        let (group, index) = geometry
            .group_of_ino(ino)
            .with_context(|| format!("inode {}: there are {}", ino.0, geometry.inodes_count))?;
        let (block, offset) = geometry.itable_position(index);
        let block = Pblk(self.group(group)?.inode_table.0 + u64::from(block));
        let in_block = self.block(block)?;
        let end = offset + usize::from(geometry.inode_size);
        let bytes = in_block.get(offset..end).unwrap_or(&[]).to_vec();
        let has_checksum = self.sb.has_metadata_csum();
        Ok(Raw {
            group,
            block,
            offset,
            checksum_ok: has_checksum.then(|| inode_checksum_ok(&bytes, self.seed(), ino)),
            bytes,
        })
    }

    /// Where all checksums start.
    pub fn seed(&self) -> CsumSeed {
        self.sb.csum_seed
    }
}

/// How a checksum is shown.
pub fn checksum_word(ok: Option<bool>) -> &'static str {
    match ok {
        Some(true) => ", checksum right",
        Some(false) => ", checksum WRONG",
        None => "",
    }
}
