//! The blocks that a directory remembers.
//!
//! # Invariants
//! A directory's block never moves and never goes before the directory does, so a slot that is filled
//! stays as it is.
//!
//! # Locking
//! None: a slot is filled once.

use crate::prelude::*;

/// Slots in the first segment; each one that follows has twice as many.
const FIRST: u32 = 16;
/// Enough for as many blocks as numbers exist.
const SEGMENTS: usize = 29;

type Segment = Box<[OnceLock<Arc<Buffer>>]>;

/// The buffers of a directory's blocks, by their number in it.
#[derive(Debug, Default)]
pub struct DirBlocks {
    segments: [OnceLock<Segment>; SEGMENTS],
}

/// The segment of a block, and the slot in it.
fn place(lblk: Lblk) -> (usize, usize) {
    let n = u64::from(lblk.0) / u64::from(FIRST) + 1;
    let segment = n.ilog2();
    let before = u64::from(FIRST) * ((1 << segment) - 1);
    (segment as usize, (u64::from(lblk.0) - before) as usize)
}

impl DirBlocks {
    /// The buffer of block `lblk`, if it is remembered.
    #[inline]
    pub fn get(&self, lblk: Lblk) -> Option<&Arc<Buffer>> {
        let (segment, slot) = place(lblk);
        self.segments.get(segment)?.get()?.get(slot)?.get()
    }

    /// Remembers a block's buffer, which is the one that the cache has while a reference exists.
    pub fn put(&self, lblk: Lblk, buffer: &Arc<Buffer>) {
        let (segment, slot) = place(lblk);
        let Some(of) = self.segments.get(segment) else {
            return;
        };
        let slots = of.get_or_init(|| {
            (0..(FIRST as usize) << segment)
                .map(|_| OnceLock::new())
                .collect()
        });
        if let Some(slot) = slots.get(slot) {
            let kept = slot.get_or_init(|| Arc::clone(buffer));
            debug_assert!(Arc::ptr_eq(kept, buffer), "two buffers of one block");
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn places_are_dense() {
        let mut want = (0, 0);
        for lblk in 0..10_000 {
            assert_eq!(place(Lblk(lblk)), want, "block {lblk}");
            want.1 += 1;
            if want.1 == (FIRST as usize) << want.0 {
                want = (want.0 + 1, 0);
            }
        }
        assert!(place(Lblk(u32::MAX)).0 < SEGMENTS);
    }
}
