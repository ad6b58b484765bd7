//! The names of the objects of an image.

/// What the names of roots begin with.
pub const ROOTS: &str = "root/";
/// What the names of segments begin with.
pub const SEGMENTS: &str = "segment/";
/// What the names of what readers read begin with.
pub const READERS: &str = "reader/";

/// Whether a part of a name may be one of the names of objects, so that no image can lie among those of another.
#[cfg(feature = "s3")]
pub fn is_of_objects(part: &str) -> bool {
    let fronts = [ROOTS, SEGMENTS, READERS];
    fronts
        .iter()
        .any(|front| front.strip_suffix('/') == Some(part))
}

/// A segment: an object of blocks, written once. No two writers have the same epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Segment {
    /// The writer's epoch; from 1.
    pub epoch: u32,
    /// Its number in the epoch, of 48 bits.
    pub number: u64,
}

impl Segment {
    /// The name of the object.
    pub fn name(self) -> String {
        format!("{SEGMENTS}{:010}/{:015}", self.epoch, self.number)
    }

    /// Reads a name.
    pub fn parse(name: &str) -> Option<Segment> {
        let (epoch, number) = name.strip_prefix(SEGMENTS)?.split_once('/')?;
        Some(Segment {
            epoch: epoch.parse().ok()?,
            number: number.parse().ok()?,
        })
    }
}

/// The name of a root: its number only, so that two writers can't both advance to it.
pub fn root(number: u64) -> String {
    format!("{ROOTS}{number:020}")
}

/// The number of a root.
pub fn root_number(name: &str) -> Option<u64> {
    name.strip_prefix(ROOTS)?.parse().ok()
}

/// The name of what a reader says that it reads.
pub fn reader(id: uuid::Uuid, root: u64) -> String {
    format!("{READERS}{root:020}-{id}")
}

/// The root that a reader reads.
pub fn root_of_reader(name: &str) -> Option<u64> {
    let (number, _) = name.strip_prefix(READERS)?.split_once('-')?;
    number.parse().ok()
}
