//! Where blocks are: locations, and the pages of the map that hold them.

use super::names::Segment;

/// Bytes of a block of the map.
pub const BLOCK: usize = 4096;
/// Entries of a page.
pub const ENTRIES: usize = 512;
/// Bytes of an entry.
const ENTRY: usize = 16;
/// Bytes of a page.
pub const PAGE: usize = ENTRIES * ENTRY;

/// Where a block or a page is, and its checksum. A hole reads as zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The segment; of a hole, that of no epoch.
    pub segment: Segment,
    /// Where in the segment, in blocks.
    pub at: u16,
    /// CRC32C of the bytes.
    pub crc: u32,
}

impl Location {
    /// Of what reads as zeros.
    pub const HOLE: Location = Location {
        segment: Segment {
            epoch: 0,
            number: 0,
        },
        at: 0,
        crc: 0,
    };

    /// Whether it reads as zeros.
    pub fn is_hole(self) -> bool {
        self.segment.epoch == 0
    }

    fn decode(bytes: &[u8; ENTRY]) -> Location {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let high = u16::from_le_bytes([bytes[8], bytes[9]]);
        Location {
            segment: Segment {
                epoch: word(0),
                number: u64::from(word(4)) | u64::from(high) << 32,
            },
            at: u16::from_le_bytes([bytes[10], bytes[11]]),
            crc: word(12),
        }
    }

    fn encode(self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[0..4].copy_from_slice(&self.segment.epoch.to_le_bytes());
        bytes[4..10].copy_from_slice(&self.segment.number.to_le_bytes()[..6]);
        bytes[10..12].copy_from_slice(&self.at.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }
}

/// Locations one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page(Vec<Location>);

impl Page {
    /// Of holes.
    pub fn empty(entries: usize) -> Page {
        Page(vec![Location::HOLE; entries])
    }

    /// Reads one.
    pub fn decode(bytes: &[u8]) -> Page {
        let (entries, _) = bytes.as_chunks();
        Page(entries.iter().map(Location::decode).collect())
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.0.iter().flat_map(|entry| entry.encode()).collect()
    }

    /// An entry; a hole beyond the last.
    pub fn get(&self, index: usize) -> Location {
        self.0.get(index).copied().unwrap_or_default()
    }

    /// Changes an entry.
    pub fn set(&mut self, index: usize, location: Location) {
        self.0[index] = location;
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether all are holes.
    pub fn is_hole(&self) -> bool {
        self.0.iter().all(|entry| entry.is_hole())
    }

    /// The entries that lead to bytes.
    pub fn locations(&self) -> impl Iterator<Item = (usize, Location)> + '_ {
        let all = self.0.iter().copied().enumerate();
        all.filter(|(_, location)| !location.is_hole())
    }
}
