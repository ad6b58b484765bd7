//! Names that were looked up: which inode each names, or that there is none.
//!
//! # Data model
//! A table of places of four slots, two in a cache line; a name has one of the four. A slot has a keyed hash of 96 bits of directory and
//! name, and the inode's number; it holds no reference. A directory that anyone may search is noted by its number with the empty name:
//! its *passage*. A slot is good while its state is what it was filled with. The state is odd from before a search until its slot is filled or given up.
//! A bit for each directory, which some share, says whether names in it were searched for; it stays set.
//!
//! # Invariants
//! - Each change of an entry, before it returns and before the inode's number can be another's, changes the state of each slot that has the name
//!   or that a search has claimed ([`NameCache::forget`]). So do a change of a directory's mode or attributes, and its removal, with its passage.
//! - What a search found enters a slot only if the state is what the claim left: nothing changed since before the search.
//!
//! # Locking
//! None: reading writes no cache line, and neither does a change of a name that no slot has, which reads none where no name was searched for; filling and forgetting are atomic operations on
//! the state. A claim precedes what its search reads and a change precedes what [`NameCache::forget`] reads, both by a fence: one of them sees the other. A
//! caller that gets a number from a slot takes a reference to the inode and then asks [`Known::is_current`].

use crate::inode::Inode;
use crate::prelude::*;
use siphasher::sip128::SipHasher13;
use uext4_sync::atomic::fence;

/// Slots that a name may have.
const SLOTS: usize = 4;
/// Places of a segment, which is allocated with the first look-up of a name in it.
const SEGMENT: usize = 128;
const SEGMENTS: usize = 64;
/// Slots of the table.
const SLOTS_ALL: usize = SLOTS * SEGMENT * SEGMENTS;
/// Words of the bits of directories.
const DIR_WORDS: usize = 1024;
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

/// The slots that a name may have, in two cache lines.
#[derive(Debug)]
#[repr(align(64))]
struct Place([Slot; SLOTS]);

type Segment = Box<[Place]>;

/// The names of a file system's directories; see the module.
#[derive(Debug)]
pub(crate) struct NameCache {
    keys: (u64, u64),
    segments: [OnceLock<Segment>; SEGMENTS],
    searched: Box<[AtomicU64]>,
}

/// A directory's number and a name, hashed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameKey {
    dir: Ino,
    /// The slot that it has first.
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

/// The slot that is claimed for a name before it is searched for. Dropping it gives it up.
#[derive(Debug)]
pub(crate) struct Unknown<'a> {
    slot: &'a Slot,
    /// As the claim left it.
    state: u64,
    key: NameKey,
}

impl Unknown<'_> {
    /// Fills the slot with what the search found, unless a change of a name in it came between.
    pub fn found(self, ino: Option<Ino>) {
        let slot = self.slot;
        fence(Ordering::Release);
        slot.hash.store(self.key.hash, Relaxed);
        slot.rest
            .store(rest(self.key, ino.map_or(0, |ino| ino.0)), Relaxed);
        slot.stamp.store(self.state + 1, Relaxed);
    }
}

