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

/// What a block of a file is, and for how many blocks from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLookup {
    /// Where it is; None for a hole.
    pub pblk: Option<Pblk>,
    /// Allocated, but reads as zeros.
    pub unwritten: bool,
    /// For how many blocks that holds at least; at least 1.
    pub len: u32,
}
