//! Freezing a mounted image, so that its file can be copied, and thawing it.
//!
//! The kernel answers `FIFREEZE` and `FITHAW` itself, with `EOPNOTSUPP` for every FUSE mount: the server is asked through
//! the mounted directory.

use crate::ask::{self, AskError};
use crate::mountinfo::{self, MountEntry};
use crate::question::{FREEZE, THAW};
use crate::stats;
use crate::write_back::write_back;
use std::io;
use std::path::Path;

/// A mount is neither frozen nor thawed.
#[derive(Debug, thiserror::Error)]
pub enum FreezeError {
    /// The directory can't be found or opened, or the kernel refuses.
    #[error("{0}")]
    Host(#[from] io::Error),
    /// There is no mount.
    #[error("nothing is mounted there")]
    NotMounted,
    /// It is another's.
    #[error("not a mount of uext4 but of {0}; fsfreeze(8) freezes what the kernel mounts")]
    NotOurs(String),
    /// The server does not answer.
    #[error("its server does not answer; uext4 umount --lazy takes the mount away")]
    Hung,
    /// The server refuses.
    #[error("{0}")]
    Refused(String),
}

/// Freezes the image that is mounted at `dir`: what was written before is in its file, which is as clean as after an unmount,
/// and later changes wait until [`thaw`].
///
/// # Locks
/// Waits for what the kernel writes back, and for changes that run.
///
/// # Errors
/// It is not a uext4 mount, is frozen already, or can't be written.
pub fn freeze(dir: &Path) -> Result<(), FreezeError> {
    let dir = ours(dir)?;
    // Nothing ends the wait for a server that hangs.
    stats::read_from_afar(&dir).map_err(|_| FreezeError::Hung)?;
    // What is written before this call may be in the kernel alone.
    write_back(&dir, || {}).map_err(refusal)?;
    ask::ask(&dir, FREEZE).map_err(refusal)
}

/// Lets the changes of a frozen mount continue, and waits for those that waited.
///
/// # Errors
/// It is not a uext4 mount, or is not frozen.
pub fn thaw(dir: &Path) -> Result<(), FreezeError> {
    ask::ask(&ours(dir)?, THAW).map_err(refusal)
}

fn ours(dir: &Path) -> Result<std::path::PathBuf, FreezeError> {
    let dir = mountinfo::absolute(dir)?;
    let entry = MountEntry::at(&dir)?.ok_or(FreezeError::NotMounted)?;
    match entry.is_ours() {
        true => Ok(dir),
        false => Err(FreezeError::NotOurs(entry.kind)),
    }
}

fn refusal(e: AskError) -> FreezeError {
    match e {
        AskError::Host(e) => FreezeError::Host(e),
        AskError::Unknown => FreezeError::Refused(
            "message queues are in memory alone, and have no image to freeze".to_owned(),
        ),
        e => FreezeError::Refused(e.to_string()),
    }
}
