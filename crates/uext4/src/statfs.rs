//! The state of a file system.

/// Sizes and free space of a file system, as statvfs(3) reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatFs {
    /// Size of a block in bytes; the counts of blocks are in this unit.
    pub block_size: u32,
    /// All blocks that can hold data.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Free blocks that users other than the superuser can have.
    pub blocks_available: u64,
    /// All inodes.
    pub inodes: u64,
    /// Free inodes.
    pub inodes_free: u64,
    /// Identity of the file system.
    pub fsid: u64,
    /// The longest name, in bytes.
    pub name_bytes_max: u32,
    /// Whether writes are refused.
    pub read_only: bool,
}

impl StatFs {
    pub(crate) fn new(of: &uext4_vfs::StatFs) -> StatFs {
        StatFs {
            block_size: of.block_size,
            blocks: of.blocks,
            blocks_free: of.blocks_free,
            blocks_available: of.blocks_available,
            inodes: of.inodes,
            inodes_free: of.inodes_free,
            fsid: of.fsid,
            name_bytes_max: of.name_bytes_max,
            read_only: of.read_only,
        }
    }
}
