//! Segments that are mostly garbage: what is needed of them is written again, so that they are garbage as a whole.

use super::image::Image;
use super::lease::Stopped;
use super::map::Part;
use super::moved::{Moved, MovedBlock};
use super::names::Segment;
use super::page::{BLOCK, Location};
use super::root::Root;
use super::segments::SEGMENT;
use std::collections::{BTreeSet, HashMap};

/// Bytes that are written again in one collection, at most.
const MOVED_MAX: u64 = 256 << 20;

/// The segments less than half of which a root needs, those with the least first: `used` are the bytes that it needs of each, `sizes` all of
/// them.
pub fn mostly_garbage(
    used: &HashMap<Segment, u64>,
    sizes: &HashMap<Segment, u64>,
) -> BTreeSet<Segment> {
    let mut found: Vec<(u64, Segment)> = used
        .iter()
        .filter(|(segment, used)| sizes.get(segment).is_some_and(|size| *used * 2 < *size))
        .map(|(segment, used)| (*used, *segment))
        .collect();
    found.sort_unstable();
    let mut bytes = 0;
    found
        .into_iter()
        .take_while(|(used, _)| {
            bytes += used;
            bytes <= MOVED_MAX
        })
        .map(|(_, segment)| segment)
        .collect()
}

/// Writes what `root` needs of segments again, and advances.
///
/// # Errors
/// As [`Image::write_again`].
pub fn compact(image: &Image, root: &Root, segments: BTreeSet<Segment>) -> Result<(), Stopped> {
    let mut moved = Moved {
        segments,
        ..Moved::default()
    };
    let mut blocks = Vec::new();
    image.map.for_each(root, |part, location| {
        if moved.segments.contains(&location.segment) {
            match part {
                Part::Middle(number) => moved.middles.push(number),
                Part::Leaf(number) => moved.leaves.push(number),
                Part::Block(number) => blocks.push((number, location)),
            }
        }
    })?;
    for some in blocks.chunks(SEGMENT / BLOCK) {
        image.write_again(&Moved::default(), &read(image, some)?)?;
    }
    image.write_again(&moved, &[])
}

/// Reads blocks, which are where they are whatever is written.
fn read(image: &Image, blocks: &[(u64, Location)]) -> Result<Vec<MovedBlock>, Stopped> {
    let mut read: Vec<MovedBlock> = blocks
        .iter()
        .map(|(number, location)| MovedBlock {
            number: *number,
            location: *location,
            bytes: vec![0; BLOCK].into(),
        })
        .collect();
    let wanted = read.iter_mut();
    let mut wanted: Vec<(Location, &mut [u8])> = wanted
        .map(|block| (block.location, &mut block.bytes[..]))
        .collect();
    image.map.read_located(&mut wanted)?;
    Ok(read)
}
