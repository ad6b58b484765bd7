//! What is known of each inode.
//!
//! # Data model
//! Most inodes are ordinary: regular files with one link, and no flags that matter to later passes. Of those a bit is kept, and
//! another of their name. All others are in lists, one for each chunk of inodes.
//!
//! | ordinary | named | |
//! | --- | --- | --- |
//! | 0 | 0 | nothing is known |
//! | 1 | 0 | an ordinary inode; no name was found |
//! | 1 | 1 | an ordinary inode, and one name |
//! | 0 | 1 | in the list |
//!
//! # Locking
//! A list is under a leaf lock (`checked_inodes`). An inode is in the list, and its bit of a name is set, before its bit as an ordinary one is
//! cleared (release), which is read first (acquire). All else are relaxed atomics: a pass reads what an earlier pass wrote, and threads are
//! joined in between.

use crate::prelude::*;
use std::sync::OnceLock;
use uext4_sync::{Mutex, class};

/// State of an inode: its file type, and these bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InodeState(pub(crate) u8);

impl InodeState {
    /// The inode is encrypted.
    pub(crate) const ENCRYPTED: u8 = 0x08;
    /// The inode is in use.
    pub(crate) const USED: u8 = 0x10;
    /// The inode has no links and waits for its deletion.
    pub(crate) const ORPHAN: u8 = 0x20;
    /// The inode holds an attribute value.
    pub(crate) const VALUE: u8 = 0x40;
    /// The directory is hashed.
    pub(crate) const HASHED: u8 = 0x80;

    pub(crate) fn used(self) -> bool {
        self.0 & Self::USED != 0
    }

    pub(crate) fn orphan(self) -> bool {
        self.0 & Self::ORPHAN != 0
    }

    pub(crate) fn value(self) -> bool {
        self.0 & Self::VALUE != 0
    }

    pub(crate) fn encrypted(self) -> bool {
        self.0 & Self::ENCRYPTED != 0
    }

    pub(crate) fn hashed(self) -> bool {
        self.0 & Self::HASHED != 0
    }

    pub(crate) fn file_type(self) -> FileType {
        FileType::from_dirent(self.0 & 7)
    }

    /// That of a regular file without flags.
    fn ordinary() -> InodeState {
        InodeState(FileType::Regular.to_dirent() | Self::USED)
    }
}

/// Words of bits of a chunk.
const CHUNK_WORDS: usize = 16;
/// Inodes of a chunk.
const CHUNK_INODES: usize = CHUNK_WORDS * 64;

/// An inode that is not ordinary.
#[derive(Clone, Copy, Debug)]
struct Other {
    at: u16,
    links: u16,
    found: u32,
    state: u8,
}

/// Inodes whose numbers follow each other.
#[derive(Debug)]
struct Chunk {
    ordinary: [AtomicU64; CHUNK_WORDS],
    named: [AtomicU64; CHUNK_WORDS],
    /// Sorted by place.
    others: Mutex<Vec<Other>>,
}

impl Chunk {
    fn new() -> Box<Chunk> {
        let bits = || std::array::from_fn(|_| AtomicU64::new(0));
        Box::new(Chunk {
            ordinary: bits(),
            named: bits(),
            others: Mutex::new(&class::CHECKED_INODES, Vec::new()),
        })
    }

    /// The bits of an inode.
    #[inline]
    fn bits(&self, at: usize) -> (bool, bool) {
        let of = |words: &[AtomicU64; CHUNK_WORDS], order| {
            let word = words.get(at / 64);
            word.is_some_and(|word| word.load(order) >> (at % 64) & 1 != 0)
        };
        let ordinary = of(&self.ordinary, Ordering::Acquire);
        (ordinary, of(&self.named, Ordering::Relaxed))
    }

    /// Sets a bit; true if it was set.
    #[inline]
    fn set(words: &[AtomicU64; CHUNK_WORDS], at: usize) -> bool {
        let mask = 1 << (at % 64);
        let word = words.get(at / 64);
        word.is_some_and(|word| word.fetch_or(mask, Ordering::Relaxed) & mask != 0)
    }

