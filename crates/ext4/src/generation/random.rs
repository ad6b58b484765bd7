//! Words from the generators of the thread: the cryptographic one (ChaCha12, seeded by the system and again
//! after every 64 KiB), and a cheap one, whose words follow from a few of them (wyrand, 64 bits of state).
//!
//! # Data model
//! Words are drawn in batches: most of the time a draw is a load from memory of the thread's own. A
//! word is wiped when it is given, so that memory read later does not reveal a generation.
//!
//! A process that forks gives its child the rest of the batch; the two do not have one file system
//! mounted.

use rand::Rng as _;
use std::cell::Cell;

/// Words in a batch, a power of two: one run of the generator.
const BATCH: usize = 64;

struct Batch {
    words: [Cell<u32>; BATCH],
    left: Cell<usize>,
}

thread_local! {
    static BATCH_OF_THREAD: Batch = const {
        Batch {
            words: [const { Cell::new(0) }; BATCH],
            left: Cell::new(0),
        }
    };
}

impl Batch {
    #[inline]
    fn next(&self) -> u32 {
        // What a simulation can draw again.
        if cfg!(shuttle) {
            return cheap_word();
        }
        if self.left.get() == 0 {
            self.fill();
        }
        let left = self.left.get() - 1;
        self.left.set(left);
        self.words[left % BATCH].take()
    }

    #[cold]
    fn fill(&self) {
        let mut rng = rand::rng();
        for word in &self.words {
            word.set(rng.next_u32());
        }
        self.left.set(BATCH);
    }
}

/// 32 random bits.
#[inline]
pub(super) fn word() -> u32 {
    BATCH_OF_THREAD.with(Batch::next)
}

/// 32 random bits of the cheap generator.
#[inline]
pub(super) fn cheap_word() -> u32 {
    fastrand::u32(..)
}
