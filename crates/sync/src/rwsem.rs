//! A readers-writer semaphore (a lock without a value) that many readers on many CPUs take without
//! writing one cache line.
//!
//! # Purpose
//! An inode lock is idle most of the time, in millions of inodes, and a few are read by every CPU at
//! once. So an idle lock is 24 bytes, and works as any readers-writer lock does: the readers are counted
//! in its word (*narrow*). Where readers meet, the lock becomes *wide*: readers count themselves in
//! on their own CPU, and only read the word. A writer closes the gate, waits until both counts are
//! zero, and leaves the lock narrow; it becomes wide again once the number of meetings between readers equals the cost of
//! reading all those counters.
//!
//! # Fairness
//! While a writer has the gate, no new reader enters; so readers do not starve a writer that has it.
//! When it is released, the first thread to arrive takes it, since handing it to a sleeping thread costs
//! a switch between threads for each acquisition. But once a thread has waited for `STARVED`, it is
//! handed over: all readers waiting at that moment are in at once, the writer that has waited longest
//! has the gate and waits for them to leave, and later threads wait behind it. So readers and
//! writers alternate under pressure, and no thread waits for more than each writer ahead of it, twice.
//!
//! # Invariants
//! - `WRITER` (the gate) has one owner: a writer that is in, or one that waits for readers to leave.
//! - A reader is counted once: in the word, or in the counter of the CPU it came in on. In a counter
//!   it is in only if, after counting itself, it saw the word wide and the gate open; else it
//!   takes itself out again. So from the moment the gate is closed, counters only fall but for those
//!   that enter and leave again, and a counter that was seen at zero counts no holder.
//! - `WIDE` is set only by a reader that is counted in the word, with the gate open, and cleared only by
//!   the owner of the gate when no reader is in.
//! - A thread that is in exclusively sees `WRITER` alone in the word, with `WAITING` or not.
//!
//! # Locking
//! The queue inside has the class `lock_queue`, below all others: it is taken for a moment by threads that
//! have to wait and by threads that wake them. All atomics are sequentially consistent, as a reader
//! counts itself and then reads the gate, while a writer closes the gate and then reads the counts.

mod guard;
mod queue;
mod wait;

use crate::class::{self, LockClass};
use crate::imp::lock_atomic::{AtomicU32, Ordering::SeqCst};
use crate::order;
use crate::stat::{self, Mode};
use guard::Hold;
pub use guard::RwSemGuard;
use queue::{Busy, Counters};
use std::marker::PhantomData;
use std::sync::OnceLock;
use wait::{Spin, Waiting};

/// The gate is closed to readers and to other writers.
const WRITER: u32 = 1;
/// Readers may count themselves in on their CPU.
const WIDE: u32 = 1 << 1;
/// A sleeper must be woken when the gate is released.
const WAITING: u32 = 1 << 2;
/// One meeting of readers since the last writer.
const MET: u32 = 1 << 3;
/// Their number.
const MET_MASK: u32 = 0xff * MET;
/// One reader counted here.
const READER: u32 = 1 << 11;

/// A readers-writer lock without a value, with a rank and statistics; see the module.
#[derive(Debug)]
pub struct RwSem {
    word: AtomicU32,
    class: u8,
    /// Made when a thread first waits, or readers first meet.
    busy: OnceLock<Box<Busy>>,
}

impl RwSem {
    /// An unlocked lock of `class`.
    pub const fn new(class: &'static LockClass) -> RwSem {
        RwSem {
            word: AtomicU32::new(0),
            class: class.id,
            busy: OnceLock::new(),
        }
    }

