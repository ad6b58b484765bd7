//! What is to be moved out of segments of garbage.

use super::names::Segment;
use super::page::Location;
use std::collections::BTreeSet;

/// The pages that are to be moved out of segments.
#[derive(Debug, Default)]
pub struct Moved {
    /// The segments.
    pub segments: BTreeSet<Segment>,
    /// Numbers of pages of blocks in them.
    pub leaves: Vec<u64>,
    /// Numbers of pages of pages.
    pub middles: Vec<u64>,
}

/// A block that is to be moved.
#[derive(Debug)]
pub struct MovedBlock {
    pub number: u64,
    /// Where it is.
    pub location: Location,
    pub bytes: Box<[u8]>,
}
