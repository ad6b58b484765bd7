//! Where a mount says what goes wrong: on the terminal, or in the system's log.

use std::fmt;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process;
use uext4::unstable::{Severity, printable, to_stderr};

/// Where syslog and the journal listen.
const SYSTEM_SOCKET: &str = "/dev/log";

/// The facility `daemon` of syslog(3).
const DAEMON: u8 = 3 << 3;

/// Where a mount says what goes wrong.
#[derive(Clone, Debug)]
pub enum Log {
    /// On standard error.
    Terminal,
    /// In the system's log, if one is running.
    System(PathBuf),
}

impl Log {
    /// The system's log.
    pub fn system() -> Log {
        Log::System(SYSTEM_SOCKET.into())
    }

    /// Says something, without what could control a terminal.
    pub fn say(&self, severity: Severity, message: impl fmt::Display) {
        let message = message.to_string();
        let message = printable(&message);
        match self {
            Log::Terminal => to_stderr(format_args!("uext4: {message}")),
            // There is no other place to report it.
            Log::System(socket) => drop(send(socket, severity, &message)),
        }
    }
}

/// Sends a line as syslog(3) does, without the time, which the other side knows. Does not wait: a log that is behind
/// must not hold up an unmount.
fn send(socket: &Path, severity: Severity, message: &str) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.connect(socket)?;
    let priority = DAEMON | severity as u8;
    let line = format!("<{priority}>uext4[{}]: {message}", process::id());
    sender.send(line.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_gets_lines_of_syslog() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("log");
        // No system log is running.
        Log::System(socket.clone()).say(Severity::Error, "lost");
        let listener = UnixDatagram::bind(&socket).unwrap();
        Log::System(socket).say(Severity::Warning, "kept\u{9b}");
        let mut line = [0; 100];
        let len = listener.recv(&mut line).unwrap();
        let line = std::str::from_utf8(&line[..len]).unwrap();
        assert_eq!(line, format!("<28>uext4[{}]: kept\\u{{9b}}", process::id()));
    }
}
