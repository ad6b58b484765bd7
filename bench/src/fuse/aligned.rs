//! Memory that direct I/O accepts.

/// What any device asks for.
const ALIGNMENT: usize = 4096;

/// Bytes that begin at a multiple of 4096.
pub struct AlignedBytes {
    bytes: Vec<u8>,
    begin: usize,
    len: usize,
}

impl AlignedBytes {
    /// `len` bytes, each `fill`.
    pub fn new(len: usize, fill: u8) -> AlignedBytes {
        let bytes = vec![fill; len + ALIGNMENT];
        let begin = bytes.as_ptr().align_offset(ALIGNMENT);
        AlignedBytes { bytes, begin, len }
    }

    pub fn get(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..self.begin + self.len]
    }
}
