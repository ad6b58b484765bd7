//! A group's inode bitmap in memory, and what each CPU counts and remembers beside it.
//!
//! # Invariants
//! - A thread that changes a bit or counts runs in a handle that has journal access to the group's descriptor
//!   block and then to the bitmap's block; see [`crate::group`].
//! - `full` is false when a bit that may be given out is clear and no thread is about to read it: a thread that
//!   sets it checks again after that, and one that clears a bit takes it back.
//!
//! # Locking
//! None. What a CPU counts and remembers has cache lines of its own, so that two CPUs that make inodes in
//! one group write nothing in common; nor do they share a cache line of the bitmap while there are
//! enough of them.

use crate::group::{Words, bitmap};
use crate::prelude::*;
use uext4_sync::atomic::AtomicI32;
use uext4_sync::atomic::Ordering::SeqCst;

/// Words in a cache line.
const LINE: u32 = 8;
/// A CPU that has not searched a bitmap yet.
const UNSTARTED: u32 = u32::MAX;

/// The inode bitmap of a group.
#[derive(Debug)]
pub struct InodeBits {
    /// The block that holds the bitmap on disk.
    pub buffer: Arc<Buffer>,
    /// One bit for each inode, then ones.
    pub words: Words,
    /// Changed since its checksum was computed.
    dirty: AtomicBool,
    /// A search found nothing.
    full: AtomicBool,
    cpus: PerCpu<Cpu>,
    /// When each inode was deleted, in seconds since 1970, and 0 for not since the mount; without a
    /// journal only.
    deleted: OnceLock<Box<[AtomicU32]>>,
    /// No clear bit's inode was deleted earlier, in seconds since 1970; 0 if that is not known.
    first_deleted_s: AtomicU32,
}

/// What one CPU counts and remembers.
#[derive(Debug)]
struct Cpu {
    /// The word where its searches start, [`UNSTARTED`] before the first; a hint.
    start: AtomicU32,
    /// Inodes released less inodes claimed.
    free: AtomicI32,
    /// Directories made less directories removed.
    dirs: AtomicI32,
}

impl InodeBits {
    /// The bits as read from disk.
    pub fn new(buffer: Arc<Buffer>, bytes: &[u8]) -> InodeBits {
        InodeBits {
            buffer,
            words: Words::of(bytes),
            dirty: AtomicBool::new(false),
            full: AtomicBool::new(false),
            cpus: PerCpu::new(|_| Cpu {
                start: AtomicU32::new(UNSTARTED),
                free: AtomicI32::new(0),
                dirs: AtomicI32::new(0),
            }),
            deleted: OnceLock::new(),
            first_deleted_s: AtomicU32::new(0),
        }
    }

    /// Says that the bitmap changed.
    #[inline]
    pub fn mark_dirty(&self) {
        if !self.dirty.load(Relaxed) {
            self.dirty.store(true, Relaxed);
        }
    }

    /// Whether it changed since the last call.
    pub fn take_dirty(&self) -> bool {
        self.dirty.swap(false, Relaxed)
    }

    /// Whether bit `index` is set; true past the end.
    pub fn is_set(&self, index: u32) -> bool {
        bitmap::is_set(&self.words, index)
    }

    /// Counts inodes that became free, and directories that came.
    #[inline]
    pub fn count(&self, free: i32, dirs: i32) {
        let cpu = self.cpus.get();
        cpu.free.fetch_add(free, Relaxed);
        if dirs != 0 {
            cpu.dirs.fetch_add(dirs, Relaxed);
        }
    }

    /// How many more inodes are free, and how many more directories there are, than on disk at first.
    pub fn counted(&self) -> (i32, i32) {
        self.cpus.iter().fold((0, 0), |sum, cpu| {
            (
                sum.0 + cpu.free.load(Relaxed),
                sum.1 + cpu.dirs.load(Relaxed),
            )
        })
    }

    /// Whether the last search found nothing, and no inode was released since.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.full.load(SeqCst)
    }

    /// Says that a search found nothing among the first `end` bits.
    pub fn note_full(&self, end: u32) {
        self.full.store(true, SeqCst);
        if bitmap::find_clear(&self.words, 0, end).is_some() {
            self.full.store(false, SeqCst);
        }
    }

    /// Says that a bit was cleared.
    #[inline]
    pub fn note_room(&self) {
        if self.full.load(SeqCst) {
            self.full.store(false, SeqCst);
        }
    }

    /// The word where this CPU's search starts: where it claimed last; at first, each in a cache line
    /// of its own.
    #[inline]
    pub fn start(&self) -> u32 {
        let cpu = self.cpus.index();
        match self.cpus.at(cpu).start.load(Relaxed) {
            UNSTARTED => cpu as u32 * LINE,
            start => start,
        }
    }

    /// Says where this CPU claimed last.
    #[inline]
    pub fn set_start(&self, word: u32) {
        let start = &self.cpus.get().start;
        if start.load(Relaxed) != word {
            start.store(word, Relaxed);
        }
    }

    /// Whether another CPU claims in the cache line of this word.
    pub fn is_anothers(&self, word: u32) -> bool {
        let own = self.cpus.index();
        self.cpus.iter().enumerate().any(|(index, cpu)| {
            let start = match cpu.start.load(Relaxed) {
                UNSTARTED => index as u32 * LINE,
                start => start,
            };
            index != own && start / LINE == word / LINE
        })
    }

    /// Says that there is room in an earlier word than where this CPU claimed last.
    pub fn lower_start(&self, word: u32) {
        let start = &self.cpus.get().start;
        if start.load(Relaxed) > word && !self.is_anothers(word) {
            start.store(word, Relaxed);
        }
    }

    /// Remembers that an inode was deleted now.
    pub fn note_deleted(&self, index: u32) {
        let all = self.deleted.get_or_init(|| {
            (0..self.words.len() * 64)
                .map(|_| AtomicU32::new(0))
                .collect()
        });
        if let Some(at) = all.get(index as usize) {
            at.store(crate::clock::now_s(), Relaxed);
        }
    }

    /// Whether an inode was deleted after `since`, in seconds since 1970, as far as this mount has seen.
    pub fn deleted_since(&self, index: u32, since: u32) -> bool {
        let all = self.deleted.get();
        all.and_then(|all| all.get(index as usize))
            .is_some_and(|at| at.load(Relaxed) > since)
    }

    /// When the first of the inodes whose bits are clear was deleted; 0 if that is not known.
    pub fn first_deleted_s(&self) -> u32 {
        self.first_deleted_s.load(Relaxed)
    }

    /// Notes when the first of the inodes was deleted whose bits are clear among the first `end`, if all of them were
    /// deleted after `since`. A bit that is cleared later is that of an inode deleted later. Returns whether a bit is clear.
    pub fn note_all_deleted(&self, since: u32, end: u32) -> bool {
        let Some(all) = self.deleted.get() else {
            return false;
        };
        let mut first = u32::MAX;
        let mut at = 0;
        while let Some(index) = bitmap::find_clear(&self.words, at, end) {
            let deleted = all.get(index as usize).map_or(0, |at| at.load(Relaxed));
            if deleted <= since {
                return true;
            }
            first = first.min(deleted);
            at = index + 1;
        }
        if first == u32::MAX {
            return false;
        }
        self.first_deleted_s.store(first, Relaxed);
        true
    }
}
