//! Bits in words that many threads change at once.
//!
//! # Invariants
//! Of all threads that try to set one clear bit, or to clear one set bit, exactly one succeeds, also where it is one of a run.
//!
//! # Locking
//! None: every change is one atomic operation on a word. What an inode or a block holds is guarded by
//! locks of its own, so a bit says nothing of other memory; clearing and finding are in one order with
//! the flag that says that a group is full (`group::inode_bits`).

use uext4_sync::atomic::AtomicU64;
use uext4_sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};

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

/// The words that hold bits `[first, first + len)`, and which of their bits those are.
fn masks(words: &[AtomicU64], first: u32, len: u32) -> impl Iterator<Item = (&AtomicU64, u64)> {
    let end = first + len;
    debug_assert!(end as usize <= words.len() * 64, "past the end");
    let start = first / 64;
    let of_run = words.get(start as usize..).unwrap_or(&[]).iter();
    of_run.zip(start..end.div_ceil(64)).map(move |(word, no)| {
        let from = first.saturating_sub(no * 64);
        let to = (end - no * 64).min(64);
        let mask = match to.saturating_sub(from) {
            0 => 0,
            len => (u64::MAX >> (64 - len)) << from,
        };
        (word, mask)
    })
}

/// Sets or clears `len` bits from `first` on, all of them in the bitmap.
pub fn assign_run(words: &[AtomicU64], first: u32, len: u32, set: bool) {
    for (word, mask) in masks(words, first, len) {
        if set {
            word.fetch_or(mask, AcqRel);
        } else {
            word.fetch_and(!mask, AcqRel);
        }
    }
}

/// Sets the bits from `first` on, at most `len`, up to the first that is set already; returns how many. Of threads that
/// claim one bit exactly one gets it, and no bit is set that is not claimed.
pub fn claim_run(words: &[AtomicU64], first: u32, len: u32) -> u32 {
    let mut claimed = 0;
    for (word, mask) in masks(words, first, len) {
        let mine = claim_in_word(word, mask);
        claimed += mine.count_ones();
        if mine != mask {
            break;
        }
    }
    claimed
}

/// Sets the bits of `mask`, which follow each other, up to the first that is set already; returns which.
fn claim_in_word(word: &AtomicU64, mask: u64) -> u64 {
    let mut seen = word.load(Relaxed);
    loop {
        let mine = match seen & mask {
            0 => mask,
            taken => mask & ((1 << taken.trailing_zeros()) - 1),
        };
        if mine == 0 {
            return 0;
        }
        match word.compare_exchange(seen, seen | mine, AcqRel, Relaxed) {
            Ok(_) => return mine,
            Err(now) => seen = now,
        }
    }
}

/// Clears `len` bits from `first` on if all of them are set; of threads that clear one bit exactly one succeeds. If one was
/// clear, those that this call cleared are set again: until then another call fails on them as well.
pub fn clear_run(words: &[AtomicU64], first: u32, len: u32) -> bool {
    for (done, (word, mask)) in masks(words, first, len).enumerate() {
        let cleared = word.fetch_and(!mask, AcqRel) & mask;
        if cleared != mask {
            word.fetch_or(cleared, AcqRel);
            for (word, mask) in masks(words, first, len).take(done) {
                word.fetch_or(mask, AcqRel);
            }
            return false;
        }
    }
    true
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
    fn a_run_is_claimed_up_to_the_first_bit_that_is_set() {
        let words = words_of(4);
        assert_eq!(claim_run(&words, 10, 100), 100);
        assert!(run_is(&words, 10, 100, true));
        assert!(!is_set(&words, 9) && !is_set(&words, 110));
        assert_eq!(claim_run(&words, 10, 100), 0);
        assert_eq!(claim_run(&words, 5, 100), 5);
        assert_eq!(claim_run(&words, 110, 18), 18, "to the end of a word");
        assert!(set(&words, 200));
        assert_eq!(claim_run(&words, 128, 128), 72);
        assert!(!is_set(&words, 201));
        assert_eq!(claim_run(&words, 201, 55), 55, "to the end");
        assert_eq!(claim_run(&words, 0, 0), 0);
    }

    #[test]
    fn a_run_is_cleared_if_all_of_it_is_set() {
        let words = words_of(4);
        assign_run(&words, 30, 200, true);
        assert!(clear_run(&words, 30, 10));
        assert!(!clear_run(&words, 39, 100), "its first bit is clear");
        assert!(!clear_run(&words, 100, 131), "its last bit is clear");
        assert!(run_is(&words, 40, 190, true), "as it was");
        assert!(clear_run(&words, 40, 190));
        assert_eq!(count_clear(&words), 256);
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
