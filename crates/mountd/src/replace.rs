//! A mount of an image that is only read and that another host writes: one of its newest state takes its place.
//!
//! The new one is opened before the old one is taken away, lazily: what is open stays at the state that it has, and its server ends with
//! the last file. Between the two the directory is for a moment as it is without a mount.

use crate::failure::Failure;
use crate::mountinfo::MountEntry;
use crate::unmount::{UnmountMode, unmount};
use rustix::fs::{Mode, OFlags};
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Refuses to replace what is mounted at `dir` by a mount of `source`, unless that is the same image, and is only read.
///
/// # Errors
/// Something else is mounted there, or it can be written.
pub fn check(source: &Path, dir: &Path) -> Result<(), Failure> {
    let why = match MountEntry::at(dir)? {
        None => return Ok(()),
        Some(entry) if !entry.is_ours() => format!("is a mount of {}", entry.kind),
        Some(entry) if entry.source != source => {
            format!("is a mount of {}", entry.source.display())
        }
        Some(entry) if !entry.flags.read_only => {
            "is mounted to be written, and always the newest".to_owned()
        }
        Some(_) => return Ok(()),
    };
    Err(Failure::new(format_args!("{}: {why}", dir.display())))
}

/// Takes away what [`check`] has accepted. It exists until what is returned is dropped: until then the kernel gives its number to no other
/// mount, so that its monitor does not take the new one for its own, and unmount it.
///
/// # Errors
/// It is not the caller's to take away.
pub fn take_away(dir: &Path) -> Result<Option<OwnedFd>, Failure> {
    if MountEntry::at(dir)?.is_none() {
        return Ok(None);
    }
    let failed = |e: &dyn fmt::Display| Failure::new(format_args!("{}: {e}", dir.display()));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let kept = rustix::fs::open(dir, flags, Mode::empty()).map_err(|e| failed(&e))?;
    unmount(dir, UnmountMode::Lazy).map_err(|e| failed(&e))?;
    Ok(Some(kept))
}