    /// The class it was made with.
    #[inline(always)]
    pub fn class(&self) -> &'static LockClass {
        class::by_id(self.class)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Takes the lock shared, waiting for it, as one of several of its rank; `key` must be larger
    /// than theirs.
    ///
    /// # Locks
    /// Panics in debug builds when the lock order forbids it here.
    #[inline]
    pub fn shared(&self, key: u64) -> RwSemGuard<'_> {
        order::before_wait(self.class(), key);
        if stat::is_enabled() {
            let (hold, since_ns) =
                self.counted(Self::try_enter_shared, Self::enter_shared, Mode::Shared);
            return self.guard(hold, key, since_ns);
        }
        self.guard(self.enter_shared(), key, 0)
    }

    /// Takes the lock alone, waiting for it, as one of several of its rank; `key` must be larger
    /// than theirs.
    ///
    /// # Locks
    /// Panics in debug builds when the lock order forbids it here.
    #[inline]
    pub fn exclusive(&self, key: u64) -> RwSemGuard<'_> {
        order::before_wait(self.class(), key);
        if stat::is_enabled() {
            let (hold, since_ns) = self.counted(
                Self::try_enter_exclusive,
                Self::enter_exclusive,
                Mode::Exclusive,
            );
            return self.guard(hold, key, since_ns);
        }
        self.guard(self.enter_exclusive(), key, 0)
    }

    /// Takes the lock shared if that needs no waiting.
    ///
    /// # Locks
    /// May be called in any order; while the guard is held, no other lock of its rank may be waited for.
    #[inline]
    pub fn try_shared(&self) -> Option<RwSemGuard<'_>> {
        let hold = self.try_enter_shared()?;
        Some(self.guard(hold, u64::MAX, self.tried(hold)))
    }

    /// Takes the lock alone if that needs no waiting.
    ///
    /// # Locks
    /// May be called in any order; while the guard is held, no other lock of its rank may be waited for.
    #[inline]
    pub fn try_exclusive(&self) -> Option<RwSemGuard<'_>> {
        let hold = self.try_enter_exclusive()?;
        Some(self.guard(hold, u64::MAX, self.tried(hold)))
    }

    #[inline(always)]
    fn guard<'a>(&'a self, hold: Hold<'a>, key: u64, since_ns: u64) -> RwSemGuard<'a> {
        order::acquired(self.class(), key, self.address());
        RwSemGuard {
            lock: self,
            hold,
            since_ns,
            _not_send: PhantomData,
        }
    }

    #[inline(always)]
    fn tried(&self, hold: Hold<'_>) -> u64 {
        if !stat::is_enabled() {
            return 0;
        }
        self.class().stats.acquired(hold.mode(), false, 0);
        stat::now_ns()
    }

    #[cold]
    fn counted<'a>(
        &'a self,
        fast: fn(&'a RwSem) -> Option<Hold<'a>>,
        slow: fn(&'a RwSem) -> Hold<'a>,
        mode: Mode,
    ) -> (Hold<'a>, u64) {
        let stats = &self.class().stats;
        if let Some(hold) = fast(self) {
            stats.acquired(mode, false, 0);
            return (hold, stat::now_ns());
        }
        let start = stat::now_ns();
        let hold = slow(self);
        let now = stat::now_ns();
        stats.acquired(mode, true, now - start);
        (hold, now)
    }

    /// What waiting and wide locks need, made now if it is not there.
    fn busy(&self) -> &Busy {
        self.busy.get_or_init(|| Box::new(Busy::new()))
    }

    fn counters(&self) -> Option<&Counters> {
        self.busy.get()?.counters()
    }

    /// Changes the word by `enter` if the gate is open; else, with the queue held, says that the caller
    /// is going to sleep.
    fn enter_or_wait(&self, enter: impl Fn(u32) -> u32) -> bool {
        let step = |word| match word & WRITER {
            0 => enter(word),
            _ => word | WAITING,
        };
        let before = self.word.fetch_update(SeqCst, SeqCst, |w| Some(step(w)));
        before.is_ok_and(|word| word & WRITER == 0)
    }
}

