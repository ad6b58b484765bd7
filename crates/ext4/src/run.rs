//! A run of blocks on disk.

use uext4_ondisk::Pblk;

/// A run of blocks on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first block.
    pub pblk: Pblk,
    /// How many.
    pub len: u32,
}
