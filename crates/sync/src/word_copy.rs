//! A few words that a lock guards, as a copy that is read without the lock.
//!
//! # Data model
//! The words, and a sequence number that is odd while they are not what the lock guards. A change makes them useless; a
//! later holder of the lock may copy them again.
//!
//! # Invariants
//! - A reader gets words that were copied together, and that were current when it read the sequence number.
//! - A change makes them useless under the lock, before it is published anywhere else: a thread that saw any effect of a
//!   change does not get words from before.
//!
//! # Locking
//! None to read, which writes no cache line. To write: the owner's lock, alone.

use crate::atomic::{AtomicU64, Ordering, fence};

/// A copy of `N` words; see the module.
#[derive(Debug)]
pub struct WordCopy<const N: usize> {
    sequence: AtomicU64,
    words: [AtomicU64; N],
}

impl<const N: usize> WordCopy<N> {
    /// Nothing is copied yet.
    pub fn new() -> WordCopy<N> {
        WordCopy {
            sequence: AtomicU64::new(1),
            words: [const { 0 }; N].map(AtomicU64::new),
        }
    }

    /// The words, if they are current.
    #[inline(always)]
    pub fn read(&self) -> Option<[u64; N]> {
        let sequence = self.sequence.load(Ordering::Acquire);
        if sequence & 1 != 0 {
            return None;
        }
        let words = std::array::from_fn(|i| self.words[i].load(Ordering::Relaxed));
        // Pairs with the one of `set`: a word of a later copy comes with a later number.
        fence(Ordering::Acquire);
        (self.sequence.load(Ordering::Relaxed) == sequence).then_some(words)
    }

    /// Says that what was copied changes.
    ///
    /// # Locks
    /// The caller holds the lock alone.
    #[inline]
    pub fn changed(&self) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        if sequence & 1 == 0 {
            self.sequence.store(sequence + 1, Ordering::Release);
        }
    }

    /// Copies the words, unless they are current: readers that waited for the lock together do not disturb each other.
    ///
    /// # Locks
    /// The caller holds the lock alone, and has held it since it read what it copies.
    #[inline]
    pub fn set(&self, words: [u64; N]) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        if sequence & 1 == 0 {
            return;
        }
        fence(Ordering::Release);
        for (place, word) in self.words.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.sequence.store(sequence + 1, Ordering::Release);
    }
}

impl<const N: usize> Default for WordCopy<N> {
    fn default() -> Self {
        WordCopy::new()
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_hold_until_a_change() {
        let copy = WordCopy::new();
        assert_eq!(copy.read(), None);
        copy.set([1, 2]);
        assert_eq!(copy.read(), Some([1, 2]));
        copy.changed();
        assert_eq!(copy.read(), None);
        copy.changed();
        copy.set([3, 4]);
        copy.set([3, 4]);
        assert_eq!(copy.read(), Some([3, 4]));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// Two words under a lock, a copy of them, and an atomic that shows one of them, too.
    struct Guarded {
        value: Mutex<u64>,
        shown: AtomicU64,
        copy: WordCopy<2>,
    }

    impl Guarded {
        fn change(&self) {
            let mut value = self.value.lock().unwrap();
            *value += 1;
            self.copy.changed();
            self.shown.store(*value, Ordering::Release);
        }

        fn read(&self) -> u64 {
            let [a, b] = self.copy.read().unwrap_or_else(|| {
                let value = self.value.lock().unwrap();
                let words = [*value, *value];
                self.copy.set(words);
                words
            });
            assert_eq!(a, b, "words of one copy");
            a
        }
    }

    /// A reader finds words of one copy, and no less than what it saw before, in the atomic or in the copy.
    #[test]
    fn loom_words_are_of_one_copy_and_never_behind_what_was_seen() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(4);
        model.check(|| {
            let guarded = Arc::new(Guarded {
                value: Mutex::new(0),
                shown: AtomicU64::new(0),
                copy: WordCopy::new(),
            });
            guarded.read();
            let [writer, reader] = [(); 2].map(|()| Arc::clone(&guarded));
            let writer = thread::spawn(move || {
                writer.change();
                assert!(writer.read() >= 1, "its own change");
            });
            let reader = thread::spawn(move || {
                let shown = reader.shown.load(Ordering::Acquire);
                let first = reader.read();
                assert!(first >= shown);
                assert!(reader.read() >= first);
            });
            writer.join().unwrap();
            reader.join().unwrap();
            assert_eq!(guarded.read(), 1);
        });
    }
}
