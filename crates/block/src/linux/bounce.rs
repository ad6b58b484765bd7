//! Aligned memory for direct I/O whose own isn't.
//!
//! # Invariants
//! [`Bounce::bytes`] begins at a multiple of the alignment it was made with, as its vector never grows.

use std::io::{IoSlice, IoSliceMut};

/// The most bytes that go through a bounce buffer at once.
pub(crate) const BOUNCE_BYTES: usize = 1 << 20;

/// Aligned memory, as much as was ever asked of it.
#[derive(Debug, Default)]
pub(crate) struct Bounce {
    memory: Vec<u8>,
    /// Where the aligned part begins.
    start: usize,
}

impl Bounce {
    /// The first `len` bytes, aligned to `align` (a power of two), with whatever they held.
    pub fn bytes(&mut self, len: usize, align: usize) -> &mut [u8] {
        if self.memory.len() < self.start + len || self.memory.is_empty() {
            // Twice as large at least, so that a buffer is seldom made again.
            self.memory = vec![0; len.next_power_of_two() + align];
            self.start = self.memory.as_ptr().align_offset(align);
        }
        &mut self.memory[self.start..self.start + len]
    }
}

/// The bytes of buffers, taken one after the other.
pub(crate) struct Gather<'a> {
    bufs: std::slice::Iter<'a, IoSlice<'a>>,
    rest: &'a [u8],
}

impl<'a> Gather<'a> {
    /// All of `bufs`.
    pub fn new(bufs: &'a [IoSlice<'a>]) -> Gather<'a> {
        Gather {
            bufs: bufs.iter(),
            rest: &[],
        }
    }

    /// Fills `out` with the next bytes, as many as there are.
    pub fn fill(&mut self, mut out: &mut [u8]) {
        while !out.is_empty() {
            if self.rest.is_empty() {
                let Some(next) = self.bufs.next() else { return };
                self.rest = next;
                continue;
            }
            let len = self.rest.len().min(out.len());
            let (now, later) = self.rest.split_at(len);
            let (target, after) = out.split_at_mut(len);
            target.copy_from_slice(now);
            (self.rest, out) = (later, after);
        }
    }
}

/// Room in buffers, filled one after the other.
pub(crate) struct Scatter<'a, 'b> {
    bufs: std::slice::IterMut<'a, IoSliceMut<'b>>,
    rest: &'a mut [u8],
}

impl<'a, 'b> Scatter<'a, 'b> {
    /// All of `bufs`.
    pub fn new(bufs: &'a mut [IoSliceMut<'b>]) -> Scatter<'a, 'b> {
        Scatter {
            bufs: bufs.iter_mut(),
            rest: &mut [],
        }
    }

    /// Puts `from` into the next room, as much as fits.
    pub fn put(&mut self, mut from: &[u8]) {
        while !from.is_empty() {
            if self.rest.is_empty() {
                let Some(next) = self.bufs.next() else { return };
                self.rest = next;
                continue;
            }
            let len = self.rest.len().min(from.len());
            let (target, after) = std::mem::take(&mut self.rest).split_at_mut(len);
            let (now, later) = from.split_at(len);
            target.copy_from_slice(now);
            (self.rest, from) = (after, later);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_and_kept() {
        let mut bounce = Bounce::default();
        for (len, align) in [(512, 512), (100, 512), (70_000, 512)] {
            let bytes = bounce.bytes(len, align);
            assert_eq!((bytes.len(), bytes.as_ptr().addr() % align), (len, 0));
        }
        let before = bounce.memory.as_ptr();
        bounce.bytes(512, 512);
        assert_eq!(bounce.memory.as_ptr(), before);
    }

    #[test]
    fn gather_and_scatter() {
        let parts = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
        let mut gather = Gather::new(&parts);
        let (mut first, mut second) = ([0; 3], [0; 3]);
        gather.fill(&mut first);
        gather.fill(&mut second);
        assert_eq!((&first, &second), (b"abc", b"de\0"));
        let (mut one, mut two) = ([0; 1], [0; 3]);
        let mut bufs = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
        let mut scatter = Scatter::new(&mut bufs);
        scatter.put(b"xy");
        scatter.put(b"zw!");
        assert_eq!((&one, &two), (b"x", b"yzw"));
    }
}
