//! A group's inode bitmap in memory, and what each CPU counts and remembers beside it.
//!
//! # Invariants
//! - A thread that changes a bit or counts runs in a handle that has journal access to the group's descriptor
//!   block and then to the bitmap's block; see [`crate::group`].
//! - `full` is false when a bit that may be given out is clear and no thread is about to read it: a thread that
//!   sets it checks again after that, and one that clears a bit takes it back.
//!
//! - A cache line of the bitmap has one owner, a CPU that claims in it; a CPU gives its line up when it takes the
//!   next. Owners are hints: whatever they say, a bit is claimed by one thread.
//!
//! # Locking
//! None. What a CPU counts and remembers has cache lines of its own, so that two CPUs that make inodes in
//! one group write nothing in common but the owners, once for each line of the bitmap that they take.

use crate::group::{Words, bitmap};
use crate::prelude::*;
use uext4_sync::atomic::AtomicI32;
use uext4_sync::atomic::Ordering::SeqCst;

/// Bits in a cache line of the bitmap.
pub const LINE_BITS: u32 = 512;

/// A CPU that found no line of the bitmap to claim in.
const NO_LINE_LEFT: u32 = u32::MAX;

/// So often a CPU passes the group over, once or a few times for each claim, before it searches again for a line.
const PASSES: u32 = LINE_BITS;

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
    /// Of each cache line of the bitmap the CPU that claims in it, its number plus one; 0 for none.
    owners: Box<[AtomicU32]>,
    cpus: PerUsedCpu<Cpu>,
    /// When each inode was deleted, in seconds since 1970, and 0 for not since the mount; without a
    /// journal only.
    deleted: OnceLock<Box<[AtomicU32]>>,
    /// No clear bit's inode was deleted earlier, in seconds since 1970; 0 if that is not known.
    first_deleted_s: AtomicU32,
}

/// What one CPU counts and remembers.
#[derive(Debug)]
struct Cpu {
    /// Its number plus one, as in `owners`.
    owner: u32,
    /// The number of the cache line that it owns, plus one; 0 before the first, [`NO_LINE_LEFT`] after the last.
    line: AtomicU32,
    /// How many more claims pass the group over, while `line` is [`NO_LINE_LEFT`].
    passes: AtomicU32,
    /// Inodes released less inodes claimed.
    free: AtomicI32,
    /// Directories made less directories removed.
    dirs: AtomicI32,
}

impl Cpu {
    #[inline(always)]
    fn count(&self, free: i32, dirs: i32) {
        self.free.fetch_add(free, Relaxed);
        if dirs != 0 {
            self.dirs.fetch_add(dirs, Relaxed);
        }
    }

    /// Whether it may find a cache line of the bitmap to claim in.
    #[inline(always)]
    fn may_have_line(&self) -> bool {
        self.line.load(Relaxed) != NO_LINE_LEFT || self.passes.load(Relaxed) == 0
    }
}

