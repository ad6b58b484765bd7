//! The standard error of a server. It has output only when the server dies of a panic or of a failed allocation.
//!
//! # Invariants
//! The text that is passed on is one line and bounded: an attacker that controls the server may have written it.

use crate::failure::MORE_MEMORY;
use rustix::io::Errno;
use std::fmt::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The length of the tail that is kept.
const KEPT_BYTES: usize = 2 << 10;

/// The message of the Rust library when it aborts after a failed allocation.
const NO_MEMORY: &str = "memory allocation of";

/// The other end of a server's standard error.
#[derive(Debug)]
pub struct ServerStderr {
    /// `None` once the server has closed it.
    pipe: Option<OwnedFd>,
    tail: Vec<u8>,
}

impl ServerStderr {
    /// The standard error of the server that has the other end of `pipe`.
    pub fn new(pipe: OwnedFd) -> ServerStderr {
        ServerStderr {
            pipe: Some(pipe),
            tail: Vec::new(),
        }
    }

    /// The descriptor to poll; `None` once the server has closed it.
    pub fn source(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads available output; blocks if there is none.
    pub fn read(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let mut some = [0; KEPT_BYTES];
        match rustix::io::read(pipe, &mut some) {
            Ok(0) => self.pipe = None,
            Ok(len) => {
                self.tail.extend_from_slice(&some[..len]);
                let surplus = self.tail.len().saturating_sub(KEPT_BYTES);
                self.tail.drain(..surplus);
            }
            Err(Errno::INTR) => {}
            Err(_) => self.pipe = None,
        }
    }

    /// Reads the rest of a dead server's output and returns it as the end of an error message.
    pub fn finish(&mut self) -> String {
        while self.pipe.is_some() {
            self.read();
        }
        let text = String::from_utf8_lossy(&self.tail);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let mut words = String::new();
        for line in lines {
            words.push_str(if words.is_empty() { ": " } else { "; " });
            for c in line.chars() {
                // Writing to a string does not fail.
                let _ = match c.is_control() {
                    true => write!(words, "{}", c.escape_default()),
                    false => write!(words, "{c}"),
                };
            }
        }
        if words.contains(NO_MEMORY) {
            words.push_str("; ");
            words.push_str(MORE_MEMORY);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn passed_on(said: &[u8]) -> String {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(said).unwrap();
        drop(writer);
        ServerStderr::new(reader.into()).finish()
    }

    #[test]
    fn one_line_without_control_characters_is_passed_on() {
        assert_eq!(passed_on(b""), "");
        assert_eq!(passed_on(b"\n a \n\nb\n"), ": a; b");
        let said = passed_on(b"\x1b]0;x\x07\xc2\x9b31m\xff");
        assert_eq!(said, ": \\u{1b}]0;x\\u{7}\\u{9b}31m\u{fffd}");
        let said = passed_on(b"memory allocation of 7 bytes failed\n");
        assert!(said.ends_with("failed; give the server more with -o memory=SIZE"));
    }

    #[test]
    fn the_end_of_much_is_passed_on() {
        let mut said = vec![b'x'; 20 << 10];
        said.extend_from_slice(b"the end");
        let words = passed_on(&said);
        assert!(words.ends_with("xthe end"), "{words}");
        assert_eq!(words.len(), ": ".len() + KEPT_BYTES);
    }
}
