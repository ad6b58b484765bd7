//! What the queues of each user take, over all namespaces that share the accounts.
//!
//! # Invariants
//! A user's bytes are the sum of the charges that are alive; a user without any has no entry.
//!
//! # Locking
//! One lock of class `mqueue`, taken when a queue comes or goes.

use std::collections::HashMap;
use std::sync::Arc;
use uext4_sync::{Mutex, class};
use uext4_vfs::{Errno, Result};

/// Bytes by user.
#[derive(Debug)]
pub struct Accounts {
    users: Mutex<HashMap<u32, u64>>,
}

/// One of several references to the same accounts, so that few threads count references on the same cache line.
#[derive(Debug)]
pub(crate) struct SharedAccounts(pub Arc<Accounts>);

impl Default for Accounts {
    fn default() -> Accounts {
        Accounts {
            users: Mutex::new(&class::MQUEUE, HashMap::new()),
        }
    }
}

impl Accounts {
    /// Accounts without charges.
    pub fn new() -> Arc<Accounts> {
        Arc::default()
    }

    /// What `uid` is charged.
    pub fn bytes_of(&self, uid: u32) -> u64 {
        self.users.lock().get(&uid).copied().unwrap_or(0)
    }

    /// Charges `uid` until the charge is dropped.
    ///
    /// # Errors
    /// `EMFILE`: that is more than `max`, with what there is.
    pub(crate) fn charge(self: &Arc<Accounts>, uid: u32, bytes: u64, max: u64) -> Result<Charge> {
        let mut users = self.users.lock();
        let total = users.get(&uid).copied().unwrap_or(0).saturating_add(bytes);
        if total > max {
            return Err(Errno::EMFILE.into());
        }
        users.insert(uid, total);
        Ok(Charge {
            accounts: Arc::clone(self),
            uid,
            bytes,
        })
    }
}

/// What one queue takes.
#[derive(Debug)]
pub(crate) struct Charge {
    accounts: Arc<Accounts>,
    uid: u32,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut users = self.accounts.users.lock();
        if let Some(total) = users.get_mut(&self.uid) {
            *total = total.saturating_sub(self.bytes);
            if *total == 0 {
                users.remove(&self.uid);
            }
        }
    }
}
