//! The segments that a flush writes.

use super::chunks::Chunks;
use super::map::in_parallel;
use super::names::Segment;
use super::page::{BLOCK, Location};
use super::store::{ObjectStore, StoreResult, again};

/// Bytes from which on another segment begins.
pub const SEGMENT: usize = 8 << 20;

/// Blocks and pages on their way to segments.
#[derive(Debug)]
pub struct NewSegments {
    epoch: u32,
    next: u64,
    done: Vec<(Segment, Vec<u8>)>,
    last: Vec<u8>,
}

impl NewSegments {
    /// Of a writer.
    pub fn new(epoch: u32, next: u64) -> NewSegments {
        NewSegments {
            epoch,
            next,
            done: Vec::new(),
            last: Vec::new(),
        }
    }

    /// Adds whole blocks, and returns where they will be.
    pub fn push(&mut self, bytes: &[u8]) -> Location {
        if self.last.len() >= SEGMENT {
            self.end_last();
        }
        let location = Location {
            segment: self.segment(),
            at: (self.last.len() / BLOCK) as u16,
            crc: crc32c::crc32c(bytes),
        };
        self.last.extend(bytes);
        location
    }

    fn segment(&self) -> Segment {
        Segment {
            epoch: self.epoch,
            number: self.next,
        }
    }

    fn end_last(&mut self) {
        self.done
            .push((self.segment(), std::mem::take(&mut self.last)));
        self.next += 1;
    }

    /// Writes them all, and returns the number of the next and how many bytes they have.
    ///
    /// # Errors
    /// The store's.
    pub fn write(mut self, store: &dyn ObjectStore, chunks: &Chunks) -> StoreResult<(u64, u64)> {
        if !self.last.is_empty() {
            self.end_last();
        }
        in_parallel(store, self.done.len(), |at| {
            let (segment, bytes) = &self.done[at];
            again(store, || store.put(&segment.name(), bytes))?;
            chunks.written(*segment, bytes);
            Ok(())
        })?;
        let bytes = self.done.iter().map(|(_, bytes)| bytes.len() as u64);
        Ok((self.next, bytes.sum()))
    }
}
