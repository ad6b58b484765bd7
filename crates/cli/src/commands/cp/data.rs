//! The data of a file.

use crate::bar::Bar;
use crate::endpoint::{Sink, Source};
use crate::interrupt;
use anyhow::Result;
use uext4::Progress;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;
/// The unit in which zeros become holes.
const HOLE_BYTES: usize = 4096;

/// Copies data, a piece at a time.
pub struct Copier<'a> {
    buf: Vec<u8>,
    bar: &'a Bar,
}

impl<'a> Copier<'a> {
    /// One that reports to `bar`.
    pub fn new(bar: &'a Bar) -> Copier<'a> {
        Copier {
            buf: vec![0; CHUNK_BYTES],
            bar,
        }
    }

    /// Copies all as it is.
    pub fn data(&mut self, source: &dyn Source, sink: &dyn Sink) -> Result<()> {
        let mut at = 0;
        loop {
            interrupt::check()?;
            let n = source.read_at(&mut self.buf, at)?;
            if n == 0 {
                return sink.finish(at);
            }
            sink.write_at(&self.buf[..n], at)?;
            at += n as u64;
            self.bar.advance(n as u64);
        }
    }

    /// Copies a file of `size` bytes; its holes, and blocks of zeros in it, become holes.
    pub fn sparse_data(&mut self, source: &dyn Source, sink: &dyn Sink, size: u64) -> Result<()> {
        let mut at = 0;
        while let Some(data_at) = source.next_data(at)? {
            interrupt::check()?;
            let n = source.read_at(&mut self.buf, data_at)?;
            if n == 0 {
                break;
            }
            write_sparse(sink, &self.buf[..n], data_at)?;
            self.bar.advance(data_at - at + n as u64);
            at = data_at + n as u64;
        }
        let end = size.max(at);
        self.bar.advance(end - at);
        sink.finish(end)
    }
}

/// Writes `data` but for the blocks of zeros in it.
fn write_sparse(sink: &dyn Sink, data: &[u8], at: u64) -> Result<()> {
    let is_hole = |block: &[u8]| block.iter().all(|b| *b == 0);
    let mut start = 0;
    while start < data.len() {
        let block_end = |from: usize| (from + HOLE_BYTES).min(data.len());
        let hole = is_hole(&data[start..block_end(start)]);
        let mut end = block_end(start);
        while end < data.len() && is_hole(&data[end..block_end(end)]) == hole {
            end = block_end(end);
        }
        if !hole {
            sink.write_at(&data[start..end], at + start as u64)?;
        }
        start = end;
    }
    Ok(())
}
