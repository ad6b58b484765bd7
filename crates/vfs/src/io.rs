//! How one read or write is to be done, and what fallocate(2) is asked for.

use bitflags::bitflags;

bitflags! {
    /// How one read or write is to be done: the flags of preadv2(2) and pwritev2(2), and those of open(2)
    /// that hold for each of them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct IoFlags: u32 {
        /// Direct (`O_DIRECT`): straight between the caller's memory and the device, both aligned.
        const DIRECT = 1;
        /// Never waits (`RWF_NOWAIT`): `EAGAIN` where it would.
        const NOWAIT = 2;
        /// What is needed to read the data back is durable on return (`RWF_DSYNC`).
        const DSYNC = 4;
        /// All of the file is durable on return (`RWF_SYNC`).
        const SYNC = 8;
        /// At the end, wherever that is then (`RWF_APPEND`).
        const APPEND = 16;
        /// Without the blocks that are reserved for the superuser, and within the limits of quotas.
        const NO_RESERVE = 32;
    }
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The byte at which it began.
    pub offset: u64,
    /// How many bytes were written.
    pub len: usize,
}

impl Written {
    /// Where it ended.
    pub const fn end(self) -> u64 {
        self.offset + self.len as u64
    }
}

/// What fallocate(2) does with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallocate {
    /// Blocks for what has none; the file grows to the end of the range.
    Allocate,
    /// Blocks for what has none, also beyond the size, which stays (`FALLOC_FL_KEEP_SIZE`).
    AllocateKeepSize,
    /// Frees its blocks; it reads as zeros, and the size stays (`FALLOC_FL_PUNCH_HOLE`).
    PunchHole,
    /// It reads as zeros and has blocks; the file grows to its end (`FALLOC_FL_ZERO_RANGE`).
    ZeroRange,
    /// The same, and the size stays.
    ZeroRangeKeepSize,
    /// It is taken out of the file, of which it is whole blocks not at the end (`FALLOC_FL_COLLAPSE_RANGE`).
    CollapseRange,
    /// A hole of whole blocks is put in, before the end (`FALLOC_FL_INSERT_RANGE`).
    InsertRange,
}

impl Fallocate {
    /// Whether the size stays if it does not reach to the end of the range.
    pub const fn keeps_size(self) -> bool {
        !matches!(self, Fallocate::Allocate | Fallocate::ZeroRange)
    }
}
