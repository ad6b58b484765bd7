//! Memory that direct I/O takes.

#![allow(dead_code, reason = "each test binary uses what it needs")]

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
    /// `len` times this byte.
    pub fn filled(len: usize, byte: u8) -> Aligned {
        let memory = vec![byte; len + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Aligned { memory, start, len }
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

/// An image in memory, made by our mkfs, with nothing reserved for the superuser.
#[cfg(not(shuttle))]
pub fn memory(bytes: u64, block_size: u32) -> std::sync::Arc<uext4_block::MemoryDevice> {
    let device = uext4_block::MemoryDevice::new(bytes);
    let options = uext4_mkfs::MkfsOptions {
        size: Some(bytes),
        block_size,
        journal_size: Some(4 << 20),
        reserved_percent: Some(0.0),
        threads: 1,
        ..uext4_mkfs::MkfsOptions::default()
    };
    uext4_mkfs::mkfs(&device, &options, &uext4_mkfs::NoProgress).expect("mkfs");
    std::sync::Arc::new(device)
}