    /// Changes what the list says of an inode, which is ordinary no longer.
    fn change(&self, at: usize, change: impl FnOnce(&mut Other)) {
        let mut others = self.others.lock();
        let i = match others.binary_search_by_key(&at, |other| other.at.into()) {
            Ok(i) => i,
            Err(i) => {
                let (ordinary, named) = self.bits(at);
                let other = Other {
                    at: at as u16,
                    links: u16::from(ordinary),
                    found: u32::from(ordinary && named),
                    state: if ordinary {
                        InodeState::ordinary().0
                    } else {
                        0
                    },
                };
                others.insert(i, other);
                i
            }
        };
        if let Some(other) = others.get_mut(i) {
            change(other);
        }
        Self::set(&self.named, at);
        if let Some(word) = self.ordinary.get(at / 64) {
            word.fetch_and(!(1 << (at % 64)), Ordering::Release);
        }
    }

    /// What is known of an inode.
    #[inline]
    fn get(&self, at: usize) -> Option<Other> {
        let (ordinary, named) = self.bits(at);
        if ordinary {
            return Some(Other {
                at: at as u16,
                links: 1,
                found: named.into(),
                state: InodeState::ordinary().0,
            });
        }
        if !named {
            return None;
        }
        let others = self.others.lock();
        let i = others.binary_search_by_key(&at, |other| other.at.into());
        others.get(i.ok()?).copied()
    }

    /// Places of inodes that something is known of, but for ordinary ones with a name unless `all`.
    fn known(&self, all: bool) -> impl Iterator<Item = usize> {
        let words = self.ordinary.iter().zip(&self.named).enumerate();
        words.flat_map(move |(w, (ordinary, named))| {
            let ordinary = ordinary.load(Ordering::Relaxed);
            let named = named.load(Ordering::Relaxed);
            let mut left = match all {
                true => ordinary | named,
                false => ordinary ^ named,
            };
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(w * 64 + bit)
            })
        })
    }
}

/// State of every inode, in chunks that are made where an inode is in use or has a name.
#[derive(Debug)]
pub(crate) struct InodeTable {
    chunks: Vec<OnceLock<Box<Chunk>>>,
    count: u32,
}

impl InodeTable {
    pub(crate) fn new(count: u32) -> Self {
        let mut chunks = Vec::new();
        chunks.resize_with((count as usize).div_ceil(CHUNK_INODES), OnceLock::new);
        InodeTable { chunks, count }
    }

    /// Where an inode's chunk is, and the inode in it; `None` for a number out of range.
    #[inline]
    fn place(&self, ino: Ino) -> Option<(&OnceLock<Box<Chunk>>, usize)> {
        let index = ino.0.checked_sub(1).filter(|i| *i < self.count)? as usize;
        let chunk = self.chunks.get(index / CHUNK_INODES)?;
        Some((chunk, index % CHUNK_INODES))
    }

    #[inline]
    fn get(&self, ino: Ino) -> Option<Other> {
        let (chunk, at) = self.place(ino)?;
        chunk.get()?.get(at)
    }

    /// Notes an inode in use.
    #[inline]
    pub(crate) fn set(&self, ino: Ino, file_type: FileType, bits: u8, links: u16) {
        let Some((chunk, at)) = self.place(ino) else {
            return;
        };
        let chunk = chunk.get_or_init(Chunk::new);
        let state = file_type.to_dirent() | bits;
        if links == 1 && InodeState(state) == InodeState::ordinary() && !chunk.bits(at).1 {
            Chunk::set(&chunk.ordinary, at);
            return;
        }
        chunk.change(at, |other| (other.state, other.links) = (state, links));
    }

    /// State of an inode; nothing for a number out of range.
    #[inline]
    pub(crate) fn state(&self, ino: Ino) -> InodeState {
        InodeState(self.get(ino).map_or(0, |known| known.state))
    }

    /// Links that the inode says it has.
    #[inline]
    pub(crate) fn links(&self, ino: Ino) -> u16 {
        self.get(ino).map_or(0, |known| known.links)
    }

