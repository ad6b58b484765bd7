//! Calls that wait until they are complete, are interrupted, or reach their deadline.
//!
//! # Data model
//! A call has the number of its request. It is in this table from before it enters its queue until after it is complete.
//! Its queue ends it ([`uext4::unstable::mqueue::Queue::cancel`]), because only the queue knows whether it is complete.
//!
//! # Invariants
//! A thread that ends a call first notes the end here and then cancels the call in the queue. A thread that makes a call
//! wait first enters it in the queue and then checks here for an end. So one of the two sees the other, and no end is lost.
//! An interruption may arrive before the thread that read the request has entered the call here. It cannot be distinguished
//! from an interruption of a request that is already answered, so it is kept for a while.
//!
//! # Locking
//! One lock, of class `mqueue_calls`, which only waiting calls take. No queue's lock is taken with it held.

use super::open_queues::OpenQueue;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use uext4::unstable::mqueue::Wait;
use uext4::{Errno, Timestamp};
use uext4_fuse::transport::reply::Replier;
use uext4_sync::{Condvar, Mutex, class};

/// How long an interruption of an unknown request is kept.
const EARLY_KEPT: Duration = Duration::from_secs(10);
/// The number of such interruptions from which on old ones are dropped. After that, twice the number that was left.
const EARLY_MANY: usize = 256;
/// A change of the clock is noticed within this time.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What a call waits for.
#[derive(Clone)]
pub enum WaitsFor {
    /// A queue.
    Queue(Arc<OpenQueue>),
    /// The registration with that file handle and number.
    Registration(u64, u64),
}

struct Call {
    what: WaitsFor,
    deadline: Option<Timestamp>,
    /// The error that ends it.
    ended: Option<Errno>,
}

#[derive(Default)]
struct Table {
    calls: HashMap<u64, Call>,
    deadlines: BTreeSet<(Timestamp, u64)>,
    /// Interruptions of unknown requests.
    early: HashMap<u64, Instant>,
    /// The size of `early` from which on old entries are dropped.
    early_many: usize,
    stopped: bool,
}

/// The waiting calls.
pub struct WaitingCalls {
    table: Mutex<Table>,
    /// Signalled when there is an earlier first deadline, and at the end.
    earlier: Condvar,
}

impl Default for WaitingCalls {
    fn default() -> WaitingCalls {
        WaitingCalls {
            table: Mutex::new(&class::MQUEUE_CALLS, Table::default()),
            earlier: Condvar::new(),
        }
    }
}

impl WaitingCalls {
    /// Adds a call that is about to wait.
    ///
    /// # Errors
    /// `EINTR`: its request is already interrupted. `ENOTCONN`: after [`WaitingCalls::stop`].
    pub fn begin(&self, unique: u64, what: WaitsFor, wait: &Wait) -> Result<(), Errno> {
        let mut table = self.table.lock();
        if table.stopped {
            return Err(Errno(libc::ENOTCONN));
        }
        if table.early.remove(&unique).is_some() {
            return Err(Errno::EINTR);
        }
        let call = Call {
            what,
            deadline: wait.deadline,
            ended: None,
        };
        table.calls.insert(unique, call);
        if let Some(deadline) = wait.deadline {
            let first = table.deadlines.first().map(|first| first.0);
            table.deadlines.insert((deadline, unique));
            if first.is_none_or(|first| deadline < first) {
                drop(table);
                self.earlier.notify_one();
            }
        }
        Ok(())
    }

    /// The error that has ended a call since it was added.
    pub fn ended(&self, unique: u64) -> Option<Errno> {
        self.table.lock().calls.get(&unique)?.ended
    }

    /// Removes a call that is complete.
    pub fn end(&self, unique: u64) {
        let mut table = self.table.lock();
        let gone = table.calls.remove(&unique);
        if let Some(deadline) = gone.as_ref().and_then(|call| call.deadline) {
            table.deadlines.remove(&(deadline, unique));
        }
        drop(table);
        drop(gone);
    }

    /// Notes that a request is interrupted, and returns what its call waits for.
    pub fn interrupt(&self, unique: u64) -> Option<WaitsFor> {
        let mut table = self.table.lock();
        if let Some(call) = table.calls.get_mut(&unique) {
            call.ended = Some(Errno::EINTR);
            return Some(call.what.clone());
        }
        let now = Instant::now();
        if table.early.len() >= table.early_many.max(EARLY_MANY) {
            table
                .early
                .retain(|_, since| now.duration_since(*since) < EARLY_KEPT);
            table.early_many = 2 * table.early.len();
        }
        table.early.insert(unique, now);
        None
    }