impl InodeBits {
    /// The bits as read from disk.
    pub fn new(buffer: Arc<Buffer>, bytes: &[u8]) -> InodeBits {
        InodeBits {
            buffer,
            words: Words::of(bytes),
            dirty: AtomicBool::new(false),
            full: AtomicBool::new(false),
            owners: (0..(bytes.len() as u32 * 8).div_ceil(LINE_BITS))
                .map(|_| AtomicU32::new(0))
                .collect(),
            cpus: PerUsedCpu::new(),
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
        self.cpu().count(free, dirs);
    }

    /// Makes another CPU the owner of a cache line of the bitmap.
    #[cfg(test)]
    pub fn give_to_another_cpu(&self, line: u32) {
        self.owners[line as usize].store(u32::MAX, Relaxed);
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

    /// Says that a bit was cleared, which was a directory's or not. The CPU that cleared it searches for a line again, others do
    /// when they have passed the group over often enough: what all of them read would be written by each that clears the first bit.
    #[inline]
    pub fn note_released(&self, is_dir: bool) {
        if self.full.load(SeqCst) {
            self.full.store(false, SeqCst);
        }
        let cpu = self.cpu();
        if cpu.passes.load(Relaxed) != 0 {
            cpu.passes.store(0, Relaxed);
        }
        cpu.count(1, -i32::from(is_dir));
    }

    #[inline(always)]
    fn cpu(&self) -> &Cpu {
        self.cpus.get_or_init(|cpu| Cpu {
            owner: cpu as u32 + 1,
            line: AtomicU32::new(0),
            passes: AtomicU32::new(0),
            free: AtomicI32::new(0),
            dirs: AtomicI32::new(0),
        })
    }

    /// Whether this CPU may find a cache line of the bitmap to claim in, for a claim that goes elsewhere if not.
    #[inline]
    pub fn has_line_for_claim(&self) -> bool {
        let cpu = self.cpu();
        let may = cpu.may_have_line();
        if !may {
            let passes = &cpu.passes;
            passes.store(passes.load(Relaxed).saturating_sub(1), Relaxed);
        }
        may
    }

    fn lines(&self, end: u32) -> &[AtomicU32] {
        let count = self.owners.len().min(end.div_ceil(LINE_BITS) as usize);
        &self.owners[..count]
    }

    /// Sets a clear bit that `may` be set, from `from` on and before `end`, in a cache line that no other CPU owns; `None`
    /// if there is none. Reads one line as a rule, and every owner and each line without one at most.
    pub fn claim_own(
        &self,
        from: u32,
        end: u32,
        may: &impl Fn(u32) -> bool,
        retries: &mut u64,
    ) -> Option<u32> {
        let cpu = self.cpu();
        if !cpu.may_have_line() {
            return None;
        }
        let own = match cpu.line.load(Relaxed) {
            NO_LINE_LEFT => 0,
            own => own,
        };
        if own != 0
            && let Some(index) = self.claim_in_line(own - 1, from, end, may, retries)
        {
            return Some(index);
        }
        let lines = self.lines(end);
        let count = lines.len().max(1) as u32;
        // After its last line; the first of each is apart from that of the CPUs beside it.
        let first = if own != 0 { own } else { cpu.owner - 1 };
        for line in (0..count).map(|i| (first + i) % count) {
            let Some(owner) = lines.get(line as usize) else {
                continue;
            };
            // Its own, where another thread on this CPU took a line at the same time.
            let seen = owner.load(Relaxed);
            if seen != 0 && seen != cpu.owner || self.is_line_full(line, from, end) {
                continue;
            }
            let taken = owner.compare_exchange(seen, cpu.owner, Relaxed, Relaxed);
            if taken.is_ok()
                && let Some(index) = self.claim_in_line(line, from, end, may, retries)
            {
                self.move_to_line(cpu, line + 1);
                return Some(index);
            }
        }
        cpu.passes.store(PASSES, Relaxed);
        self.move_to_line(cpu, NO_LINE_LEFT);
        None
    }

    /// Notes the line that a CPU owns now, and gives up the one before.
    fn move_to_line(&self, cpu: &Cpu, line: u32) {
        let before = cpu.line.swap(line, Relaxed);
        if before != line
            && let Some(left) = before
                .checked_sub(1)
                .and_then(|at| self.owners.get(at as usize))
        {
            let _ = left.compare_exchange(cpu.owner, 0, Relaxed, Relaxed);
        }
    }

    fn claim_in_line(
        &self,
        line: u32,
        from: u32,
        end: u32,
        may: &impl Fn(u32) -> bool,
        retries: &mut u64,
    ) -> Option<u32> {
        let (first, past) = (line * LINE_BITS, (line + 1) * LINE_BITS);
        bitmap::claim_if(&self.words, first.max(from), past.min(end), may, retries)
    }

    fn is_line_full(&self, line: u32, from: u32, end: u32) -> bool {
        let (first, past) = (line * LINE_BITS, (line + 1) * LINE_BITS);
        bitmap::find_clear(&self.words, first.max(from), past.min(end)).is_none()
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

#[cfg(all(test, not(shuttle), not(loom), not(virtual_cpus)))]
mod tests;

#[cfg(all(test, virtual_cpus))]
mod many_cpus {
    use super::*;
    use std::collections::HashMap;
    use uext4_block::MemoryDevice;
    use uext4_sync::virtual_cpus;

    const GROUP_BITS: u32 = 8192;
    const EACH: usize = 700;

    fn group() -> InodeBits {
        let cache = BufferCache::new(Arc::new(MemoryDevice::new(1 << 16)), 4096, 8);
        let buffer = cache.get(0).expect("a block");
        InodeBits::new(buffer, &vec![0; GROUP_BITS as usize / 8])
    }

    /// A CPU that found no line searches again when it freed an inode, or has claimed often enough elsewhere.
    #[test]
    fn virtual_cpus_without_a_line_search_again() {
        virtual_cpus::set_count(17);
        let bits = group();
        let mut retries = 0;
        let mut claim = |cpu: usize| {
            virtual_cpus::move_to(cpu);
            bits.claim_own(0, GROUP_BITS, &|_| true, &mut retries)
        };
        assert!((0..16).all(|cpu| claim(cpu).is_some()));
        assert_eq!(claim(16), None);
        let passed = (0..2 * PASSES).take_while(|_| !bits.has_line_for_claim());
        assert_eq!(passed.count(), PASSES as usize);
        assert_eq!(claim(16), None);
        assert!(!bits.has_line_for_claim());
        bits.note_released(false);
        assert!(bits.has_line_for_claim());
    }

    /// Whatever the number of CPUs: each has lines of its own while there are some, no bit is claimed twice, and in
    /// the end all are.
    #[test]
    fn virtual_cpus_claim_in_lines_of_their_own() {
        for cpus in [
            1, 2, 3, 7, 16, 17, 31, 48, 64, 100, 255, 256, 333, 1000, 1024,
        ] {
            virtual_cpus::set_count(cpus);
            // Two lines for each CPU: the second when the first is full.
            let groups: Vec<InodeBits> = (0..(2 * cpus).div_ceil(16)).map(|_| group()).collect();
            let mut owners: HashMap<(usize, u32), usize> = HashMap::new();
            let mut retries = 0;
            let mut claim = |cpu: usize| {
                virtual_cpus::move_to(cpu);
                groups.iter().enumerate().find_map(|(no, bits)| {
                    let index = bits.claim_own(0, GROUP_BITS, &|_| true, &mut retries)?;
                    Some((no, index))
                })
            };
            for _ in 0..EACH {
                for cpu in 0..cpus {
                    let (no, index) = claim(cpu).expect("there is room");
                    let owner = *owners.entry((no, index / LINE_BITS)).or_insert(cpu);
                    assert_eq!(owner, cpu, "{cpus} CPUs share a line of group {no}");
                }
            }
            let mut claimed = cpus * EACH;
            while cpus <= 64 && claim(claimed % cpus).is_some() {
                claimed += 1;
            }
            let left = groups
                .iter()
                .map(|bits| bitmap::count_clear(&bits.words))
                .sum::<u32>();
            let all = groups.len() * GROUP_BITS as usize;
            assert_eq!(claimed + left as usize, all, "{cpus} CPUs");
            assert_eq!(retries, 0, "{cpus} CPUs, one at a time");
        }
    }
}
