//! Registrations whose process waits for the notification in a thread (`SIGEV_THREAD`).
//!
//! # Invariants
//! The outcome of a registration is kept until a thread has waited for it, or until its description is closed. A
//! description has a bounded number of outcomes that no thread waits for.
//!
//! # Locking
//! One lock, of class `open_files`. Replies are sent after it is released.

use super::waiting_calls::LaterReply;
use std::collections::BTreeMap;
use std::sync::Arc;
use uext4::Errno;
use uext4_fuse::abi::output;
use uext4_sync::{Mutex, class};
use zerocopy::IntoBytes;

/// The outcome of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The registration was removed without a notification.
    Removed = 0,
    /// The notification was delivered.
    Delivered = 1,
}

/// The most registrations of a description whose outcome no thread has waited for.
const SETTLED_MAX: usize = 64;

struct Registration {
    outcome: Option<Outcome>,
    /// The request that waits.
    waiter: Option<LaterReply>,
}

#[derive(Default)]
struct Table {
    /// By file handle and number.
    registrations: BTreeMap<(u64, u64), Registration>,
    last_id: u64,
}

/// The registrations that a thread can wait for.
pub struct Registrations {
    table: Mutex<Table>,
}

impl Default for Registrations {
    fn default() -> Registrations {
        Registrations {
            table: Mutex::new(&class::OPEN_FILES, Table::default()),
        }
    }
}

/// Sets the outcome of a registration: [`Outcome::Removed`] when it is dropped without a delivery.
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

    /// The notification is delivered.
    pub fn deliver(self) {
        self.all.settle((self.fh, self.id), Outcome::Delivered);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.all.settle((self.fh, self.id), Outcome::Removed);
    }
}

impl Registrations {
    /// Adds a registration of description `fh`.
    pub fn add(self: &Arc<Registrations>, fh: u64) -> Guard {
        let mut table = self.table.lock();
        table.last_id += 1;
        let id = table.last_id;
        let registration = Registration {
            outcome: None,
            waiter: None,
        };
        let of = table.registrations.range((fh, 0)..=(fh, u64::MAX));
        let settled: Vec<_> = of
            .filter(|(_, r)| r.outcome.is_some())
            .map(|(key, _)| *key)
            .collect();
        if let Some(oldest) = settled.first().filter(|_| settled.len() >= SETTLED_MAX) {
            table.registrations.remove(oldest);
        }
        table.registrations.insert((fh, id), registration);
        Guard {
            all: Arc::clone(self),
            fh,
            id,
        }
    }

    /// Sets the outcome, if there is none yet, and replies to the request that waits for it.
    fn settle(&self, key: (u64, u64), outcome: Outcome) {
        let mut table = self.table.lock();
        let Some(registration) = table.registrations.get_mut(&key) else {
            return;
        };
        if registration.outcome.is_some() {
            return;
        }
        registration.outcome = Some(outcome);
        let Some(waiter) = registration.waiter.take() else {
            return;
        };
        table.registrations.remove(&key);
        drop(table);
        let reply = output::Ioctl {
            result: outcome as i32,
            ..output::Ioctl::default()
        };
        waiter.reply(Ok(&[reply.as_bytes()]));
    }

    /// Takes the outcome of a registration. If there is none yet, keeps `waiter` and replies to it later.
    ///
    /// # Errors
    /// `EINVAL`: no such registration, or another request waits for it.
    pub fn wait(&self, key: (u64, u64), waiter: LaterReply) -> Result<Option<Outcome>, Errno> {
        let mut table = self.table.lock();
        let registration = table.registrations.get_mut(&key).ok_or(Errno::EINVAL)?;
        if registration.waiter.is_some() {
            return Err(Errno::EINVAL);
        }
        match registration.outcome {
            Some(outcome) => {
                table.registrations.remove(&key);
                Ok(Some(outcome))
            }
            None => {
                registration.waiter = Some(waiter);
                Ok(None)
            }
        }
    }

    /// Replies with an error to request `unique` if it still waits for the registration.
    pub fn interrupt(&self, key: (u64, u64), unique: u64, why: Errno) {
        let mut table = self.table.lock();
        let registration = table.registrations.get_mut(&key);
        let waiter = registration.and_then(|r| r.waiter.take_if(|waiter| waiter.id == unique));
        drop(table);
        if let Some(waiter) = waiter {
            waiter.reply(Err(why));
        }
    }

    /// Removes a registration that the queue refused.
    pub fn forget(&self, key: (u64, u64)) {
        let gone = self.table.lock().registrations.remove(&key);
        drop(gone);
    }

    /// Removes the registrations of a description that is closed.
    pub fn close(&self, fh: u64) {
        let mut table = self.table.lock();
        let gone = table
            .registrations
            .extract_if((fh, 0)..=(fh, u64::MAX), |_, _| true);
        let gone: Vec<_> = gone.collect();
        drop(table);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use uext4_fuse::transport::reply::Replier;

    fn waiter(unique: u64) -> LaterReply {
        let nowhere = File::options().write(true).open("/dev/null");
        let device = Arc::new(nowhere.expect("present").into());
        LaterReply {
            id: unique,
            waiting_calls: Arc::default(),
            replier: Replier::new(device, unique),
        }
    }

    #[test]
    fn the_first_outcome_counts_and_is_reported_once() {
        let all = Arc::new(Registrations::default());
        let delivered = all.add(5);
        let (id, gone) = (delivered.id(), all.add(5));
        let gone_id = gone.id();
        delivered.deliver();
        drop(gone);
        assert_eq!(all.wait((5, id), waiter(1)), Ok(Some(Outcome::Delivered)));
        assert_eq!(all.wait((5, id), waiter(1)), Err(Errno::EINVAL));
        assert_eq!(all.wait((6, gone_id), waiter(1)), Err(Errno::EINVAL));
        assert_eq!(
            all.wait((5, gone_id), waiter(1)),
            Ok(Some(Outcome::Removed))
        );
    }

    #[test]
    fn a_waiter_gets_the_outcome_or_is_interrupted() {
        let all = Arc::new(Registrations::default());
        let guard = all.add(5);
        let id = guard.id();
        assert_eq!(all.wait((5, id), waiter(1)), Ok(None));
        assert_eq!(all.wait((5, id), waiter(2)), Err(Errno::EINVAL));
        all.interrupt((5, id), 2, Errno::EINTR);
        assert_eq!(all.wait((5, id), waiter(2)), Err(Errno::EINVAL));
        all.interrupt((5, id), 1, Errno::EINTR);
        assert_eq!(all.wait((5, id), waiter(2)), Ok(None));
        guard.deliver();
        assert!(all.table.lock().registrations.is_empty());
    }

    #[test]
    fn unclaimed_outcomes_are_bounded() {
        let all = Arc::new(Registrations::default());
        for _ in 0..10 * SETTLED_MAX {
            drop(all.add(5));
        }
        assert_eq!(all.table.lock().registrations.len(), SETTLED_MAX);
    }

    #[test]
    fn closing_leaves_nothing() {
        let all = Arc::new(Registrations::default());
        let guards = [all.add(5), all.add(5), all.add(6)];
        all.close(5);
        assert_eq!(all.table.lock().registrations.len(), 1);
        drop(guards);
        all.close(6);
        assert!(all.table.lock().registrations.is_empty());
    }
}
