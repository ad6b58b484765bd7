//! Shutting down a mount: unmounting it and waiting until the image is closed.

use crate::mountinfo::{self, MountEntry};
use crate::stats;
use crate::unmount::{UnmountError, UnmountMode, unmount};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use uext4::unstable::ondisk::{Compat, Incompat, STATE_CLEAN};
use uext4::{DeviceOptions, ImageName};

/// A mount was not shut down, or not cleanly.
#[derive(Debug, thiserror::Error)]
pub enum ShutdownError {
    /// The directory can't be found.
    #[error("{0}")]
    Host(#[from] std::io::Error),
    /// Nothing is mounted there.
    #[error("nothing is mounted there")]
    NotMounted,
    /// It is a mount of another file system.
    #[error("not a mount of uext4 but of {0}; umount(8) unmounts it")]
    NotOurs(String),
    /// It is in use.
    #[error("{0}; close them (fuser -m lists the processes), or give --lazy")]
    Busy(UnmountError),
    /// The host's error.
    #[error("{0}")]
    Unmount(UnmountError),
    /// The server does not answer.
    #[error(
        "its server does not answer; --lazy takes the mount away, and the next one recovers the image"
    )]
    Hung,
    /// The server ended before it had closed the image.
    #[error(
        "unmounted, but the server has not closed {0}; the next mount recovers it from its journal if it has one, else `uext4 check` says what is lost"
    )]
    Unclean(PathBuf),
}

/// How long a server may take to write everything back.
const CLOSING_MAX: Timespec = Timespec {
    tv_sec: 600,
    tv_nsec: 0,
};

/// A mount that was shut down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What was mounted.
    pub source: PathBuf,
    /// Whether the server is known to have closed it; a lazy end is not waited for.
    pub closed: bool,
    /// Another directory that it is mounted on still, so that the server continues.
    pub elsewhere: Option<PathBuf>,
    /// Its server was gone before.
    pub was_dead: bool,
}

/// Unmounts `dir` and waits until the server has closed the image; does not wait if `lazy`.
///
/// # Errors
/// It is in use, or none of ours; or the image was not closed as it should be.
pub fn shut_down(dir: &Path, lazy: bool) -> Result<Ended, ShutdownError> {
    let dir = mountinfo::absolute(dir)?;
    let entry = MountEntry::at(&dir)?.ok_or(ShutdownError::NotMounted)?;
    if !entry.is_ours() {
        return Err(ShutdownError::NotOurs(entry.kind));
    }
    // A lazy shutdown waits for no process.
    let document = match lazy {
        true => None,
        false => stats::read_from_afar(&dir).map_err(|_| ShutdownError::Hung)?,
    };
    let process = |field: &str| {
        let pid = document.as_ref()?[field].as_i64()?;
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        is_this_program(pid).then_some(process)
    };
    let (server, monitor) = (process("pid"), process("monitor_pid"));
    let is_dead = !lazy && document.is_none() && has_no_server(&dir);
    let how = match lazy {
        true => UnmountMode::Lazy,
        false => UnmountMode::Idle,
    };
    // Before unmounting: later another file system may have its device number.
    let others = entry.siblings()?;
    unmount(&dir, how).map_err(|e| match e {
        UnmountError::Busy => ShutdownError::Busy(e),
        e => ShutdownError::Unmount(e),
    })?;
    let elsewhere = still_there(&others)?;
    // Without a server the other directories are as dead.
    if lazy || elsewhere.is_some() && !is_dead {
        return Ok(Ended {
            source: entry.source,
            closed: false,
            elsewhere,
            was_dead: false,
        });
    }
    let closed = server.as_ref().map(wait);
    // The monitor exits after the server, which not every caller may wait for.
    let ended = monitor.as_ref().map(wait);
    let closed = closed.or(ended).unwrap_or(false);
    // The kernel's flag, because the server is not trusted.
    if closed && !entry.flags.read_only && needs_recovery(&entry) {
        return Err(ShutdownError::Unclean(entry.source));
    }
    Ok(Ended {
        source: entry.source,
        closed,
        elsewhere: None,
        was_dead: is_dead,
    })
}

/// The directory of the first of some mounts that is there still: one unmount may end several, where mounts propagate.
fn still_there(mounts: &[MountEntry]) -> std::io::Result<Option<PathBuf>> {
    if mounts.is_empty() {
        return Ok(None);
    }
    let mut now = MountEntry::all()?.into_iter();
    Ok(now
        .find(|entry| mounts.contains(entry))
        .map(|entry| entry.dir))
}

/// Whether the connection of a mount that answers at once has ended.
fn has_no_server(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_err_and(|errno| errno == rustix::io::Errno::NOTCONN)
}

/// Whether a process runs this program: a server may name any.
fn is_this_program(pid: Pid) -> bool {
    let theirs = std::fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero()));
    let ours = std::fs::read_link("/proc/self/exe");
    matches!((theirs, ours), (Ok(theirs), Ok(ours)) if theirs == ours)
}

/// Waits until a process is gone; false where it takes too long.
fn wait(process: &OwnedFd) -> bool {
    loop {
        match poll(
            &mut [PollFd::new(process, PollFlags::IN)],
            Some(&CLOSING_MAX),
        ) {
            Ok(gone) => return gone > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Whether the journal of what was mounted is not empty. A file that can't be read, or that is mounted again, counts as clean; an
/// export whose server has gone does not.
fn needs_recovery(entry: &MountEntry) -> bool {
    let image = &*entry.source;
    let name = ImageName::parse(image);
    if name.is_remote() {
        // Another user's name of a server is not for this one to connect to.
        if entry.user != Some(rustix::process::geteuid().as_raw()) {
            return false;
        }
    } else if !is_data(&name) {
        return false;
    }
    let superblock = uext4::open_image(image, &DeviceOptions::read_only())
        .ok()
        .map(|device| uext4::unstable::read_superblock(&*device));
    match superblock {
        Some(Ok(sb)) if sb.compat.contains(Compat::HAS_JOURNAL) => {
            sb.incompat.contains(Incompat::RECOVER)
        }
        // One with errors stays as it is until it is checked.
        Some(Ok(sb)) => sb.raw.error_count.get() == 0 && sb.raw.state.get() & STATE_CLEAN == 0,
        Some(Err(_)) => false,
        None => name.is_remote(),
    }
}

/// Whether it is a file or a block device by its full name: not queues, nor an image by another name.
fn is_data(name: &ImageName) -> bool {
    let kind = std::fs::metadata(name.path()).map(|found| found.file_type());
    name.path().is_absolute() && kind.is_ok_and(|kind| kind.is_file() || kind.is_block_device())
}
