//! Flags of an inode.
//!
//! Source: Linux documentation, filesystems/ext4, "Index Nodes".

use bitflags::bitflags;

bitflags! {
    /// Flags of an inode.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct InodeFlags: u32 {
        /// Secure deletion, not implemented.
        const SECRM = 0x1;
        /// Undelete, not implemented.
        const UNRM = 0x2;
        /// Compressed, not implemented.
        const COMPR = 0x4;
        /// Synchronous writes.
        const SYNC = 0x8;
        /// May not change.
        const IMMUTABLE = 0x10;
        /// May only grow.
        const APPEND = 0x20;
        /// Not for dump(8).
        const NODUMP = 0x40;
        /// Access times stay.
        const NOATIME = 0x80;
        /// Dirty compressed, not implemented.
        const DIRTY = 0x100;
        /// Compressed clusters, not implemented.
        const COMPRBLK = 0x200;
        /// Not to be compressed.
        const NOCOMPR = 0x400;
        /// Encrypted.
        const ENCRYPT = 0x800;
        /// Hashed directory.
        const INDEX = 0x1000;
        /// AFS.
        const IMAGIC = 0x2000;
        /// Data is journalled.
        const JOURNAL_DATA = 0x4000;
        /// No tail merging.
        const NOTAIL = 0x8000;
        /// Synchronous directory changes.
        const DIRSYNC = 0x1_0000;
        /// Top of a directory hierarchy, for the Orlov allocator.
        const TOPDIR = 0x2_0000;
        /// The block count is in file system blocks.
        const HUGE_FILE = 0x4_0000;
        /// Mapped by extents.
        const EXTENTS = 0x8_0000;
        /// fs-verity.
        const VERITY = 0x10_0000;
        /// Holds an attribute value.
        const EA_INODE = 0x20_0000;
        /// Direct access.
        const DAX = 0x200_0000;
        /// Data in the inode.
        const INLINE_DATA = 0x1000_0000;
        /// Children inherit the project.
        const PROJINHERIT = 0x2000_0000;
        /// Names without case.
        const CASEFOLD = 0x4000_0000;
    }
}

impl InodeFlags {
    /// What `FS_IOC_GETFLAGS` shows.
    pub const USER_VISIBLE: InodeFlags = Self::all()
        .difference(Self::IMAGIC)
        .difference(Self::HUGE_FILE)
        .difference(Self::EA_INODE);
    /// What a new file takes from its directory.
    pub const INHERITED: InodeFlags = Self::SECRM
        .union(Self::UNRM)
        .union(Self::COMPR)
        .union(Self::SYNC)
        .union(Self::NODUMP)
        .union(Self::NOATIME)
        .union(Self::NOCOMPR)
        .union(Self::JOURNAL_DATA)
        .union(Self::NOTAIL)
        .union(Self::DIRSYNC)
        .union(Self::PROJINHERIT)
        .union(Self::CASEFOLD)
        .union(Self::DAX);
    /// What `FS_IOC_SETFLAGS` may change.
    pub const USER_MODIFIABLE: InodeFlags = Self::INHERITED
        .difference(Self::NOCOMPR)
        .union(Self::IMMUTABLE)
        .union(Self::APPEND)
        .union(Self::TOPDIR)
        .union(Self::EXTENTS);
}
