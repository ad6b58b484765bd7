//! Polling a queue: waiting and watching until it is ready.

use super::Queue;
use super::inner::Woken;
use super::poller::{Poller, PollerKind, Ready, WatchCallback};
use crate::wait::Wait;
use uext4_vfs::Result;

impl Queue {
    /// What a caller can do without waiting.
    pub fn poll(&self) -> Ready {
        self.lock().ready(self.maxmsg())
    }

    /// Waits until the queue is ready for some of `interest`, and returns for which. Another thread may be faster.
    ///
    /// # Locks
    /// Takes `mqueue`; may sleep.
    ///
    /// # Errors
    /// `EINVAL`: the deadline. `ETIMEDOUT`, `EINTR`: the queue was not ready until then.
    pub fn poll_wait(&self, interest: Ready, wait: &Wait) -> Result<Ready> {
        wait.check()?;
        let mut state = self.lock();
        loop {
            let ready = state.ready(self.maxmsg()) & interest;
            if !ready.is_empty() {
                return Ok(ready);
            }
            let slot = state.slots.claim(None, wait);
            let kind = PollerKind::Waiter(slot);
            state.pollers.push(Poller { kind, interest });
            let woken;
            (state, woken) = self.sleep(state, slot, None, wait);
            if !matches!(woken, Woken::Done) {
                let is_own = |p: &Poller| matches!(p.kind, PollerKind::Waiter(s) if s == slot);
                state.pollers.retain(|p| !is_own(p));
            }
            state.slots.release(slot);
            woken.into_result()?;
        }
    }

    /// Returns what a caller can do without waiting. Calls `notify` once when the queue next becomes ready for some of
    /// `interest`, whether or not it is ready now. If there is a watch with this key, adds `interest` to it instead.
    pub fn watch(&self, key: u64, interest: Ready, notify: WatchCallback) -> Ready {
        let mut state = self.lock();
        let has_key = |p: &&mut Poller| matches!(p.kind, PollerKind::Watch(k, _) if k == key);
        match state.pollers.iter_mut().find(has_key) {
            Some(poller) => poller.interest |= interest,
            None => state.pollers.push(Poller {
                kind: PollerKind::Watch(key, notify),
                interest,
            }),
        }
        state.ready(self.maxmsg())
    }

    /// Ends the watch with that key, if there is one.
    pub fn unwatch(&self, key: u64) {
        let has_key = |p: &Poller| matches!(p.kind, PollerKind::Watch(k, _) if k == key);
        let gone: Vec<Poller> = self.lock().pollers.extract_if(.., |p| has_key(p)).collect();
        drop(gone);
    }
}
