//! Writing blocks in place.

use crate::buffer::BufferCache;
use crate::error::Result;
use std::sync::Arc;

/// Bytes written in place at a time.
const IN_PLACE_BYTES: usize = 1 << 20;

/// Collects blocks in ascending order and writes runs of them.
pub(crate) struct InPlace {
    cache: Arc<BufferCache>,
    first: u64,
    bytes: Vec<u8>,
    written: u64,
}

impl InPlace {
    pub fn new(cache: Arc<BufferCache>) -> InPlace {
        InPlace {
            cache,
            first: 0,
            bytes: Vec::with_capacity(IN_PLACE_BYTES),
            written: 0,
        }
    }

    /// Takes a copy of a block, to be written by [`InPlace::finish`] at the latest.
    pub fn block(&mut self, block: u64, data: &[u8]) -> Result<()> {
        let size = self.cache.block_size();
        let next = self.first + (self.bytes.len() / size) as u64;
        if block != next || self.bytes.len() >= IN_PLACE_BYTES {
            self.write()?;
            self.first = block;
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        if !self.bytes.is_empty() {
            let offset = self.first * self.cache.block_size() as u64;
            self.cache.device().write_at(offset, &self.bytes)?;
            self.written += self.bytes.len() as u64;
            self.bytes.clear();
        }
        Ok(())
    }

    /// Writes what is left; the bytes written in all.
    pub fn finish(mut self) -> Result<u64> {
        self.write()?;
        Ok(self.written)
    }
}