/// Readers.
impl RwSem {
    #[inline(always)]
    fn enter_shared(&self) -> Hold<'_> {
        let word = self.word.load(SeqCst);
        if word & (WRITER | WIDE) == 0 && word < READER && self.replace(word, word + READER) {
            return Hold::Narrow;
        }
        if word & (WRITER | WIDE) == WIDE
            && let Some(hold) = self.try_enter_wide()
        {
            return hold;
        }
        self.enter_shared_met()
    }

    #[inline(always)]
    fn replace(&self, from: u32, to: u32) -> bool {
        self.word.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }

    #[inline(never)]
    fn enter_shared_met(&self) -> Hold<'_> {
        let mut spin = Spin::new();
        loop {
            if let Some(hold) = self.try_enter_shared() {
                return hold;
            }
            if self.word.load(SeqCst) & WAITING != 0 || !spin.again() {
                return self.queue_reader();
            }
        }
    }

    /// Enters if the gate is open.
    fn try_enter_shared(&self) -> Option<Hold<'_>> {
        let mut met = false;
        loop {
            let word = self.word.load(SeqCst);
            if word & WRITER != 0 {
                return None;
            }
            if word & WIDE != 0 {
                if let Some(hold) = self.try_enter_wide() {
                    return Some(hold);
                }
                continue;
            }
            met |= word >= READER;
            let widens = met && word & MET_MASK >= met_max();
            let counted = if met && !widens { MET } else { 0 };
            if self.replace(word, word + READER + counted) {
                if widens {
                    self.widen();
                }
                return Some(Hold::Narrow);
            }
            met = true;
        }
    }

    /// Counts the caller in on its CPU; takes it out again if it came too late.
    #[inline(always)]
    fn try_enter_wide(&self) -> Option<Hold<'_>> {
        let counters = self.counters()?;
        let counter = counters.get();
        counter.fetch_add(1, SeqCst);
        if self.word.load(SeqCst) & (WRITER | WIDE) == WIDE {
            return Some(Hold::Wide(counter));
        }
        self.leave_wide(counter);
        None
    }

    /// Lets readers count themselves in on their CPUs; the caller is counted in the word.
    #[cold]
    fn widen(&self) {
        if self.busy().counters_or_make().is_none() {
            return;
        }
        let open = |word| (word & WRITER == 0).then_some(word | WIDE);
        // If a writer has closed the gate, it stays as it is.
        let _ = self.word.fetch_update(SeqCst, SeqCst, open);
    }

    #[cold]
    fn queue_reader(&self) -> Hold<'_> {
        let busy = self.busy();
        let waiting = Waiting::now();
        let mut queue = busy.queue.lock();
        queue.readers += 1;
        loop {
            if self.enter_or_wait(|word| word + READER) {
                queue.readers -= 1;
                return Hold::Narrow;
            }
            queue.starved |= waiting.for_too_long();
            queue.readers_awake = false;
            let batch = queue.batch;
            busy.readers.wait(&mut queue);
            if queue.batch != batch {
                return Hold::Narrow;
            }
        }
    }

    #[inline(always)]
    fn leave_narrow(&self) {
        let before = self.word.fetch_sub(READER, SeqCst);
        if before & WRITER != 0 && before < 2 * READER {
            self.wake_drained();
        }
    }

    #[inline(always)]
    fn leave_wide(&self, counter: &AtomicU32) {
        let before = counter.fetch_sub(1, SeqCst);
        if before == 1 && self.word.load(SeqCst) & WRITER != 0 {
            self.wake_drained();
        }
    }

    /// Wakes a writer that waits for readers to leave.
    #[cold]
    fn wake_drained(&self) {
        let busy = self.busy();
        let queue = busy.queue.lock();
        if queue.draining {
            busy.drained.notify_all();
        }
    }
}

