//! The location of a file on the device, as Linux's ioctl `FS_IOC_FIEMAP` reports it.

use bitflags::bitflags;

bitflags! {
    /// What an extent is; the bits are Linux's `FIEMAP_EXTENT_*`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FiemapFlags: u32 {
        /// The last of those asked for.
        const LAST = 0x1;
        /// Not as it is read.
        const ENCODED = 0x8;
        /// Encrypted.
        const ENCRYPTED = 0x80;
        /// Begins or ends within a block.
        const NOT_ALIGNED = 0x100;
        /// Lies beside metadata.
        const DATA_INLINE = 0x200;
        /// Allocated, but reads as zeros.
        const UNWRITTEN = 0x800;
        /// Of a file without extents: put together from blocks.
        const MERGED = 0x1000;
    }
}

/// A part of a file that is in one piece on the device; all in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiemapExtent {
    /// Where in the file.
    pub logical: u64,
    /// Where on the device.
    pub physical: u64,
    /// How long.
    pub len: u64,
    /// What it is.
    pub flags: FiemapFlags,
}

/// Of what the place is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FiemapOf {
    /// The data, or the entries of a directory.
    #[default]
    Data,
    /// The extended attributes (`FIEMAP_FLAG_XATTR`).
    Xattrs,
}
