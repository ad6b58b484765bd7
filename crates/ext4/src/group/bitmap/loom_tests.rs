//! Bits as the variants `lock-free` of inode allocation and `percpu` of block allocation claim and release them, in every
//! order that the memory model allows.

use super::*;
use loom::sync::Arc;
use loom::thread;

/// Words in which the bits before 128 are set but for those given.
fn bitmap_with_clear(clear: &[u32]) -> Arc<[AtomicU64; 2]> {
    let mut words = [u64::MAX; 2];
    for bit in clear {
        words[*bit as usize / 64] &= !(1 << (bit % 64));
    }
    Arc::new(words.map(AtomicU64::new))
}

/// A claimer, and what it counts of lost races.
fn claim(words: &[AtomicU64]) -> (Option<u32>, u64) {
    let mut retries = 0;
    let claimed = claim_if(words, 0, 128, |_| true, &mut retries);
    (claimed, retries)
}

fn claimer(words: &Arc<[AtomicU64; 2]>) -> thread::JoinHandle<(Option<u32>, u64)> {
    let words = Arc::clone(words);
    thread::spawn(move || claim(&*words))
}

fn all_set(words: &[AtomicU64]) -> bool {
    run_is(words, 0, 128, true)
}

#[test]
fn loom_no_bit_is_given_twice() {
    loom::model(|| {
        let words = bitmap_with_clear(&[3, 5, 64]);
        let others = [claimer(&words), claimer(&words)];
        let (mine, _) = claim(&*words);
        let mut bits = vec![mine];
        bits.extend(others.map(|other| other.join().unwrap().0));
        bits.sort_unstable();
        assert_eq!(bits, [Some(3), Some(5), Some(64)]);
        assert!(all_set(&*words));
    });
}

#[test]
fn loom_of_two_takers_of_the_last_bit_one_wins() {
    loom::model(|| {
        let words = bitmap_with_clear(&[70]);
        let other = claimer(&words);
        let (mine, my_retries) = claim(&*words);
        let (theirs, their_retries) = other.join().unwrap();
        let won: Vec<u32> = [mine, theirs].into_iter().flatten().collect();
        assert_eq!(won, [70]);
        // The loser of a race saw it once; a later thread found nothing.
        assert!(my_retries + their_retries <= 1);
        assert!(all_set(&*words));
    });
}

#[test]
fn loom_no_release_is_lost() {
    loom::model(|| {
        // Both change the same word.
        let words = bitmap_with_clear(&[9]);
        let releaser = {
            let words = Arc::clone(&words);
            thread::spawn(move || clear(&*words, 40))
        };
        let (claimed, _) = claim(&*words);
        assert!(releaser.join().unwrap(), "it was set");
        assert_eq!(claimed, Some(9), "a lower bit was clear all the time");
        assert_eq!(claim(&*words).0, Some(40), "the release is there");
        assert!(all_set(&*words));
    });
}

#[test]
fn loom_a_bit_goes_from_one_to_the_other() {
    loom::model(|| {
        let words = bitmap_with_clear(&[]);
        let releaser = {
            let words = Arc::clone(&words);
            thread::spawn(move || clear(&*words, 9))
        };
        let (claimed, retries) = claim(&*words);
        assert!(releaser.join().unwrap());
        assert_eq!(retries, 0);
        // Claimed, or still there for the next one: never both, never neither.
        match claimed {
            Some(bit) => assert_eq!(bit, 9),
            None => assert_eq!(claim(&*words).0, Some(9)),
        }
        assert!(all_set(&*words));
    });
}

#[test]
fn loom_of_two_releases_one_counts() {
    loom::model(|| {
        let words = bitmap_with_clear(&[]);
        let other = {
            let words = Arc::clone(&words);
            thread::spawn(move || clear(&*words, 9))
        };
        let mine = clear(&*words, 9);
        assert!(mine ^ other.join().unwrap(), "exactly one sets it");
        assert!(!is_set(&*words, 9));
    });
}

#[test]
fn loom_no_bit_of_a_run_is_claimed_twice() {
    loom::model(|| {
        // Both want 60 to 64.
        let words = bitmap_with_clear(&[58, 59, 60, 61, 62, 63, 64, 66]);
        let other = {
            let words = Arc::clone(&words);
            thread::spawn(move || claim_run(&*words, 60, 6))
        };
        let mine = claim_run(&*words, 58, 8);
        let theirs = other.join().unwrap();
        assert!(
            matches!((mine, theirs), (7, 0) | (2, 5)),
            "{mine}, {theirs}"
        );
        let set = (58..65).filter(|bit| is_set(&*words, *bit)).count() as u32;
        assert_eq!(set, mine + theirs);
        assert!(!is_set(&*words, 66), "past the bit in use");
    });
}

#[test]
fn loom_of_two_frees_of_a_run_one_counts() {
    loom::model(|| {
        let words = bitmap_with_clear(&[]);
        let other = {
            let words = Arc::clone(&words);
            thread::spawn(move || clear_run(&*words, 62, 4))
        };
        let mine = clear_run(&*words, 62, 4);
        assert!(mine ^ other.join().unwrap(), "exactly one frees it");
        assert!(run_is(&*words, 62, 4, false));
    });
}

#[test]
fn loom_a_free_of_what_is_free_undoes_nothing_of_a_claim() {
    loom::model(|| {
        let words = bitmap_with_clear(&[65, 66]);
        let claimer = {
            let words = Arc::clone(&words);
            thread::spawn(move || claim_run(&*words, 66, 1))
        };
        assert!(!clear_run(&*words, 62, 4), "65 is free");
        assert_eq!(claimer.join().unwrap(), 1);
        assert!(run_is(&*words, 62, 3, true) && !is_set(&*words, 65));
        assert!(is_set(&*words, 66));
    });
}
