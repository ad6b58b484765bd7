//! Where a mount says what goes wrong: on the terminal, or in the system's log.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::io::{self, Write as _};
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
    /// Detail that is reported only on request.
    Debug = 7,
}

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

/// A line on standard error; whether it can be written makes no difference to the caller.
pub fn to_stderr(line: fmt::Arguments<'_>) {
    // In one write, so that lines of several processes do not mix.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// The text as one line that controls no terminal: control characters, those of ISO 6429 above ASCII too, become
/// `\x1b` and `\u{9b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a string does not fail.
        let _ = match c {
            '\n' => write!(line, " "),
            c if c.is_ascii_control() => write!(line, "\\x{:02x}", u32::from(c)),
            c if c.is_control() => write!(line, "\\u{{{:x}}}", u32::from(c)),
            c => write!(line, "{c}"),
        };
    }
    Cow::Owned(line)
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
    fn nothing_controls_a_terminal() {
        assert_eq!(printable("caf\u{e9} \u{a0}"), "caf\u{e9} \u{a0}");
        let text = "a\x1b[31m\n\x7f\u{80}\u{9b}2J\u{9f}\0";
        let line = r"a\x1b[31m \x7f\u{80}\u{9b}2J\u{9f}\x00";
        assert_eq!(printable(text), line);
    }

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