    /// Counts a name. There are fewer names than 2^32 on any device that fits memory.
    #[inline]
    pub(crate) fn add_found(&self, ino: Ino) {
        let Some((chunk, at)) = self.place(ino) else {
            return;
        };
        let chunk = chunk.get_or_init(Chunk::new);
        if chunk.bits(at).0 && !Chunk::set(&chunk.named, at) {
            return;
        }
        chunk.change(at, |other| other.found = other.found.saturating_add(1));
    }

    /// Names found.
    #[inline]
    pub(crate) fn found(&self, ino: Ino) -> u32 {
        self.get(ino).map_or(0, |known| known.found)
    }

    /// True if nothing is known of `count` inodes from `first` on; false where something is of one near them.
    pub(crate) fn is_untouched(&self, first: Ino, count: u32) -> bool {
        let start = first.0.saturating_sub(1) as usize;
        let end = (start + count as usize).div_ceil(CHUNK_INODES);
        let range = start / CHUNK_INODES..end.min(self.chunks.len());
        let chunks = self.chunks.get(range).unwrap_or(&[]);
        chunks.iter().all(|chunk| chunk.get().is_none())
    }

    /// Inodes that something is known of, in order.
    pub(crate) fn known(&self) -> impl Iterator<Item = Ino> {
        self.iter(true)
    }

    /// The same without those that are regular files with one link and one name.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = Ino> {
        self.iter(false)
    }

    fn iter(&self, all: bool) -> impl Iterator<Item = Ino> {
        let made = self.chunks.iter().enumerate();
        let made = made.filter_map(|(i, chunk)| Some((i, chunk.get()?)));
        made.flat_map(move |(i, chunk)| {
            let first = (i * CHUNK_INODES) as u32 + 1;
            chunk.known(all).map(move |at| Ino(first + at as u32))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileType = FileType::Regular;
    const USED: u8 = InodeState::USED;

    fn facts(table: &InodeTable, ino: u32) -> (u8, u16, u32) {
        let ino = Ino(ino);
        (table.state(ino).0, table.links(ino), table.found(ino))
    }

    #[test]
    fn every_inode_has_what_was_noted() {
        let table = InodeTable::new(5000);
        let file = FILE.to_dirent() | USED;
        let dir = FileType::Directory.to_dirent() | USED;
        table.set(Ino(5), FILE, USED, 1);
        assert_eq!(facts(&table, 5), (file, 1, 0));
        table.add_found(Ino(5));
        assert_eq!(facts(&table, 5), (file, 1, 1));
        assert_eq!(table.unsettled().next(), None);
        // A second name, and the same inode once more.
        table.add_found(Ino(5));
        table.set(Ino(5), FILE, USED, 1);
        assert_eq!(facts(&table, 5), (file, 1, 2));
        table.set(Ino(2000), FileType::Directory, USED, 3);
        table.add_found(Ino(2000));
        assert_eq!(facts(&table, 2000), (dir, 3, 1));
        // A name of what is not in use, which is found later to be.
        table.add_found(Ino(3000));
        assert_eq!(facts(&table, 3000), (0, 0, 1));
        table.set(Ino(3000), FILE, USED, 1);
        assert_eq!(facts(&table, 3000), (file, 1, 1));
        table.set(Ino(7), FILE, USED | InodeState::ENCRYPTED, 1);
        assert!(table.state(Ino(7)).encrypted());
        for ino in [0, 6, 5001] {
            table.add_found(Ino(if ino == 6 { 0 } else { ino }));
            assert_eq!(facts(&table, ino), (0, 0, 0));
        }
        table.set(Ino(2001), FILE, USED, 1);
        assert!(table.known().map(|ino| ino.0).eq([5, 7, 2000, 2001, 3000]));
        table.add_found(Ino(2001));
        assert!(table.unsettled().map(|ino| ino.0).eq([5, 7, 2000, 3000]));
        assert!(table.is_untouched(Ino(4097), 900) && !table.is_untouched(Ino(1), 1));
    }

    #[test]
    fn names_are_counted_from_many_threads() {
        let table = InodeTable::new(64);
        (1..=64).for_each(|ino| table.set(Ino(ino), FILE, USED, 1));
        uext4_sync::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (1..=64).for_each(|ino| table.add_found(Ino(ino))));
            }
        });
        assert!((1..=64).all(|ino| facts(&table, ino).2 == 3));
    }
}