/// Writers.
impl RwSem {
    #[inline(always)]
    fn enter_exclusive(&self) -> Hold<'_> {
        if !self.replace(0, WRITER) {
            self.enter_exclusive_met();
        }
        Hold::Exclusive
    }

    #[inline(never)]
    fn enter_exclusive_met(&self) {
        let mut spin = Spin::new();
        while !self.try_close_gate() {
            if self.word.load(SeqCst) & WAITING != 0 || !spin.again() {
                self.queue_writer();
                break;
            }
        }
        self.drain();
    }

    #[inline]
    fn try_enter_exclusive(&self) -> Option<Hold<'_>> {
        if self.replace(0, WRITER) {
            return Some(Hold::Exclusive);
        }
        if !self.is_drained() || !self.try_close_gate() {
            return None;
        }
        if !self.is_drained() {
            // Readers came in the meantime, and some may have queued since.
            self.leave_exclusive(0);
            return None;
        }
        self.word.fetch_and(!WIDE, SeqCst);
        Some(Hold::Exclusive)
    }

    fn try_close_gate(&self) -> bool {
        let close = |word| (word & WRITER == 0).then_some(closed(word));
        self.word.fetch_update(SeqCst, SeqCst, close).is_ok()
    }

    /// Waits until the gate is the caller's.
    #[cold]
    fn queue_writer(&self) {
        let busy = self.busy();
        let waiting = Waiting::now();
        let mut queue = busy.queue.lock();
        let ticket = queue.next_writer;
        queue.next_writer += 1;
        loop {
            if queue.first_writer == ticket {
                queue.writer_awake = false;
                // The writers behind it sleep on, until it gives the gate back.
                let waiting = if queue.next_writer > ticket + 1 {
                    WAITING
                } else {
                    0
                };
                if self.enter_or_wait(|word| closed(word) | waiting) {
                    queue.first_writer += 1;
                    return;
                }
            }
            queue.starved |= waiting.for_too_long();
            busy.writer(ticket).wait(&mut queue);
            if queue.first_writer > ticket {
                return;
            }
        }
    }

    /// Whether no reader is counted in. That stays so for the owner of the gate.
    fn is_drained(&self) -> bool {
        let word = self.word.load(SeqCst);
        if word >= READER {
            return false;
        }
        word & WIDE == 0
            || self
                .counters()
                .is_none_or(|counters| counters.iter().all(|c| c.load(SeqCst) == 0))
    }

    /// Waits until no reader is in; the caller has the gate.
    fn drain(&self) {
        let mut spin = Spin::new();
        while !self.is_drained() {
            if !spin.again() {
                self.sleep_until_drained();
                break;
            }
        }
        if self.word.load(SeqCst) & WIDE != 0 {
            self.word.fetch_and(!WIDE, SeqCst);
        }
    }

    #[cold]
    fn sleep_until_drained(&self) {
        let busy = self.busy();
        let mut queue = busy.queue.lock();
        queue.draining = true;
        while !self.is_drained() {
            busy.drained.wait(&mut queue);
        }
        queue.draining = false;
    }

    /// Releases the gate; `keep` is `READER` for a caller that stays in.
    #[inline(always)]
    fn leave_exclusive(&self, keep: u32) {
        if !self.replace(WRITER, keep) {
            self.leave_exclusive_met(keep);
        }
    }

    #[inline(never)]
    fn leave_exclusive_met(&self, keep: u32) {
        let busy = self.busy();
        let mut queue = busy.queue.lock();
        let mut enter = keep;
        let mut bits = 0;
        if queue.starved {
            let handed = busy.hand_over(&mut queue);
            enter += handed.readers * READER;
            if handed.writer {
                bits = if queue.has_writer() {
                    WRITER | WAITING
                } else {
                    WRITER
                };
            }
        } else {
            busy.wake(&mut queue);
        }
        let step = |word: u32| Some(((word & !(WRITER | WAITING)) | bits) + enter);
        // Readers that came before the gate closed may be leaving, if the caller only tried.
        let _ = self.word.fetch_update(SeqCst, SeqCst, step);
    }
}

/// The word once its gate is closed.
fn closed(word: u32) -> u32 {
    (word | WRITER) & !MET_MASK
}

/// As many meetings make a lock wide, in the word's unit: a writer reads all counters, so readers
/// should have gained as much.
#[cfg(not(shuttle))]
#[inline]
fn met_max() -> u32 {
    (crate::percpu::cpu_shards() as u32 * 2).clamp(8, 0xff) * MET
}

