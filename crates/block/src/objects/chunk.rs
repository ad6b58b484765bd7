//! Parts of segments.

use super::names::Segment;
use super::page::{BLOCK, Location};

/// Bytes that are read of a segment at a time.
pub const CHUNK: usize = 256 << 10;
/// A part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chunk {
    /// The segment.
    pub segment: Segment,
    /// Its number in the segment.
    pub index: u16,
}

impl Chunk {
    /// Those that bytes of a segment are in.
    pub fn of(location: Location, len: usize) -> impl Iterator<Item = Chunk> {
        let start = usize::from(location.at) * BLOCK;
        let indexes = start / CHUNK..(start + len).div_ceil(CHUNK);
        indexes.map(move |index| Chunk {
            segment: location.segment,
            index: index as u16,
        })
    }
}

const _: () = assert!(CHUNK.is_multiple_of(BLOCK));
