//! Bits in words that many threads change at once.
//!
//! # Invariants
//! Of all threads that try to set one clear bit, or to clear one set bit, exactly one succeeds.
//!
//! # Locking
//! None: every change is one atomic operation on a word. What an inode or a block holds is guarded by
//! locks of its own, so a bit says nothing of other memory; clearing and finding are in one order with
//! the flag that says that a group is full (`group::inode_bits`).

use uext4_sync::atomic::AtomicU64;
use uext4_sync::atomic::Ordering::{Relaxed, SeqCst};

/// Sets a bit; true if it was clear. False past the end.
#[inline]
pub fn set(words: &[AtomicU64], index: u32) -> bool {
    let bit = 1u64 << (index % 64);
    words
        .get(index as usize / 64)
        .is_some_and(|word| word.fetch_or(bit, Relaxed) & bit == 0)
}

/// Clears a bit; true if it was set. False past the end.
#[inline]
pub fn clear(words: &[AtomicU64], index: u32) -> bool {
    let bit = 1u64 << (index % 64);
    words
        .get(index as usize / 64)
        .is_some_and(|word| word.fetch_and(!bit, SeqCst) & bit != 0)
}

/// Whether a bit is set; true past the end.
#[inline]
pub fn is_set(words: &[AtomicU64], index: u32) -> bool {
    words
        .get(index as usize / 64)
        .is_none_or(|word| word.load(Relaxed) & (1 << (index % 64)) != 0)
}

/// Sets the first bit that is clear and `may` be set at or after `from` and before `end`; gives it, and how often
/// another thread was faster.
#[inline]
pub fn claim_if(
    words: &[AtomicU64],
    from: u32,
    end: u32,
    may: impl Fn(u32) -> bool,
    retries: &mut u64,
) -> Option<u32> {
    let mut at = from;
    while let Some(index) = find_clear(words, at, end) {
        if !may(index) {
            at = index + 1;
        } else if set(words, index) {
            return Some(index);
        } else {
            *retries += 1;
            at = index;
        }
    }
    None
}

/// Finds the first clear bit at or after `from` and before `end`.
pub fn find_clear(words: &[AtomicU64], from: u32, end: u32) -> Option<u32> {
    let mut at = from;
    while at < end {
        let word = words.get(at as usize / 64)?.load(SeqCst) | ((1u64 << (at % 64)) - 1);
        if word != u64::MAX {
            let bit = (at & !63) + (!word).trailing_zeros();
            return (bit < end).then_some(bit);
        }
        at = (at & !63) + 64;
    }
    None
}

/// Finds the first set bit at or after `from`, or `end` if there is none before it.
pub fn find_set(words: &[AtomicU64], from: u32, end: u32) -> u32 {
    let mut at = from;
    while at < end {
        let Some(word) = words.get(at as usize / 64) else {
            return end;
        };
        let word = word.load(Relaxed) & !((1u64 << (at % 64)) - 1);
        if word != 0 {
            return ((at & !63) + word.trailing_zeros()).min(end);
        }
        at = (at & !63) + 64;
    }
    end
}

/// How many bits are clear.
pub fn count_clear(words: &[AtomicU64]) -> u32 {
    words.iter().map(|w| w.load(Relaxed).count_zeros()).sum()
}

/// Sets or clears `len` bits from `first` on, all of them in the bitmap.
pub fn assign_run(words: &[AtomicU64], first: u32, len: u32, set: bool) {
    let mut at = first;
    let end = first + len;
    debug_assert!(end as usize <= words.len() * 64, "past the end");
    while at < end {
        let n = (64 - at % 64).min(end - at);
        let mask = if n == 64 {
            u64::MAX
        } else {
            ((1u64 << n) - 1) << (at % 64)
        };
        if let Some(word) = words.get(at as usize / 64) {
            if set {
                word.fetch_or(mask, Relaxed);
            } else {
                word.fetch_and(!mask, Relaxed);
            }
        }
        at += n;
    }
}

/// Whether all of `len` bits from `first` on are `set`.
pub fn run_is(words: &[AtomicU64], first: u32, len: u32, set: bool) -> bool {
    let end = first + len;
    if set {
        find_clear(words, first, end).is_none() && end as usize <= words.len() * 64
    } else {
        find_set(words, first, end) == end
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    fn words_of(words: usize) -> Vec<AtomicU64> {
        (0..words).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn runs() {
        let words = words_of(8);
        assign_run(&words, 60, 10, true);
        assert!(run_is(&words, 60, 10, true));
        assert!(!run_is(&words, 59, 10, true));
        assert_eq!(find_clear(&words, 60, 512), Some(70));
        assert_eq!(find_set(&words, 0, 512), 60);
        assert_eq!(find_set(&words, 70, 512), 512);
        assign_run(&words, 0, 512, true);
        assert_eq!(find_clear(&words, 0, 512), None);
        assign_run(&words, 100, 1, false);
        assert_eq!(find_clear(&words, 0, 512), Some(100));
        assert!(
            !run_is(&words, 500, 20, true),
            "past the end nothing is free or used"
        );
    }

    #[test]
    fn bits_are_found_in_their_word() {
        let words = words_of(2);
        assert!(set(&words, 70));
        assert!(!set(&words, 70), "set already");
        assert!(is_set(&words, 70));
        assert!(!is_set(&words, 6) && !is_set(&words, 71));
        assert!(is_set(&words, 128), "past the end");
        assert!(clear(&words, 70) && !is_set(&words, 70));
        assert!(!clear(&words, 70), "clear already");
        assert!(!run_is(&words, 100, 40, true));
        assign_run(&words, 100, 28, true);
        assert!(run_is(&words, 100, 28, true));
        assert!(!run_is(&words, 100, 29, true), "past the end");
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
