//! Memory that direct I/O takes.

/// Multiples of this are aligned for every device.
const ALIGNMENT: usize = 4096;

/// Bytes that begin at a multiple of 4096.
#[derive(Clone, Debug)]
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// `len` zeros.
    pub fn new(len: usize) -> Aligned {
        Aligned::filled(len, 0)
    }

    /// `len` times this byte.
    pub fn filled(len: usize, byte: u8) -> Aligned {
        let memory = vec![byte; len + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Aligned { memory, start, len }
    }

    /// A copy of `bytes`.
    pub fn of(bytes: &[u8]) -> Aligned {
        let mut copy = Aligned::new(bytes.len());
        copy.bytes_mut().copy_from_slice(bytes);
        copy
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// The bytes, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}
