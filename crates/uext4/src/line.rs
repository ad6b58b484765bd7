//! A line for a terminal.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::io::Write as _;

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
}
