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
use super::settings;
use std::io::{self, ErrorKind};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

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

/// Acquires the lock; if its owner has died, fences that one first. Returns the addresses of those that were fenced.
pub fn acquire(
    address: &RbdAddress,
    pool: &Pool,
    image: &Arc<Image>,
) -> Result<Vec<String>, LockError> {
    let deadline = Instant::now() + cluster::answer_timeout(pool.cluster())?;
    let mut fenced = Vec::new();
    let mut refused = io::Error::from_raw_os_error(EBUSY);
    for _ in 0..ATTEMPTS {
        for owner in image.lock_owners()? {
            // The watchers are listed after the owner, which watched before it had the lock.
            if image.watchers()?.contains(&owner) {
                return Err(LockError::Held { owner });
            }
            fence(address, pool, &owner)?;
            fenced.push(owner);
        }
        match lock_within(image, deadline.saturating_duration_since(Instant::now())) {
            Ok(()) => return Ok(fenced),
            // Another client was faster.
            Err(e) if matches!(e.raw_os_error(), Some(EAGAIN | EBUSY | EINVAL | EROFS)) => {
                refused = e
            }
            Err(e) if e.kind() == ErrorKind::TimedOut => {
                let owner = image.lock_owners()?.into_iter().next();
                return Err(owner.map_or(e.into(), |owner| LockError::Held { owner }));
            }
            Err(e) => return Err(e.into()),
        }
    }
    Err(refused.into())
}

/// Acquires the lock. librbd waits for an owner that does not answer until that owner does not watch the image.
///
/// # Errors
/// `TimedOut`: it is not acquired in time. If librbd acquires it later, the image is closed then.
fn lock_within(image: &Arc<Image>, limit: Duration) -> io::Result<()> {
    let (sender, locked) = mpsc::channel();
    let image = image.clone();
    thread::Builder::new().spawn(move || {
        let locked = image.lock();
        // Before the answer, as the last owner of an image closes it.
        drop(image);
        let _ = sender.send(locked);
    })?;
    locked.recv_timeout(limit).unwrap_or_else(|_| {
        let why = format!("its lock was not acquired within {} s", limit.as_secs());
        Err(io::Error::new(ErrorKind::TimedOut, why))
    })
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
    let image = Image::open(&breaking, &address.name)?;
    settings::check(address, &image)?;
    match image.break_lock(owner) {
        // It has released it, or another client has broken it.
        Err(e) if matches!(e.raw_os_error(), Some(ENOENT | EBUSY | EAGAIN)) => Ok(()),
        broken => broken,
    }
}
