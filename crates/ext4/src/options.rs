//! How a file system is mounted.

use std::time::Duration;
use uext4_vfs::icache::IcacheArm;

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Nothing is written, not even a recovered journal's result unless the device allows it.
    pub read_only: bool,
    /// Does not recover the journal; needs `read_only`.
    pub noload: bool,
    /// A transaction is committed when it is this old.
    pub commit_interval: Duration,
    /// Whether the device is flushed around a commit.
    pub barrier: bool,
    /// Bytes of clean metadata blocks to keep.
    pub cache_bytes: u64,
    /// Inodes to keep in memory that nobody uses.
    pub inodes_max: usize,
    /// The arm of the inode cache.
    pub icache: IcacheArm,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            read_only: false,
            noload: false,
            commit_interval: Duration::from_secs(5),
            barrier: true,
            cache_bytes: 256 << 20,
            inodes_max: 1 << 18,
            icache: IcacheArm::default(),
        }
    }
}
