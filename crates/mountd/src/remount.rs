//! `mount -o remount`: options of a mount that change while it is in use.
//!
//! Kernel and server each have a part. A mount becomes read-only in the kernel first, which refuses while a file is open
//! for writing, and writable there last: so neither ever lets a change through that the other would not take.
//!
//! # Invariants
//! The flags passed to the kernel follow from its own list of mounts and from the given options, never from what
//! the server answers: root may remount what a user's server serves.

use crate::ask::{self, AskError};
use crate::mountinfo::{self, MountEntry};
use crate::options::{OptionError, Options};
use crate::stats;
use crate::write_back::write_back;
use rustix::io::Errno;
use rustix::mount::mount_remount;
use std::io;
use std::path::Path;
use std::time::Duration;
use uext4_fuse::KernelFlags;

/// The attempts of a change while files are in use, and the pause between two attempts.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// A mount keeps its options.
#[derive(Debug, thiserror::Error)]
pub enum RemountError {
    /// The directory can't be found or opened, or the kernel refuses.
    #[error("{0}")]
    Host(#[from] io::Error),
    /// There is no mount.
    #[error("nothing is mounted there")]
    NotMounted,
    /// It is another's.
    #[error("not a mount of uext4 but of {0}; mount(8) remounts it")]
    NotOurs(String),
    /// An option is wrong.
    #[error("{0}")]
    Option(#[from] OptionError),
    /// A file is open for writing, or has lost its name.
    #[error("in use: a file is open for writing or {0}; close it (fuser -m lists the processes)")]
    Busy(String),
    /// The kernel takes such a change from root alone.
    #[error("option '{0}' of a mount is root's to change; unmount it, and mount it again")]
    RootOnly(&'static str),
    /// The server does not answer.
    #[error("its server does not answer; uext4 umount --lazy takes the mount away")]
    Hung,
    /// The server refuses.
    #[error("{0}")]
    Refused(String),
}

/// Changes the mount at `dir` as the lists of all `-o` say. What they do not name stays as it is.
///
/// A change to read-only that fails changes nothing. Where the server accepts a change and the kernel then refuses it, the
/// server keeps it, but for becoming writable.
///
/// # Locks
/// Waits for about a second at most where files are in use.
///
/// # Errors
/// It is not a uext4 mount, or keeps its options.
pub fn remount(dir: &Path, lists: &[String]) -> Result<(), RemountError> {
    let dir = mountinfo::absolute(dir)?;
    let entry = MountEntry::at(&dir)?.ok_or(RemountError::NotMounted)?;
    if !entry.is_ours() {
        return Err(RemountError::NotOurs(entry.kind));
    }
    let before = entry.flags;
    // Options that only the server knows, it checks.
    let wanted = kernel_part(&Options::with_kernel_flags(before), lists)?.kernel_flags();
    // Nothing ends the wait for a server that hangs.
    stats::read_from_afar(&dir).map_err(|_| RemountError::Hung)?;
    // Whether there is one that knows of remounts, and takes them from this user.
    ask(&dir, "remount")?;
    let is_root = rustix::process::geteuid().is_root();
    if !is_root && let Some(name) = root_only(before, wanted) {
        return Err(RemountError::RootOnly(name));
    }
    let question = lists.join(",");
    if wanted.read_only && !before.read_only {
        retry_while_busy(|| in_kernel(&dir, wanted))?;
        let written = write_back(&dir, || {}).map_err(unchanged);
        let changed = written.and_then(|()| retry_while_busy(|| ask(&dir, &question)));
        return changed.inspect_err(|_| {
            // As it was; the server has changed nothing.
            let _ = in_kernel(&dir, before);
        });
    }
    retry_while_busy(|| ask(&dir, &question))?;
    if is_root && let Err(e) = in_kernel(&dir, wanted) {
        if before.read_only && !wanted.read_only {
            let _ = retry_while_busy(|| ask(&dir, "ro"));
        }
        return Err(e);
    }
    Ok(())
}

/// What the lists make of options of which only the kernel's part is known.
fn kernel_part(known: &Options, lists: &[String]) -> Result<Options, OptionError> {
    let mut options = known.clone();
    for list in lists {
        options.apply_list(list)?;
    }
    Ok(options)
}

/// An option that would change and that only root may change.
fn root_only(before: KernelFlags, after: KernelFlags) -> Option<&'static str> {
    let of = |flags: KernelFlags| {
        [
            ("ro", flags.read_only),
            ("suid", !flags.nosuid),
            ("dev", !flags.nodev),
            ("noexec", flags.noexec),
        ]
    };
    let mut pairs = of(before).into_iter().zip(of(after));
    pairs.find(|(old, new)| old != new).map(|(old, _)| old.0)
}

fn in_kernel(dir: &Path, flags: KernelFlags) -> Result<(), RemountError> {
    match mount_remount(dir, flags.mount_flags(), c"") {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(RemountError::Busy("is being removed".to_owned())),
        Err(e) => Err(io::Error::from(e).into()),
    }
}

/// Retries a change while files are in use: the kernel releases closed files a moment later.
fn retry_while_busy(change: impl Fn() -> Result<(), RemountError>) -> Result<(), RemountError> {
    for _ in 1..TRIES {
        match change() {
            Err(RemountError::Busy(_)) => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
    change()
}

/// Asks the server for changes.
fn ask(dir: &Path, question: &str) -> Result<(), RemountError> {
    ask::ask(dir, question).map_err(unchanged)
}

fn unchanged(e: AskError) -> RemountError {
    match e {
        AskError::Busy(message) => RemountError::Busy(message),
        AskError::Host(e) => RemountError::Host(e),
        AskError::Unknown => RemountError::Refused(
            "it keeps its options, as message queues do; unmount it, and mount it again".to_owned(),
        ),
        e => RemountError::Refused(e.to_string()),
    }
}
