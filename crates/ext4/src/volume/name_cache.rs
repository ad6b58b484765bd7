//! Names that were looked up: which inode each names, or that there is none.
//!
//! # Data model
//! A table of slots, one for each name and those that share its place. A slot has a keyed hash of 96 bits of directory and name, and the
//! inode's number; it holds no reference. A directory that anyone may search is noted by its number with the empty name: its *passage*. A slot is good while its state is what it was filled with. The state is odd while it is filled.
//!
//! # Invariants
//! - Each change of an entry changes the state of the name's slot ([`NameCache::forget`]) before it returns, and before the inode's number
//!   can be another's. So do a change of a directory's mode or attributes, and its removal, with its passage.
//! - What a search found enters a slot only if the state is what it was before the search.
//!
//! # Locking
//! None: reading writes no cache line; filling and forgetting are atomic operations on the state. A caller that gets a number from a slot takes a
//! reference to the inode and then asks [`Known::is_current`].

use crate::inode::Inode;
use crate::prelude::*;
use siphasher::sip128::SipHasher13;
use uext4_sync::atomic::fence;

/// Slots of a segment, which is allocated with the first look-up of a name in it.
const SEGMENT: usize = 512;
const SEGMENTS: usize = 64;
/// A stamp that no slot has as its state.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
#[repr(align(32))]
struct Slot {
    state: AtomicU64,
    /// The state in which it is good.
    stamp: AtomicU64,
    hash: AtomicU64,
    /// More of the hash, and the inode's number, 0 for none.
    rest: AtomicU64,
}

type Segment = Box<[Slot]>;

/// The names of a file system's directories; see the module.
#[derive(Debug)]
pub(crate) struct NameCache {
    keys: (u64, u64),
    segments: [OnceLock<Segment>; SEGMENTS],
}

/// A directory's number and a name, hashed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameKey {
    at: usize,
    hash: u64,
    more: u32,
}

/// What a slot has of a name.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    slot: &'a Slot,
    state: u64,
    /// The inode's number; `None` where the name does not exist.
    pub ino: Option<Ino>,
}

impl Known<'_> {
    /// Whether no change of the name has ended since it was read.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.slot.state.load(Ordering::Acquire) == self.state
    }
}

/// The place of a name before it is searched for.
#[derive(Debug)]
pub(crate) struct Unknown<'a> {
    slot: &'a Slot,
    state: u64,
    key: NameKey,
}

