//! The directory whose files are queues: opening them by name, making and unlinking them.
//!
//! # Invariants
//! In a directory that is not a mount of queues, nothing is created or unlinked, and no file is opened as a queue.

use super::ioctl;
use crate::name;
use crate::protocol::{self, PROBE, Prepare};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use zerocopy::IntoBytes;

/// The flags that mq_open(3) uses.
const FLAGS: OFlags = OFlags::RWMODE
    .union(OFlags::NONBLOCK)
    .union(OFlags::CREATE)
    .union(OFlags::EXCL);
/// An invalid access mode.
const NO_MODE: OFlags = OFlags::RDWR.union(OFlags::WRONLY);
/// The longest name of a file.
const NAME_BYTES_MAX: usize = 255;

/// A directory where queues are mounted.
#[derive(Clone, Debug)]
pub struct Mounted {
    dir: PathBuf,
}

/// How a queue is opened (mq_open(3)).
#[derive(Clone, Copy, Debug)]
pub struct OpenArgs {
    /// The access mode, `O_NONBLOCK`, `O_CREAT` and `O_EXCL`; others are ignored. Descriptors are always closed by
    /// execve(2).
    pub flags: OFlags,
    /// The permissions of a new queue, reduced by the umask.
    pub mode: u32,
    /// The size of a new queue; `None`: the namespace's default.
    pub size: Option<Size>,
}

/// The size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The most messages.
    pub maxmsg: i64,
    /// The longest message in bytes.
    pub msgsize: i64,
}

impl Mounted {
    /// The queues of a directory, which is checked when one is opened.
    pub fn new(dir: impl Into<PathBuf>) -> Mounted {
        Mounted { dir: dir.into() }
    }

    /// Whether the directory is a mount of queues.
    ///
    /// # Errors
    /// `ENOSYS`: it is not.
    pub fn check(&self) -> Result<(), Errno> {
        check_is_mount(self.dir()?.as_fd())
    }

    /// Opens the queue `name`, which starts with a slash, and creates it if `how` requests that.
    ///
    /// # Errors
    /// `ENOSYS`: the directory is not a mount of queues. `EINVAL`, `EACCES`, `ENOENT`, `ENAMETOOLONG`: no such name is
    /// possible. `EINVAL`: no such access mode, or size. `ENOENT`, `EEXIST`, `EACCES`, `ENOSPC`, `EMFILE` as
    /// mq_open(3) has them.
    pub fn open(&self, name: &[u8], how: &OpenArgs) -> Result<OwnedFd, Errno> {
        let name = checked(name)?;
        let how = OpenArgs {
            flags: how.flags & FLAGS,
            ..*how
        };
        if how.flags.contains(NO_MODE) {
            return Err(Errno::INVAL);
        }
        let dir = self.dir()?;
        // Checked first: opening a file that is not a queue may have effects.
        check_is_mount(dir.as_fd())?;
        let exclusive = OFlags::CREATE | OFlags::EXCL;
        if how.flags.contains(exclusive) {
            return create(dir.as_fd(), name, &how);
        }
        loop {
            match open_existing(dir.as_fd(), name, how.flags - exclusive) {
                Err(Errno::NOENT) if how.flags.contains(OFlags::CREATE) => {}
                opened => return opened,
            }
            match create(dir.as_fd(), name, &how) {
                // Another process created it since.
                Err(Errno::EXIST) => {}
                created => return created,
            }
        }
    }

    /// Removes the name of a queue. The queue stays while it is open.
    ///
    /// # Errors
    /// `ENOSYS`: the directory is not a mount of queues. `EINVAL`, `EACCES`, `ENOENT`, `ENAMETOOLONG`: no such name is
    /// possible. `ENOENT`: no such queue. `EPERM`: it is not the caller's.
    pub fn unlink(&self, name: &[u8]) -> Result<(), Errno> {
        let name = checked(name)?;
        let dir = self.dir()?;
        check_is_mount(dir.as_fd())?;
        rustix::fs::unlinkat(&dir, name, AtFlags::empty())
    }

    /// The directory, for opening what is in it.
    fn dir(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(&self.dir, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Err(Errno::NOSYS),
            opened => opened,
        }
    }
}

/// The part of a queue's name after the slash.
fn checked(name: &[u8]) -> Result<&[u8], Errno> {
    name::check(name).map_err(|e| Errno::from_raw_os_error(e.errno().0))
}

/// Opens a queue that exists.
fn open_existing(dir: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(dir, name, flags, Mode::empty())
}

/// Makes a queue that does not exist.
fn create(dir: BorrowedFd<'_>, name: &[u8], how: &OpenArgs) -> Result<OwnedFd, Errno> {
    if let Some(size) = how.size {
        // Existence is reported before a wrong size.
        if rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Err(Errno::EXIST);
        }
        prepare(dir, name, size)?;
    }
    let mode = Mode::from_raw_mode(how.mode & 0o7777);
    let flags = how.flags | OFlags::CREATE | OFlags::EXCL;
    let fd = openat(dir, name, flags, mode);
    if let (Err(_), Some(_)) = (&fd, how.size) {
        // The kernel may have reported it by itself, while the server still waits for the queue.
        let forget = Size {
            maxmsg: protocol::FORGET,
            msgsize: 0,
        };
        let _ = prepare(dir, name, forget);
    }
    fd
}

fn openat(dir: BorrowedFd<'_>, name: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, mode)
}

/// Sends the size of the queue that this thread creates next under that name.
fn prepare(dir: BorrowedFd<'_>, name: &[u8], size: Size) -> Result<(), Errno> {
    const HEAD_BYTES: usize = size_of::<Prepare>();
    let prepare = Prepare {
        maxmsg: size.maxmsg,
        msgsize: size.msgsize,
    };
    let mut room = [0; HEAD_BYTES + NAME_BYTES_MAX];
    let memory = room.get_mut(..HEAD_BYTES + name.len());
    let memory = memory.ok_or(Errno::NAMETOOLONG)?;
    memory[..HEAD_BYTES].copy_from_slice(prepare.as_bytes());
    memory[HEAD_BYTES..].copy_from_slice(name);
    let dir = listable(dir)?;
    let prepared =
        rustix::io::retry_on_intr(|| ioctl::call(dir.as_fd(), protocol::PREPARE, memory));
    prepared.map_err(no_mount).map(drop)
}

/// `ENOSYS` if it is not the directory of a mount.
fn check_is_mount(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    match rustix::fs::statat(dir, &PROBE[..], AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOTUNIQ) => Ok(()),
        Err(Errno::ACCESS) => Err(Errno::ACCESS),
        Ok(_) | Err(_) => Err(Errno::NOSYS),
    }
}

/// The directory, opened for ioctls.
fn listable(dir: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(dir, c".", flags, Mode::empty())
}

/// The error for a directory that is not a mount.
const fn no_mount(e: Errno) -> Errno {
    match e {
        Errno::NOTTY | Errno::OPNOTSUPP | Errno::NODATA => Errno::NOSYS,
        e => e,
    }
}
