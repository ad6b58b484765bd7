//! Where file systems keep files.

/// A part of a file that is in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where in the file.
    pub logical: u64,
    /// Where on the device.
    pub physical: u64,
    /// How long.
    pub len: u64,
    /// Linux's `FIEMAP_EXTENT_*`.
    pub flags: u32,
}

/// A file, and where its file system keeps it.
pub struct Mapped {
    /// Bytes of it.
    pub size: u64,
    /// Its extents, in order.
    pub extents: Vec<Extent>,
    /// Whether its inode has the flag for extents.
    pub has_extents: bool,
    /// The file system.
    pub volume: Volume,
}

/// A file system.
pub struct Volume {
    /// Its type, as statfs(2) has it.
    pub magic: u64,
    /// Bytes of a block.
    pub block_size: u64,
    /// How many there are.
    pub blocks: u64,
}