impl Unknown<'_> {
    /// Fills the slot with what the search found, unless a change of a name in it came between.
    pub fn found(self, ino: Option<Ino>) {
        let (slot, state) = (self.slot, self.state);
        let claimed = slot
            .state
            .compare_exchange(state, state + 1, Ordering::AcqRel, Relaxed);
        if claimed.is_err() {
            return;
        }
        fence(Ordering::Release);
        slot.hash.store(self.key.hash, Relaxed);
        slot.rest
            .store(rest(self.key, ino.map_or(0, |ino| ino.0)), Relaxed);
        slot.stamp.store(state + 2, Relaxed);
        let filled = slot
            .state
            .compare_exchange(state + 1, state + 2, Ordering::AcqRel, Relaxed);
        if filled.is_err() {
            // A change came between: good for nothing.
            slot.stamp.store(NEVER, Relaxed);
            slot.state.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// What a slot has of a name.
#[inline]
fn read(slot: &Slot, key: NameKey) -> Option<Known<'_>> {
    let state = slot.state.load(Ordering::Acquire);
    let [stamp, hash, more] = [&slot.stamp, &slot.hash, &slot.rest].map(|word| word.load(Relaxed));
    // Pairs with the one of `found`: a word of a later name comes with a later state.
    fence(Ordering::Acquire);
    let ino = more as u32;
    let is_good = slot.state.load(Relaxed) == state && stamp == state;
    (is_good && hash == key.hash && more == rest(key, ino)).then_some(Known {
        slot,
        state,
        ino: (ino != 0).then_some(Ino(ino)),
    })
}

fn rest(key: NameKey, ino: u32) -> u64 {
    u64::from(key.more) << 32 | u64::from(ino)
}

impl NameCache {
    pub fn new() -> NameCache {
        // What a simulation can draw again.
        let keys = match cfg!(shuttle) {
            true => (1, 2),
            false => rand::random(),
        };
        NameCache {
            keys,
            segments: [const { OnceLock::new() }; SEGMENTS],
        }
    }

    /// The key of a name.
    #[inline]
    pub fn key(&self, dir: Ino, name: &[u8]) -> NameKey {
        let hasher = SipHasher13::new_with_keys(self.keys.0 ^ u64::from(dir.0), self.keys.1);
        let hash = hasher.hash(name);
        NameKey {
            at: (hash.h2 >> 32) as usize % (SEGMENT * SEGMENTS),
            hash: hash.h1,
            more: hash.h2 as u32,
        }
    }

    #[inline]
    fn slot(&self, key: NameKey) -> Option<&Slot> {
        let segment = self.segments.get(key.at / SEGMENT)?;
        segment.get()?.get(key.at % SEGMENT)
    }

    /// The key of a directory's passage.
    #[inline]
    pub fn passage(&self, dir: Ino) -> NameKey {
        self.key(dir, b"")
    }

    /// What is known of a name.
    #[inline]
    pub fn get(&self, key: NameKey) -> Option<Known<'_>> {
        read(self.slot(key)?, key)
    }

    /// The place of a name that is going to be searched for; none while another is noted there.
    pub fn before_search(&self, key: NameKey) -> Option<Unknown<'_>> {
        let segment = self.segments.get(key.at / SEGMENT)?;
        let made = || {
            let slots = (0..SEGMENT).map(|_| Slot {
                state: AtomicU64::new(0),
                stamp: AtomicU64::new(NEVER),
                hash: AtomicU64::new(0),
                rest: AtomicU64::new(0),
            });
            slots.collect()
        };
        if segment.get().is_none() {
            segment.get_or_init(made);
            // A change that finds no segment precedes the search; see `forget`.
            fence(Ordering::SeqCst);
        }
        let slot = self.slot(key)?;
        let state = slot.state.load(Ordering::Acquire);
        state
            .is_multiple_of(2)
            .then_some(Unknown { slot, state, key })
    }

    /// Says that an inode, if it is a directory, may not be for anyone to search any more.
    #[inline]
    pub fn forget_passage(&self, inode: &Inode) {
        if inode.is_dir() {
            self.forget(inode.ino, b"");
        }
    }

    /// Says that a name became something else.
    #[inline]
    pub fn forget(&self, dir: Ino, name: &[u8]) {
        let key = self.key(dir, name);
        let slot = self.slot(key).or_else(|| {
            fence(Ordering::SeqCst);
            self.slot(key)
        });
        if let Some(slot) = slot {
            slot.state.fetch_add(2, Ordering::AcqRel);
        }
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_until_it_changes() {
        let names = NameCache::new();
        let key = names.key(Ino(2), b"name");
        assert!(names.get(key).is_none());
        names.forget(Ino(2), b"name");
        for found in [Some(Ino(12)), None] {
            names.before_search(key).expect("idle").found(found);
            let known = names.get(key).expect("is known");
            assert_eq!(known.ino, found);
            assert!(names.get(names.key(Ino(3), b"name")).is_none());
            names.forget(Ino(2), b"name");
            assert!(!known.is_current());
            assert!(names.get(key).is_none());
        }
    }

    #[test]
    fn what_was_found_before_a_change_is_not_noted() {
        let names = NameCache::new();
        let key = names.key(Ino(2), b"name");
        let (first, second) = (names.before_search(key), names.before_search(key));
        let third = names.before_search(key);
        first.expect("idle").found(Some(Ino(12)));
        second.expect("idle").found(Some(Ino(13)));
        assert_eq!(names.get(key).expect("is known").ino, Some(Ino(12)));
        names.forget(Ino(2), b"name");
        third.expect("idle").found(Some(Ino(14)));
        assert!(names.get(key).is_none());
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
