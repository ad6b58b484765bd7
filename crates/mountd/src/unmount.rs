//! Unmounting, as root by the kernel, else through fusermount3.

use crate::mountinfo::MountEntry;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How a mount is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmountMode {
    /// If nothing of it is in use.
    Idle,
    /// It disappears now; what is open stays so until it is closed.
    Lazy,
    /// It disappears now, and what is open is of no use any more.
    Forced,
}

/// Nothing is unmounted.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// Something of it is in use.
    #[error("in use: a file of it is open, or a directory of it is a process's working directory")]
    Busy,
    /// The host says no.
    #[error("{0}")]
    Host(std::io::Error),
    /// It is a mount of another user.
    #[error("another user mounted it; only that user and root can unmount it")]
    NotOwner,
    /// fusermount3 says no, or is not there.
    #[error("fusermount3: {0}")]
    Helper(String),
}

/// How often a busy mount is asked again: statistics and shells look into it for a moment.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);

/// Unmounts what is mounted at `dir`.
///
/// # Errors
/// It is in use; it is not the user's.
pub fn unmount(dir: &Path, how: UnmountMode) -> Result<(), UnmountError> {
    for _ in 1..TRIES {
        match once(dir, how) {
            Err(UnmountError::Busy) => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
    once(dir, how)
}

fn once(dir: &Path, how: UnmountMode) -> Result<(), UnmountError> {
    let flags = match how {
        UnmountMode::Idle => UnmountFlags::empty(),
        UnmountMode::Lazy => UnmountFlags::DETACH,
        // Force ends the connection, which leaves the mount busy; detaching removes it.
        UnmountMode::Forced => UnmountFlags::FORCE | UnmountFlags::DETACH,
    };
    match rustix::mount::unmount(dir, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(UnmountError::Busy),
        Err(Errno::PERM) if is_of_another_user(dir) => Err(UnmountError::NotOwner),
        Err(Errno::PERM) => by_helper(dir, how),
        Err(errno) => Err(UnmountError::Host(errno.into())),
    }
}

fn is_of_another_user(dir: &Path) -> bool {
    let entry = MountEntry::at(dir).ok().flatten();
    let user = entry.and_then(|entry| entry.user);
    user.is_some_and(|user| user != rustix::process::getuid().as_raw())
}

fn by_helper(dir: &Path, how: UnmountMode) -> Result<(), UnmountError> {
    let mut command = Command::new("fusermount3");
    command.arg(match how {
        UnmountMode::Idle => "-u",
        UnmountMode::Lazy | UnmountMode::Forced => "-uz",
    });
    command.arg("--").arg(dir).env("LC_ALL", "C");
    command.stdin(Stdio::null());
    let out = command
        .output()
        .map_err(|e| UnmountError::Helper(e.to_string()))?;
    if out.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let said = said.trim().trim_start_matches("fusermount3: ");
    Err(match said {
        busy if busy.contains("busy") => UnmountError::Busy,
        // systemd makes it; a container may lack it.
        mtab if mtab.contains("/etc/mtab") => UnmountError::Helper(format!(
            "{mtab}; root makes it with ln -s ../proc/self/mounts /etc/mtab"
        )),
        other => UnmountError::Helper(other.to_owned()),
    })
}
