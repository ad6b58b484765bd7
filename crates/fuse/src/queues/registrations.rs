//! Registrations that a thread of their process waits for (`SIGEV_THREAD`).
//!
//! # Invariants
//! What became of a registration is kept until somebody has waited for it, or its description is closed; of a description's
//! that nobody waits for, a bounded number.
//!
//! # Locking
//! One lock, of class `open_files`. Replies are given once it is free.

use crate::abi::output;
use crate::transport::reply::Replier;
use std::collections::BTreeMap;
use std::sync::Arc;
use uext4::Errno;
use uext4_sync::{Mutex, class};
use zerocopy::IntoBytes;

/// What became of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is not there any more.
    Gone = 0,
    /// It was delivered.
    Delivered = 1,
}

/// The most registrations of a description whose outcome nobody has waited for.
const SETTLED_MAX: usize = 64;

struct Registration {
    outcome: Option<Outcome>,
    /// Who waits, by the number of the request.
    waiter: Option<(u64, Replier)>,
}

#[derive(Default)]
struct State {
    /// By description and number.
    registrations: BTreeMap<(u64, u64), Registration>,
    last: u64,
}

/// Registrations that can be waited for.
pub struct Registrations {
    state: Mutex<State>,
}

impl Default for Registrations {
    fn default() -> Registrations {
        Registrations {
            state: Mutex::new(&class::OPEN_FILES, State::default()),
        }
    }
}

/// Says that a registration is gone when it is dropped, unless it was delivered.
pub struct Guard {
    all: Arc<Registrations>,
    fh: u64,
    id: u64,
}

impl Guard {
    /// The number of the registration.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// It is delivered.
    pub fn deliver(self) {
        self.all.settle((self.fh, self.id), Outcome::Delivered);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.all.settle((self.fh, self.id), Outcome::Gone);
    }
}

impl Registrations {
    /// One that is made with description `fh`.
    pub fn make(self: &Arc<Registrations>, fh: u64) -> Guard {
        let mut state = self.state.lock();
        state.last += 1;
        let id = state.last;
        let registration = Registration {
            outcome: None,
            waiter: None,
        };
        let of = state.registrations.range((fh, 0)..=(fh, u64::MAX));
        let settled: Vec<_> = of
            .filter(|(_, r)| r.outcome.is_some())
            .map(|(key, _)| *key)
            .collect();
        if let Some(oldest) = settled.first().filter(|_| settled.len() >= SETTLED_MAX) {
            state.registrations.remove(oldest);
        }
        state.registrations.insert((fh, id), registration);
        Guard {
            all: Arc::clone(self),
            fh,
            id,
        }
    }

    /// Notes the first outcome, and tells who waits for it.
    fn settle(&self, key: (u64, u64), outcome: Outcome) {
        let mut state = self.state.lock();
        let Some(registration) = state.registrations.get_mut(&key) else {
            return;
        };
        if registration.outcome.is_some() {
            return;
        }
        registration.outcome = Some(outcome);
        let Some((_, replier)) = registration.waiter.take() else {
            return;
        };
        state.registrations.remove(&key);
        drop(state);
        let reply = output::Ioctl {
            result: outcome as i32,
            ..output::Ioctl::default()
        };
        replier.reply(Ok(&[reply.as_bytes()]));
    }

    /// What became of a registration, or, if that is open, lets `replier` tell it one day.
    ///
    /// # Errors
    /// `EINVAL`: it is none of this description, or somebody waits for it.
    pub fn wait(&self, key: (u64, u64), waiter: (u64, Replier)) -> Result<Option<Outcome>, Errno> {
        let mut state = self.state.lock();
        let registration = state.registrations.get_mut(&key).ok_or(Errno::EINVAL)?;
        if registration.waiter.is_some() {
            return Err(Errno::EINVAL);
        }
        match registration.outcome {
            Some(outcome) => {
                state.registrations.remove(&key);
                Ok(Some(outcome))
            }
            None => {
                registration.waiter = Some(waiter);
                Ok(None)
            }
        }
    }

    /// Request `unique` waits no longer, if it still does.
    pub fn interrupt(&self, key: (u64, u64), unique: u64) {
        let mut state = self.state.lock();
        let registration = state.registrations.get_mut(&key);
        let waiter = registration.and_then(|r| r.waiter.take_if(|waiter| waiter.0 == unique));
        drop(state);
        if let Some((_, replier)) = waiter {
            replier.reply(Err(Errno::EINTR));
        }
    }

    /// It was not made after all.
    pub fn forget(&self, key: (u64, u64)) {
        let gone = self.state.lock().registrations.remove(&key);
        drop(gone);
    }

    /// The description is closed.
    pub fn close(&self, fh: u64) {
        let mut state = self.state.lock();
        let gone = state
            .registrations
            .extract_if((fh, 0)..=(fh, u64::MAX), |_, _| true);
        let gone: Vec<_> = gone.collect();
        drop(state);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn replier(unique: u64) -> (u64, Replier) {
        let nowhere = File::options().write(true).open("/dev/null");
        let device = Arc::new(nowhere.expect("it is there").into());
        (unique, Replier::new(device, unique))
    }

    #[test]
    fn the_first_outcome_counts_and_is_told_once() {
        let all = Arc::new(Registrations::default());
        let told = all.make(5);
        let (id, gone) = (told.id(), all.make(5));
        let gone_id = gone.id();
        told.deliver();
        drop(gone);
        assert_eq!(all.wait((5, id), replier(1)), Ok(Some(Outcome::Delivered)));
        assert_eq!(all.wait((5, id), replier(1)), Err(Errno::EINVAL));
        assert_eq!(all.wait((6, gone_id), replier(1)), Err(Errno::EINVAL));
        assert_eq!(all.wait((5, gone_id), replier(1)), Ok(Some(Outcome::Gone)));
    }

    #[test]
    fn who_waits_is_told_or_interrupted() {
        let all = Arc::new(Registrations::default());
        let guard = all.make(5);
        let id = guard.id();
        assert_eq!(all.wait((5, id), replier(1)), Ok(None));
        assert_eq!(all.wait((5, id), replier(2)), Err(Errno::EINVAL));
        all.interrupt((5, id), 2);
        assert_eq!(all.wait((5, id), replier(2)), Err(Errno::EINVAL));
        all.interrupt((5, id), 1);
        assert_eq!(all.wait((5, id), replier(2)), Ok(None));
        guard.deliver();
        assert!(all.state.lock().registrations.is_empty());
    }

    #[test]
    fn what_nobody_waits_for_is_bounded() {
        let all = Arc::new(Registrations::default());
        for _ in 0..10 * SETTLED_MAX {
            drop(all.make(5));
        }
        assert_eq!(all.state.lock().registrations.len(), SETTLED_MAX);
    }

    #[test]
    fn closing_leaves_nothing() {
        let all = Arc::new(Registrations::default());
        let guards = [all.make(5), all.make(5), all.make(6)];
        all.close(5);
        assert_eq!(all.state.lock().registrations.len(), 1);
        drop(guards);
        all.close(6);
        assert!(all.state.lock().registrations.is_empty());
    }
}
