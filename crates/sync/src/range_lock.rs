//! Exclusive locks on ranges of one inode.
//!
//! # Purpose
//! Writers of ranges that do not overlap run together. Requests are served in the order in which they
//! came: a request waits for every overlapping one ahead of it, whether that is held or waits itself.
//! So a wide range is not starved by narrow ones, and there is no cycle: each request waits only for
//! earlier ones.
//!
//! # Invariants
//! Requests are kept in the order of their tickets. `blockers` of each is the number of earlier
//! requests that overlap it; those with none hold their range.
//!
//! # Locking
//! A range has the class `range`, of the rank of `ilock`. It is taken while the same inode's `ilock` is
//! held shared, so its key is larger than that one's, and smaller than those of inodes after it.
//! The list inside has the class `lock_queue`, and is held for a moment.

use crate::class::{self, LockClass};
use crate::order;
use crate::stat::{self, Mode};
use crate::{Condvar, Mutex};
use std::marker::PhantomData;
use std::ops::Range;

/// Sleepers wait in classes by their ticket modulo this, so that few wake in vain.
const WAKES: usize = 8;

const CLASS: &LockClass = &class::RANGE;

/// Locks ranges of one inode; see the module.
#[derive(Debug)]
pub struct RangeLock {
    requests: Mutex<Requests>,
    granted: [Condvar; WAKES],
}

/// Holds a range of a [`RangeLock`] until dropped, by the thread that took it.
#[derive(Debug)]
#[must_use]
pub struct RangeGuard<'a> {
    lock: &'a RangeLock,
    ticket: u64,
    /// When it was taken; 0 when statistics were off then.
    since_ns: u64,
    /// The debug lock order is kept by thread.
    _not_send: PhantomData<*const ()>,
}

/// The ranges held and waited for.
#[derive(Debug)]
struct Requests {
    next_ticket: u64,
    /// In the order of tickets. Its memory is kept for the next.
    list: Vec<Request>,
}

#[derive(Debug)]
struct Request {
    ticket: u64,
    start: u64,
    end: u64,
    blockers: usize,
}

impl Request {
    /// An empty range overlaps nothing.
    fn overlaps(&self, other: &Request) -> bool {
        self.start.max(other.start) < self.end.min(other.end)
    }
}

impl Requests {
    /// Appends a request; it holds its range if it has no blockers.
    fn push(&mut self, range: &Range<u64>) -> &Request {
        let mut new = Request {
            ticket: self.next_ticket,
            start: range.start,
            end: range.end,
            blockers: 0,
        };
        self.next_ticket += 1;
        new.blockers = self.list.iter().filter(|r| r.overlaps(&new)).count();
        let at = self.list.len();
        self.list.push(new);
        &self.list[at]
    }

    fn find(&self, ticket: u64) -> usize {
        self.list.partition_point(|r| r.ticket < ticket)
    }

    fn is_granted(&self, ticket: u64) -> bool {
        self.list[self.find(ticket)].blockers == 0
    }

    /// Removes a request, and calls `grant` with the ticket of each that has no blockers any more.
    fn remove(&mut self, ticket: u64, mut grant: impl FnMut(u64)) {
        let at = self.find(ticket);
        let gone = self.list.remove(at);
        for later in &mut self.list[at..] {
            if later.overlaps(&gone) {
                later.blockers -= 1;
                if later.blockers == 0 {
                    grant(later.ticket);
                }
            }
        }
    }
}

impl RangeLock {
    /// With nothing locked; allocates nothing.
    pub const fn new() -> RangeLock {
        RangeLock {
            requests: Mutex::new(
                &class::LOCK_QUEUE,
                Requests {
                    next_ticket: 0,
                    list: Vec::new(),
                },
            ),
            granted: [const { Condvar::new() }; WAKES],
        }
    }

    fn granted(&self, ticket: u64) -> &Condvar {
        &self.granted[ticket as usize % WAKES]
    }

