//! What a server says on standard error, which is something only when it dies: of a panic, or of memory that it did not
//! get.
//!
//! # Invariants
//! What is passed on is one line of text, and bounded: whoever took over the server may have written it.

use rustix::io::Errno;
use std::fmt::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How much is kept, in bytes: the end.
const KEPT_BYTES: usize = 2 << 10;

/// What the Rust library says when it ends the process for want of memory.
const NO_MEMORY: &str = "memory allocation of";

/// The other end of a server's standard error.
#[derive(Debug)]
pub struct LastWords {
    /// `None` once the server has closed it.
    pipe: Option<OwnedFd>,
    tail: Vec<u8>,
}

impl LastWords {
    /// Of the server that has the other end of `pipe`.
    pub fn new(pipe: OwnedFd) -> LastWords {
        LastWords {
            pipe: Some(pipe),
            tail: Vec::new(),
        }
    }

    /// Where something may come from.
    pub fn source(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Takes what is there; waits until there is something.
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

    /// All of it, of a server that is dead, as a part of a message that follows what happened.
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
            words.push_str("; give it more with -o memory=SIZE");
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
        LastWords::new(reader.into()).finish()
    }

    #[test]
    fn one_line_without_control_characters_is_passed_on() {
        assert_eq!(passed_on(b""), "");
        assert_eq!(passed_on(b"\n a \n\nb\n"), ": a; b");
        let said = passed_on(b"\x1b]0;x\x07\xc2\x9b31m\xff");
        assert_eq!(said, ": \\u{1b}]0;x\\u{7}\\u{9b}31m\u{fffd}");
        let said = passed_on(b"memory allocation of 7 bytes failed\n");
        assert!(said.ends_with("failed; give it more with -o memory=SIZE"));
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
