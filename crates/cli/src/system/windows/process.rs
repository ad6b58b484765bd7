//! Processes and users.

use std::fs::File;
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::process::{Child, Command, ExitStatus};

/// The number that stands for a pipe whose reader is gone, as on Unix.
pub const SIGPIPE: i32 = 13;
/// The number of the signal that asks a process to end.
pub const SIGTERM: i32 = 15;

/// Of CreateFileW: opens directories as well.
const BACKUP_SEMANTICS: u32 = 0x0200_0000;

/// A process that was started.
#[derive(Clone, Copy)]
pub struct Process;

impl Process {
    /// The process of a child.
    pub fn of(_: &Child) -> Process {
        Process
    }

    /// Nothing: what Ctrl-C asks to end is all processes of the console, and there are no other signals.
    pub fn signal(self, _: i32) {}

    /// Nothing: only a handle names a process.
    ///
    /// # Errors
    /// None.
    pub fn wait_for_end(self) -> io::Result<()> {
        Ok(())
    }
}

/// This program.
///
/// # Errors
/// The host's.
pub fn this_program() -> io::Result<Command> {
    Ok(Command::new(std::env::current_exe()?))
}

/// Runs a command and exits as it does; returns if it can't be started.
pub fn replace_by(command: &mut Command) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(e) => e,
    }
}

/// The signal that ended a process: none does.
pub fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}

/// The standard input of a process that is to have none, which can't be read: an empty one would be taken for what it asks for.
///
/// # Errors
/// The host's.
pub fn no_input() -> io::Result<File> {
    let mut options = File::options();
    options.read(true).custom_flags(BACKUP_SEMANTICS);
    options.open(std::env::temp_dir())
}

/// Nothing: locks are not inherited.
///
/// # Errors
/// None.
pub fn inherit(_: &File) -> io::Result<()> {
    Ok(())
}

/// The user and the group of this process: root, as files of the host have no other.
pub fn owner() -> (u32, u32) {
    (0, 0)
}

/// Windows has no umask.
pub fn umask() -> Option<u16> {
    None
}
