//! Who wants to know when something can be done: threads that wait for it, and watches.
//!
//! # Locking
//! Guarded by the lock of the queue. Pollers are told once it is free.

use super::{Queue, Ready, State, Woken};
use crate::wait::{Wait, Wake};
use std::sync::Arc;
use uext4_vfs::Result;

/// Who wants to know when something can be done.
pub(super) struct Poller {
    who: PollerKind,
    interest: Ready,
}

enum PollerKind {
    /// A thread that waits.
    Waiter(usize),
    /// Somebody who is told, once, and the key that he is known by.
    Watcher(u64, Tell),
}

/// Tells that something can be done; called with no lock held, perhaps once too often.
pub type Tell = Arc<dyn Fn() + Send + Sync>;

/// What is left to do for a poller.
pub(super) enum PollerTold {
    Waiter(Arc<Wake>),
    Watcher(Tell),
}

impl PollerTold {
    pub fn tell(self) {
        match self {
            PollerTold::Waiter(wake) => wake.wake(),
            PollerTold::Watcher(tell) => tell(),
        }
    }
}

impl State {
    /// Completes the calls of who polls for `ready`.
    pub(super) fn finish_pollers(&mut self, ready: Ready) -> Vec<PollerTold> {
        if self.pollers.is_empty() {
            return Vec::new();
        }
        let slots = &mut self.slots;
        let done = self
            .pollers
            .extract_if(.., |p| p.interest.intersects(ready));
        done.map(|p| match p.who {
            PollerKind::Waiter(slot) => PollerTold::Waiter(slots.finish(slot)),
            PollerKind::Watcher(_, tell) => PollerTold::Watcher(tell),
        })
        .collect()
    }
}

impl Queue {
    /// What can be done without waiting.
    pub fn poll(&self) -> Ready {
        self.lock().ready(self.maxmsg())
    }

    /// Waits until some of `interest` can be done without waiting, and tells which; another thread may
    /// be faster all the same.
    ///
    /// # Locks
    /// Takes `mqueue`; may sleep.
    ///
    /// # Errors
    /// `EINVAL`: the deadline. `ETIMEDOUT`, `EINTR`: nothing could be done until then.
    pub fn poll_wait(&self, interest: Ready, wait: &Wait) -> Result<Ready> {
        wait.check()?;
        let mut state = self.lock();
        loop {
            let ready = state.ready(self.maxmsg()) & interest;
            if !ready.is_empty() {
                return Ok(ready);
            }
            let slot = state.slots.claim(None, wait);
            let who = PollerKind::Waiter(slot);
            state.pollers.push(Poller { who, interest });
            let woken;
            (state, woken) = self.sleep(state, slot, None, wait);
            if !matches!(woken, Woken::Done) {
                let is_me = |p: &Poller| matches!(p.who, PollerKind::Waiter(s) if s == slot);
                state.pollers.retain(|p| !is_me(p));
            }
            state.slots.release(slot);
            woken.into_result()?;
        }
    }

    /// What can be done without waiting; `tell` is called once when some of `interest` can be done again, be it possible
    /// now or not. Another watch with the same key takes its place, and cares for what it cared for too.
    pub fn watch(&self, key: u64, interest: Ready, tell: Tell) -> Ready {
        let mut state = self.lock();
        let mine = |p: &&mut Poller| matches!(p.who, PollerKind::Watcher(k, _) if k == key);
        match state.pollers.iter_mut().find(mine) {
            Some(poller) => poller.interest |= interest,
            None => state.pollers.push(Poller {
                who: PollerKind::Watcher(key, tell),
                interest,
            }),
        }
        state.ready(self.maxmsg())
    }

    /// Ends the watch with that key, if there is one.
    pub fn unwatch(&self, key: u64) {
        let mine = |p: &Poller| matches!(p.who, PollerKind::Watcher(k, _) if k == key);
        let gone: Vec<Poller> = self.lock().pollers.extract_if(.., |p| mine(p)).collect();
        drop(gone);
    }
}