    /// Calls `end` for each call whose deadline passes, until [`WaitingCalls::stop`].
    pub fn expire(&self, end: impl Fn(u64, WaitsFor)) {
        let mut table = self.table.lock();
        while !table.stopped {
            let Some(&(deadline, unique)) = table.deadlines.first() else {
                self.earlier.wait(&mut table);
                continue;
            };
            let left = deadline.since(Timestamp::now());
            if !left.is_zero() {
                self.earlier.wait_for(&mut table, left.min(SLEEP_MAX));
                continue;
            }
            table.deadlines.remove(&(deadline, unique));
            let Some(call) = table.calls.get_mut(&unique) else {
                continue;
            };
            call.ended = Some(Errno::ETIMEDOUT);
            let what = call.what.clone();
            drop(table);
            end(unique, what);
            table = self.table.lock();
        }
    }

    /// Ends [`WaitingCalls::expire`], and calls `end` for each call that waits.
    pub fn stop(&self, end: impl Fn(u64, WaitsFor)) {
        let mut table = self.table.lock();
        table.stopped = true;
        let waiting: Vec<_> = table
            .calls
            .iter_mut()
            .map(|(unique, call)| {
                call.ended.get_or_insert(Errno(libc::ENOTCONN));
                (*unique, call.what.clone())
            })
            .collect();
        drop(table);
        self.earlier.notify_one();
        for (unique, what) in waiting {
            end(unique, what);
        }
    }
}

/// The reply to a call that waits.
pub struct LaterReply {
    /// The number of its request.
    pub id: u64,
    pub waiting_calls: Arc<WaitingCalls>,
    pub replier: Replier,
}

impl LaterReply {
    /// Removes the call and replies to it.
    pub fn reply(self, answer: Result<&[&[u8]], Errno>) {
        self.waiting_calls.end(self.id);
        self.replier.reply(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn registration(id: u64) -> WaitsFor {
        WaitsFor::Registration(1, id)
    }

    #[test]
    fn an_interruption_may_arrive_first() {
        let calls = WaitingCalls::default();
        assert!(calls.interrupt(7).is_none());
        let begun = calls.begin(7, registration(1), &Wait::default());
        assert_eq!(begun, Err(Errno::EINTR));
        let begun = calls.begin(7, registration(1), &Wait::default());
        assert_eq!((begun, calls.ended(7)), (Ok(()), None));
        assert!(calls.interrupt(7).is_some());
        assert_eq!(calls.ended(7), Some(Errno::EINTR));
        calls.end(7);
        assert_eq!(calls.ended(7), None);
    }

    #[test]
    fn old_interruptions_are_dropped() {
        let calls = WaitingCalls::default();
        // Enough to drop old ones.
        for unique in 0..16 * EARLY_MANY as u64 {
            calls.interrupt(unique);
        }
        let mut table = calls.table.lock();
        let long_ago = Instant::now().checked_sub(2 * EARLY_KEPT);
        let Some(long_ago) = long_ago else { return };
        table.early.values_mut().for_each(|since| *since = long_ago);
        drop(table);
        calls.interrupt(1 << 40);
        assert_eq!(calls.table.lock().early.len(), 1);
    }

    #[test]
    fn calls_end_at_their_deadline() {
        let calls = Arc::new(WaitingCalls::default());
        let (ended, ends) = mpsc::channel();
        let clock = Arc::clone(&calls);
        let thread = std::thread::spawn(move || {
            clock.expire(|unique, _| ended.send(unique).expect("awaited"));
        });
        let past = |sec| Wait::until(Timestamp { sec, nsec: 0 });
        let never = Wait::until(Timestamp {
            sec: i64::MAX,
            nsec: 0,
        });
        for (unique, wait) in [(1, Wait::default()), (2, never), (3, past(5)), (4, past(4))] {
            calls.begin(unique, registration(0), &wait).expect("begins");
        }
        let mut both = [ends.recv().expect("one"), ends.recv().expect("another")];
        both.sort_unstable();
        assert_eq!(both, [3, 4]);
        assert_eq!(calls.ended(3), Some(Errno::ETIMEDOUT));
        assert!(ends.try_recv().is_err(), "the others still wait");
        let stopped = Mutex::new(&class::MQUEUE_CALLS, Vec::new());
        calls.stop(|unique, _| stopped.lock().push(unique));
        thread.join().expect("it ends");
        stopped.lock().sort_unstable();
        assert_eq!(*stopped.lock(), [1, 2, 3, 4]);
        assert_eq!(calls.ended(2), Some(Errno(libc::ENOTCONN)));
        let late = calls.begin(5, registration(0), &Wait::default());
        assert_eq!(late, Err(Errno(libc::ENOTCONN)));
    }
}