impl Drop for Unknown<'_> {
    fn drop(&mut self) {
        let (slot, state) = (self.slot, self.state);
        let unchanged = slot
            .state
            .compare_exchange(state, state + 1, Ordering::AcqRel, Relaxed);
        if unchanged.is_err() {
            // A change came between: good for nothing.
            slot.stamp.store(NEVER, Relaxed);
            slot.state.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Slot {
    fn new() -> Slot {
        Slot {
            state: AtomicU64::new(0),
            stamp: AtomicU64::new(NEVER),
            hash: AtomicU64::new(0),
            rest: AtomicU64::new(0),
        }
    }

    /// Claims it for a search; none while another has it.
    fn claim(&self, key: NameKey) -> Option<Unknown<'_>> {
        let idle = self.state.load(Relaxed);
        let state = idle + 1;
        let claimed = idle.is_multiple_of(2)
            && self
                .state
                .compare_exchange(idle, state, Ordering::AcqRel, Relaxed)
                .is_ok();
        // Before what the search reads.
        fence(Ordering::SeqCst);
        // One that is made gives the slot up in the end.
        claimed.then(|| Unknown {
            slot: self,
            state,
            key,
        })
    }

    /// Whether what it was filled with last is this name.
    fn has(&self, key: NameKey) -> bool {
        self.hash.load(Relaxed) == key.hash && self.rest.load(Relaxed) >> 32 == u64::from(key.more)
    }

    /// Whether what it was filled with is good, in that state.
    fn is_good(&self, state: u64) -> bool {
        self.stamp.load(Relaxed) == state
    }

    /// Says that a name became something else, and a fence preceded.
    fn forget(&self, key: NameKey) {
        let state = self.state.load(Ordering::Acquire);
        let is_claimed = !state.is_multiple_of(2);
        if is_claimed || self.is_good(state) && self.has(key) {
            self.state.fetch_add(2, Ordering::AcqRel);
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
            searched: (0..DIR_WORDS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The key of a name.
    #[inline]
    pub fn key(&self, dir: Ino, name: &[u8]) -> NameKey {
        let hasher = SipHasher13::new_with_keys(self.keys.0 ^ u64::from(dir.0), self.keys.1);
        let hash = hasher.hash(name);
        NameKey {
            dir,
            at: (hash.h2 >> 32) as usize % SLOTS_ALL,
            hash: hash.h1,
            more: hash.h2 as u32,
        }
    }

    #[inline]
    fn place(&self, key: NameKey) -> Option<&[Slot; SLOTS]> {
        let segment = self.segments.get(key.at / SLOTS / SEGMENT)?;
        let place = segment.get()?.get(key.at / SLOTS % SEGMENT)?;
        Some(&place.0)
    }

    /// The slots that a name may have, first the two in the line of its own.
    #[inline]
    fn slots(&self, key: NameKey) -> impl Iterator<Item = &Slot> {
        let place = self.place(key).into_iter();
        place.flat_map(move |slots| (0..SLOTS).filter_map(move |i| slots.get((key.at ^ i) % SLOTS)))
    }

    /// The word and bit of a directory.
    #[inline]
    fn searched(&self, dir: Ino) -> Option<(&AtomicU64, u64)> {
        // Numbers of directories are far apart.
        let at = dir.0.wrapping_mul(0x9e37_79b1) >> 16;
        let word = self.searched.get(at as usize / 64)?;
        Some((word, 1 << (at % 64)))
    }

    /// Whether a name in a directory, or in another that shares its bit, was searched for.
    #[inline]
    fn is_searched(&self, dir: Ino) -> bool {
        let found = self.searched(dir);
        found.is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// The key of a directory's passage: no two directories have the same, and a name has it by chance alone.
    #[inline]
    pub fn passage(&self, dir: Ino) -> NameKey {
        let hash = self.keys.1 ^ u64::from(dir.0);
        // The upper bits of a product depend on all bits of its factors.
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        NameKey {
            dir,
            at: (mixed >> 40) as usize % SLOTS_ALL,
            hash,
            more: self.keys.0 as u32,
        }
    }

    /// What is known of a name.
    #[inline]
    pub fn get(&self, key: NameKey) -> Option<Known<'_>> {
        let slots = self.place(key)?;
        let own = slots.get(key.at % SLOTS)?;
        read(own, key).or_else(|| self.get_beside(key))
    }

    /// Whether a name is known not to exist; says no at once in a directory where none was searched for.
    #[inline]
    pub fn is_absent(&self, dir: Ino, name: &[u8]) -> bool {
        let known = self.is_searched(dir).then(|| self.get(self.key(dir, name)));
        known.flatten().is_some_and(|known| known.ino.is_none())
    }

    /// What is known of a name that is not in the first of its slots.
    #[inline(never)]
    fn get_beside(&self, key: NameKey) -> Option<Known<'_>> {
        self.slots(key).skip(1).find_map(|slot| read(slot, key))
    }

    /// The place of a name that is going to be searched for; none while another search has it, or if one has filled it since the caller asked.
    pub fn before_search(&self, key: NameKey) -> Option<Unknown<'_>> {
        let segment = self.segments.get(key.at / SLOTS / SEGMENT)?;
        let made = || {
            let places = (0..SEGMENT).map(|_| Place(std::array::from_fn(|_| Slot::new())));
            places.collect()
        };
        if segment.get().is_none() {
            segment.get_or_init(made);
        }
        let (word, bit) = self.searched(key.dir)?;
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
        let is_good = |slot: &Slot| slot.is_good(slot.state.load(Relaxed));
        let own = self.slots(key).find(|slot| slot.has(key));
        // Another thread has noted it since the caller asked. Claimed, it would be missed by all the others, of which one would claim it, and so on.
        if own.is_some_and(is_good) {
            return None;
        }
        let slot = own.or_else(|| self.slots(key).find(|slot| !is_good(slot)));
        let slot = slot.or_else(|| self.slots(key).nth(key.hash as usize % SLOTS))?;
        slot.claim(key)
    }

    /// Says that an inode, if it is a directory, may not be for anyone to search any more.
    #[inline]
    pub fn forget_passage(&self, inode: &Inode) {
        if inode.is_dir() {
            self.forget_key(inode.ino, |names| names.passage(inode.ino));
        }
    }

    /// Says that a name became something else.
    #[inline]
    pub fn forget(&self, dir: Ino, name: &[u8]) {
        self.forget_key(dir, |names| names.key(dir, name));
    }

    #[inline]
    fn forget_key(&self, dir: Ino, key: impl FnOnce(&NameCache) -> NameKey) {
        // After the change.
        fence(Ordering::SeqCst);
        if !self.is_searched(dir) {
            return;
        }
        let key = key(self);
        self.slots(key).for_each(|slot| slot.forget(key));
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
        let first = names.before_search(key).expect("idle");
        assert!(names.before_search(key).is_none(), "it is claimed");
        names.forget(Ino(2), b"name");
        first.found(Some(Ino(12)));
        assert!(names.get(key).is_none());
        drop(names.before_search(key).expect("idle"));
        assert!(names.get(key).is_none(), "nothing was found");
        names.before_search(key).expect("idle").found(None);
        assert_eq!(names.get(key).expect("is known").ino, None);
    }

    #[test]
    fn what_another_thread_has_noted_meanwhile_stays_readable() {
        let names = NameCache::new();
        let key = names.key(Ino(2), b"name");
        assert!(names.get(key).is_none(), "both threads search");
        names.before_search(key).expect("idle").found(Some(Ino(12)));
        assert!(names.before_search(key).is_none());
        assert!(names.get(key).is_some());
    }

    #[test]
    fn a_change_leaves_other_names_and_four_share_a_place() {
        let names = NameCache::new();
        let key = |more| NameKey {
            dir: Ino(2),
            at: 7,
            hash: 1,
            more,
        };
        for more in 1..=4 {
            let place = names.before_search(key(more)).expect("idle");
            place.found(Some(Ino(more)));
        }
        names.slots(key(1)).for_each(|slot| slot.forget(key(5)));
        assert!((1..=4).map(key).all(|key| names.get(key).is_some()));
        names.slots(key(1)).for_each(|slot| slot.forget(key(2)));
        assert!(names.get(key(2)).is_none());
        let fifth = names.before_search(key(5)).expect("idle");
        fifth.found(None);
        for more in [1, 3, 4] {
            let known = names.get(key(more)).expect("is known");
            assert_eq!(known.ino, Some(Ino(more)));
        }
        assert!(names.get(key(5)).is_some());
        names.before_search(key(6)).expect("idle").found(None);
        let left = (1..=6).map(key).filter(|key| names.get(*key).is_some());
        assert_eq!(left.count(), SLOTS, "one made way");
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
