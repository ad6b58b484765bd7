//! Processes and users.

use rustix::io::{FdFlags, fcntl_setfd, retry_on_intr};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

/// The number of the signal of a pipe whose reader is gone.
pub const SIGPIPE: i32 = signal_hook::consts::SIGPIPE;

/// The number of the signal that asks a process to end.
pub const SIGTERM: i32 = signal_hook::consts::SIGTERM;

/// A process that was started, and that is not waited for yet, so that the number is its own.
#[derive(Clone, Copy)]
pub struct Process(Pid);

impl Process {
    /// The process of a child.
    pub fn of(child: &Child) -> Process {
        Process(Pid::from_child(child))
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = kill_process(self.0, signal);
        }
    }

    /// Waits until it has ended. Its number stays its own.
    ///
    /// # Errors
    /// The host's.
    pub fn wait_for_end(self) -> io::Result<()> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        retry_on_intr(|| waitid(WaitId::Pid(self.0), options))?;
        Ok(())
    }
}

/// This program, whatever became of its file.
///
/// # Errors
/// The host's.
pub fn this_program() -> io::Result<Command> {
    #[cfg(target_os = "linux")]
    let mut command = Command::new("/proc/self/exe");
    #[cfg(not(target_os = "linux"))]
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0("uext4");
    Ok(command)
}

/// Replaces this process; returns if it can't.
pub fn replace_by(command: &mut Command) -> io::Error {
    command.exec()
}

/// The signal that ended a process, if one did.
pub fn signal_of(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// The standard input of a process that is to have none, which can't be read: an empty one would be taken for what it asks for. A
/// directory, as std takes a descriptor that is only written for an empty one.
///
/// # Errors
/// The host's.
pub fn no_input() -> io::Result<File> {
    File::open("/")
}

/// Lets processes that are started have the file open as well.
///
/// # Errors
/// The host's.
pub fn inherit(file: &File) -> io::Result<()> {
    Ok(fcntl_setfd(file, FdFlags::empty())?)
}

/// The user and the group of this process.
pub fn owner() -> (u32, u32) {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    (uid.as_raw(), gid.as_raw())
}

/// What the process's umask takes from the bits of new files.
#[cfg(target_os = "linux")]
pub fn umask() -> Option<u16> {
    // Asking for it by umask(2) would set it for a moment.
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))?;
    u16::from_str_radix(mask.trim(), 8).ok()
}

/// What the process's umask takes from the bits of new files. What another thread makes for the first time while this asks gets no bits for
/// others.
#[cfg(not(target_os = "linux"))]
pub fn umask() -> Option<u16> {
    static MASK: std::sync::OnceLock<u16> = std::sync::OnceLock::new();
    Some(*MASK.get_or_init(|| {
        let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        rustix::process::umask(mask);
        (mask.as_raw_mode() & 0o777) as u16
    }))
}
