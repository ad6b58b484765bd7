//! The exclusive lock of an image: one client of the cluster has it, and only that one writes.
//!
//! # Fencing
//! The cluster refuses the requests of a client that is blocklisted. So the lock of a client is broken only after that client was
//! blocklisted, and after this one has the map of the cluster which says so: each OSD that this client uses has that map before it answers.
//! A host that hangs and continues later, or that is connected to the network again, finds its requests refused. What blocklisted it does not
//! expire before that: by default it would after an hour. The client that breaks the lock has that map too, so that a third one which takes the
//! free lock finds OSDs that have it.

use super::address::RbdAddress;
use super::cluster::{self, BLOCKLIST_SECONDS, Breaking};
use super::librbd::{Pool, image::Image};
use std::io;

/// Owners that may take the lock one after the other while this client tries.
const ATTEMPTS: usize = 8;
const ENOENT: i32 = 2;
const EAGAIN: i32 = 11;
const EBUSY: i32 = 16;
/// Of librbd 16, whose own way to blocklist an owner fails.
const EINVAL: i32 = 22;
const EROFS: i32 = 30;

/// Why the lock could not be acquired.
#[derive(Debug)]
pub enum LockError {
    /// A client has it that is alive.
    Held {
        /// Of the client.
        owner: String,
    },
    /// A call failed.
    Io(io::Error),
}

impl From<io::Error> for LockError {
    fn from(e: io::Error) -> LockError {
        LockError::Io(e)
    }
}

/// Acquires the lock; if its owner has died, fences that one first.
pub fn acquire(address: &RbdAddress, pool: &Pool, image: &Image) -> Result<(), LockError> {
    let mut refused = io::Error::from_raw_os_error(EBUSY);
    for _ in 0..ATTEMPTS {
        for owner in image.lock_owners()? {
            // The watchers are listed after the owner, which watched before it had the lock.
            if image.watchers()?.contains(&owner) {
                return Err(LockError::Held { owner });
            }
            fence(address, pool, &owner)?;
        }
        match image.lock() {
            Ok(()) => return Ok(()),
            // Another client was faster.
            Err(e) if matches!(e.raw_os_error(), Some(EAGAIN | EBUSY | EINVAL | EROFS)) => {
                refused = e
            }
            Err(e) => return Err(e.into()),
        }
    }
    Err(refused.into())
}

/// Takes the lock from all that hold it, alive or not, and returns their addresses.
pub fn break_all(address: &RbdAddress, pool: &Pool, image: &Image) -> io::Result<Vec<String>> {
    let owners = image.lock_owners()?;
    for owner in &owners {
        fence(address, pool, owner)?;
    }
    Ok(owners)
}

/// Makes the cluster refuse what a client still writes, and then takes its lock.
fn fence(address: &RbdAddress, pool: &Pool, owner: &str) -> io::Result<()> {
    pool.cluster().blocklist(owner, BLOCKLIST_SECONDS)?;
    let breaking = cluster::connect(address, Breaking::AfterBlocklisting)?;
    breaking.cluster().wait_for_map()?;
    match Image::open(&breaking, &address.name)?.break_lock(owner) {
        // It has released it, or another client has broken it.
        Err(e) if matches!(e.raw_os_error(), Some(ENOENT | EBUSY | EAGAIN)) => Ok(()),
        broken => broken,
    }
}