    /// Takes `range` alone, waiting for every overlapping one that was asked for before; `key` must
    /// be larger than those of its rank that the thread holds.
    ///
    /// # Locks
    /// Takes `range`. Panics in debug builds when the lock order forbids it here.
    pub fn lock(&self, range: Range<u64>, key: u64) -> RangeGuard<'_> {
        order::before_wait(CLASS, key);
        let counts = stat::is_enabled();
        let mut requests = self.requests.lock();
        let request = requests.push(&range);
        let (ticket, waits) = (request.ticket, request.blockers > 0);
        let start_ns = if counts && waits { stat::now_ns() } else { 0 };
        while waits && !requests.is_granted(ticket) {
            self.granted(ticket).wait(&mut requests);
        }
        drop(requests);
        let mut since_ns = 0;
        if counts {
            since_ns = stat::now_ns();
            let wait_ns = if waits { since_ns - start_ns } else { 0 };
            CLASS.stats.acquired(Mode::Exclusive, waits, wait_ns);
        }
        self.guard(ticket, key, since_ns)
    }

    /// Takes `range` alone, if no overlapping one is held or awaited.
    ///
    /// # Locks
    /// May be called in any order; while the guard is held, no other lock of its rank may be waited for.
    pub fn try_lock(&self, range: Range<u64>) -> Option<RangeGuard<'_>> {
        let mut requests = self.requests.lock();
        let request = requests.push(&range);
        let (ticket, waits) = (request.ticket, request.blockers > 0);
        if waits {
            requests.list.pop();
            return None;
        }
        drop(requests);
        let mut since_ns = 0;
        if stat::is_enabled() {
            since_ns = stat::now_ns();
            CLASS.stats.acquired(Mode::Exclusive, false, 0);
        }
        Some(self.guard(ticket, u64::MAX, since_ns))
    }

    fn guard(&self, ticket: u64, key: u64, since_ns: u64) -> RangeGuard<'_> {
        order::acquired(CLASS, key, std::ptr::from_ref(self).addr());
        RangeGuard {
            lock: self,
            ticket,
            since_ns,
            _not_send: PhantomData,
        }
    }
}

impl Default for RangeLock {
    fn default() -> RangeLock {
        RangeLock::new()
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        let lock = self.lock;
        if self.since_ns != 0 {
            let held_ns = stat::now_ns() - self.since_ns;
            CLASS.stats.released(Mode::Exclusive, held_ns);
        }
        order::released(CLASS, std::ptr::from_ref(lock).addr());
        let mut requests = lock.requests.lock();
        requests.remove(self.ticket, |ticket| lock.granted(ticket).notify_all());
    }
}

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests {
    use super::*;

    fn requests(lock: &RangeLock) -> usize {
        lock.requests.lock().list.len()
    }

    #[test]
    fn only_what_overlaps_excludes() {
        let lock = RangeLock::default();
        let held = lock.lock(10..20, 0);
        assert!(lock.try_lock(0..10).is_some());
        assert!(lock.try_lock(20..u64::MAX).is_some());
        assert!(lock.try_lock(15..15).is_some());
        for overlap in [0..11, 19..30, 12..13, 0..u64::MAX] {
            assert!(lock.try_lock(overlap).is_none());
        }
        drop(held);
        assert!(lock.try_lock(0..u64::MAX).is_some());
        assert_eq!(requests(&lock), 0);
    }

    #[test]
    fn the_list_keeps_its_memory() {
        let lock = RangeLock::new();
        assert_eq!(lock.requests.lock().list.capacity(), 0);
        drop(lock.lock(0..1, 0));
        let before = lock.requests.lock().list.as_ptr();
        for i in 0..100 {
            drop(lock.lock(i..i + 1, 0));
        }
        assert_eq!(lock.requests.lock().list.as_ptr(), before);
    }

    /// Everything waits for a wide range that waits, in the order of coming.
    #[test]
    fn first_come_first_served() {
        let lock = RangeLock::new();
        let order = std::sync::Mutex::new(Vec::new());
        let held = lock.try_lock(0..4).expect("free");
        std::thread::scope(|s| {
            for (at, range) in [0..8, 4..6, 6..8, 5..7].into_iter().enumerate() {
                let (lock, order) = (&lock, &order);
                s.spawn(move || {
                    let _range = lock.lock(range, 0);
                    order.lock().unwrap().push(at);
                });
                while requests(lock) != at + 2 {
                    std::thread::yield_now();
                }
            }
            drop(held);
        });
        let order = order.into_inner().unwrap();
        assert!(order == [0, 1, 2, 3] || order == [0, 2, 1, 3], "{order:?}");
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "lock order: taking range")]
    fn a_second_range_of_one_inode_panics() {
        let lock = RangeLock::new();
        let _a = lock.lock(0..1, 25);
        let _b = lock.lock(1..2, 25);
    }
}
