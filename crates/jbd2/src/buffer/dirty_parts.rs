//! Which parts of a block changed since it was frozen: of a block of the inode table, the inodes.
//!
//! # Data model
//! A bit for each part, 64 of them beside the rest of the buffer. A block of more than 8 KiB, which may have more inodes, has
//! words of its own for those beyond.
//!
//! # Locking
//! None: each call is atomic for each part. What must agree with the content is marked and taken under the content's lock.

use uext4_sync::atomic::{AtomicU64, Ordering};

/// The fewest bytes of a part: those of the smallest inode.
const PART_BYTES: usize = 128;
const WORD: usize = u64::BITS as usize;

/// A bit for each part; see the module.
#[derive(Debug)]
pub(crate) struct DirtyParts {
    first: AtomicU64,
    more: Box<[AtomicU64]>,
}

impl DirtyParts {
    /// Of a block of `size` bytes; no part is marked.
    pub(crate) fn new(size: usize) -> DirtyParts {
        let words = (size / PART_BYTES).div_ceil(WORD);
        DirtyParts {
            first: AtomicU64::new(0),
            more: (1..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "a part that the block does not have is a bug of the caller's"
    )]
    #[inline(always)]
    fn word(&self, part: u32) -> (&AtomicU64, u64) {
        let (word, bit) = (part as usize / WORD, 1 << (part as usize % WORD));
        match word.checked_sub(1) {
            None => (&self.first, bit),
            Some(word) => (&self.more[word], bit),
        }
    }

    /// Marks a part.
    ///
    /// # Panics
    /// If the block has no such part.
    #[inline(always)]
    pub(crate) fn mark(&self, part: u32) {
        let (word, bit) = self.word(part);
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether a part is marked.
    ///
    /// # Panics
    /// If the block has no such part.
    pub(crate) fn is_marked(&self, part: u32) -> bool {
        let (word, bit) = self.word(part);
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// Calls `f` for each part that was marked since the last call.
    pub(crate) fn take(&self, mut f: impl FnMut(u32)) {
        let words = std::iter::once(&self.first).chain(&self.more);
        for (word, at) in words.zip(0..) {
            let mut bits = word.swap(0, Ordering::Relaxed);
            while bits != 0 {
                f(at * u64::BITS + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(parts: &DirtyParts) -> Vec<u32> {
        let mut taken = Vec::new();
        parts.take(|part| taken.push(part));
        taken
    }

    #[test]
    fn parts_that_changed_are_taken_once() {
        for (size, last) in [(1024, 7), (4096, 31), (16 << 10, 127), (64 << 10, 511)] {
            let parts = DirtyParts::new(size);
            for part in [2, 0, 2, last] {
                parts.mark(part);
            }
            assert!(parts.is_marked(last) && parts.is_marked(2) && !parts.is_marked(1));
            assert_eq!(taken(&parts), [0, 2, last], "{size}");
            assert!(taken(&parts).is_empty());
        }
    }
}
