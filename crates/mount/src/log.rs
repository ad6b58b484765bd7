//! Where a mount says what goes wrong: on the terminal, or in the system's log.

use std::fmt;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process;

/// Where syslog and the journal listen.
const SYSTEM_SOCKET: &str = "/dev/log";

/// The facility `daemon` of syslog(3).
const DAEMON: u8 = 3 << 3;

/// How bad it is; the numbers are those of syslog(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something is lost or damaged.
    Error = 3,
    /// Something is not as asked for.
    Warning = 4,
}

/// Where a mount says what goes wrong.
#[derive(Clone, Debug)]
pub enum Log {
    /// On standard error.
    Terminal,
    /// In the system's log, which listens there. Without one, nobody hears it.
    System(PathBuf),
}

impl Log {
    /// The system's log.
    pub fn system() -> Log {
        Log::System(SYSTEM_SOCKET.into())
    }

    /// Says something.
    pub fn say(&self, severity: Severity, message: impl fmt::Display) {
        match self {
            Log::Terminal => eprintln!("uext4: {message}"),
            // There is nobody else to tell.
            Log::System(socket) => drop(send(socket, severity, &message.to_string())),
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
        // Nobody listens.
        Log::System(socket.clone()).say(Severity::Error, "lost");
        let listener = UnixDatagram::bind(&socket).unwrap();
        Log::System(socket).say(Severity::Warning, "kept");
        let mut line = [0; 100];
        let len = listener.recv(&mut line).unwrap();
        let line = std::str::from_utf8(&line[..len]).unwrap();
        assert_eq!(line, format!("<28>uext4[{}]: kept", process::id()));
    }
}