#[cfg(shuttle)]
fn met_max() -> u32 {
    0
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::queue::Queue;
    use super::*;

    fn lock() -> RwSem {
        RwSem::new(&class::ILOCK)
    }

    fn is_wide(lock: &RwSem) -> bool {
        lock.word.load(SeqCst) & WIDE != 0
    }

    /// Readers meet until the lock is wide.
    fn make_wide(lock: &RwSem) {
        drop(lock.exclusive(0));
        let _first = lock.try_shared();
        for _ in 0..=met_max() / MET {
            assert!(!is_wide(lock));
            assert!(matches!(lock.try_shared().unwrap().hold, Hold::Narrow));
        }
        assert!(is_wide(lock));
    }

    #[test]
    fn an_idle_lock_is_small() {
        assert_eq!(size_of::<RwSem>(), 24);
        let lock = lock();
        drop(lock.shared(0));
        drop(lock.exclusive(0));
        drop(lock.exclusive(0).downgrade());
        assert!(lock.busy.get().is_none(), "made for nothing");
        assert_eq!(lock.word.load(SeqCst), 0);
    }

    #[test]
    fn shared_and_exclusive_exclude_each_other() {
        let lock = lock();
        for wide in [false, true] {
            if wide {
                make_wide(&lock);
            }
            let reader = lock.shared(0);
            assert_eq!(matches!(reader.hold, Hold::Wide(_)), wide);
            assert!(lock.try_shared().is_some());
            assert!(lock.try_exclusive().is_none());
            drop(reader);
            let writer = lock.try_exclusive().expect("free");
            assert_eq!(writer.mode(), Mode::Exclusive);
            assert!(lock.try_shared().is_none());
            assert!(lock.try_exclusive().is_none());
            let reader = writer.downgrade();
            assert_eq!(reader.mode(), Mode::Shared);
            assert!(lock.try_shared().is_some());
            assert!(lock.try_exclusive().is_none());
            assert_eq!(reader.downgrade().mode(), Mode::Shared);
            assert_eq!(lock.word.load(SeqCst) & !MET_MASK, 0);
        }
    }

    #[test]
    fn a_reader_counted_in_the_word_outlives_widening() {
        let lock = lock();
        let first = lock.shared(0);
        while !is_wide(&lock) {
            drop(lock.try_shared());
        }
        assert!(matches!(first.hold, Hold::Narrow));
        drop(first);
        assert!(is_wide(&lock));
        drop(lock.exclusive(0));
        assert_eq!(lock.word.load(SeqCst), 0);
    }

    #[test]
    fn one_reader_after_the_other_leaves_it_narrow() {
        let lock = lock();
        for _ in 0..1000 {
            drop(lock.shared(0));
        }
        assert!(!is_wide(&lock));
    }

    #[test]
    fn meetings_count_from_the_last_writer() {
        let lock = lock();
        for _ in 0..100 {
            let first = lock.shared(0);
            drop(lock.try_shared());
            drop(lock.try_shared());
            drop(first);
            drop(lock.exclusive(0));
        }
        assert!(!is_wide(&lock));
    }

    #[test]
    fn the_starved_are_handed_the_lock() {
        let lock = lock();
        let writer = lock.exclusive(0);
        std::thread::scope(|s| {
            s.spawn(|| drop(lock.shared(0)));
            s.spawn(|| drop(lock.exclusive(0)));
            let wanted = |q: &Queue| q.readers == 1 && q.next_writer == 1;
            while !wanted(&lock.busy().queue.lock()) {
                std::thread::yield_now();
            }
            lock.busy().queue.lock().starved = true;
            drop(writer);
        });
        let queue = lock.busy().queue.lock();
        assert_eq!((queue.batch, queue.first_writer), (1, 1));
        assert!(queue.readers == 0 && !queue.starved);
        assert_eq!(lock.word.load(SeqCst), 0);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock order: taking ilock")]
    fn keys_descend_and_panic() {
        let (a, b) = (lock(), lock());
        let _a = a.shared(2);
        let _b = b.exclusive(1);
    }

    #[test]
    fn is_released_under_a_leaf() {
        let (lock, leaf) = (lock(), crate::Mutex::new(&class::TEST_LEAF, ()));
        make_wide(&lock);
        let (reader, _leaf) = (lock.shared(0), leaf.lock());
        drop(reader);
        assert!(lock.try_exclusive().is_some());
    }
}
