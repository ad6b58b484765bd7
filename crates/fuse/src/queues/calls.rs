//! Calls that wait: until they are complete, somebody is killed or interrupted, or their time has come.
//!
//! # Data model
//! A call is known by its request's number from before it enters its queue until after it is complete. It is ended by
//! its queue ([`uext4::mqueue::Queue::cancel`]), which knows whether it is complete by then.
//!
//! # Invariants
//! Who ends a call notes that here first, and then asks the queue; who lets a call wait looks here once it is in the
//! queue. So one of the two finds the other, and no end is lost. The kernel may tell that a request is interrupted
//! before the thread that read the request has come here: that is remembered for a while, as it can't be told
//! from one for a request that is answered already.
//!
//! # Locking
//! One lock, of class `mqueue_calls`, which only calls that wait take. No queue's lock is taken with it held.

use super::handles::Opened;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use uext4::mqueue::Wait;
use uext4::{Errno, Timestamp};
use uext4_sync::{Condvar, Mutex, class};

/// How long an interruption is kept whose request is not known.
const EARLY_KEPT: Duration = Duration::from_secs(10);
/// How many are kept before old ones are looked for; then twice as many as are still kept.
const EARLY_MANY: usize = 256;
/// A clock that is set is noticed within this time.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What a call waits for.
#[derive(Clone)]
pub enum WaitsFor {
    /// A queue.
    Queue(Arc<Opened>),
    /// The registration of that description with that number.
    Registration(u64, u64),
}

struct Call {
    what: WaitsFor,
    deadline: Option<Timestamp>,
    /// Why it is to end.
    ended: Option<Errno>,
}

#[derive(Default)]
struct State {
    calls: HashMap<u64, Call>,
    deadlines: BTreeSet<(Timestamp, u64)>,
    early: HashMap<u64, Instant>,
    /// How many of those there are when old ones are looked for again.
    early_many: usize,
    stopped: bool,
}

/// The calls that wait.
pub struct Calls {
    state: Mutex<State>,
    /// There is an earlier deadline, or no more will come.
    earlier: Condvar,
}

impl Default for Calls {
    fn default() -> Calls {
        Calls {
            state: Mutex::new(&class::MQUEUE_CALLS, State::default()),
            earlier: Condvar::new(),
        }
    }
}

impl Calls {
    /// A call is about to wait.
    ///
    /// # Errors
    /// `EINTR`: it was interrupted before.
    pub fn begin(&self, unique: u64, what: WaitsFor, wait: &Wait) -> Result<(), Errno> {
        let mut state = self.state.lock();
        if state.early.remove(&unique).is_some() {
            return Err(Errno::EINTR);
        }
        let call = Call {
            what,
            deadline: wait.deadline,
            ended: None,
        };
        state.calls.insert(unique, call);
        if let Some(deadline) = wait.deadline {
            let first = state.deadlines.first().map(|first| first.0);
            state.deadlines.insert((deadline, unique));
            if first.is_none_or(|first| deadline < first) {
                drop(state);
                self.earlier.notify_one();
            }
        }
        Ok(())
    }

    /// Why a call that waits now was to end meanwhile.
    pub fn ended(&self, unique: u64) -> Option<Errno> {
        self.state.lock().calls.get(&unique)?.ended
    }

    /// A call is complete.
    pub fn end(&self, unique: u64) {
        let mut state = self.state.lock();
        let gone = state.calls.remove(&unique);
        if let Some(deadline) = gone.as_ref().and_then(|call| call.deadline) {
            state.deadlines.remove(&(deadline, unique));
        }
        drop(state);
        drop(gone);
    }

    /// Notes that a request is interrupted, and gives what its call waits for.
    pub fn interrupt(&self, unique: u64) -> Option<WaitsFor> {
        let mut state = self.state.lock();
        if let Some(call) = state.calls.get_mut(&unique) {
            call.ended = Some(Errno::EINTR);
            return Some(call.what.clone());
        }
        let now = Instant::now();
        if state.early.len() >= state.early_many.max(EARLY_MANY) {
            state
                .early
                .retain(|_, since| now.duration_since(*since) < EARLY_KEPT);
            state.early_many = 2 * state.early.len();
        }
        state.early.insert(unique, now);
        None
    }

    /// Ends calls by `end` when their time has come, until [`Calls::stop`].
    pub fn watch_the_clock(&self, end: impl Fn(u64, WaitsFor)) {
        let mut state = self.state.lock();
        while !state.stopped {
            let Some(&(deadline, unique)) = state.deadlines.first() else {
                self.earlier.wait(&mut state);
                continue;
            };
            let left = deadline.since(Timestamp::now());
            if !left.is_zero() {
                self.earlier.wait_for(&mut state, left.min(SLEEP_MAX));
                continue;
            }
            state.deadlines.remove(&(deadline, unique));
            let Some(call) = state.calls.get_mut(&unique) else {
                continue;
            };
            call.ended = Some(Errno::ETIMEDOUT);
            let what = call.what.clone();
            drop(state);
            end(unique, what);
            state = self.state.lock();
        }
    }

    /// No more calls come.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.earlier.notify_one();
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
    fn an_interruption_may_come_first() {
        let calls = Calls::default();
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
    fn old_interruptions_are_forgotten_one_day() {
        let calls = Calls::default();
        // As many as make it look for old ones.
        for unique in 0..16 * EARLY_MANY as u64 {
            calls.interrupt(unique);
        }
        let mut state = calls.state.lock();
        let long_ago = Instant::now().checked_sub(2 * EARLY_KEPT);
        let Some(long_ago) = long_ago else { return };
        state.early.values_mut().for_each(|since| *since = long_ago);
        drop(state);
        calls.interrupt(1 << 40);
        assert_eq!(calls.state.lock().early.len(), 1);
    }

    #[test]
    fn calls_end_when_their_time_has_come() {
        let calls = Arc::new(Calls::default());
        let (ended, ends) = mpsc::channel();
        let clock = Arc::clone(&calls);
        let thread = std::thread::spawn(move || {
            clock.watch_the_clock(|unique, _| ended.send(unique).expect("awaited"));
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
        calls.stop();
        thread.join().expect("it ends");
        assert!(ends.try_recv().is_err(), "the others still wait");
    }
}
