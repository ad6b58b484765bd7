//! A part of a file, read from its beginning.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes of a file from `at` to `end`. Copies have positions of their own.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub file: Arc<File>,
    pub at: u64,
    pub end: u64,
    position: u64,
}

impl Part {
    /// `len` bytes from `at`.
    pub fn new(file: Arc<File>, at: u64, len: u64) -> Part {
        Part {
            file,
            at,
            end: at + len,
            position: at,
        }
    }

    /// All of a file.
    pub fn whole(file: File) -> io::Result<Part> {
        let len = file.metadata()?.len();
        Ok(Part::new(Arc::new(file), 0, len))
    }
}

impl Read for Part {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = (self.end - self.position).min(bytes.len() as u64) as usize;
        let n = self.file.read_at(&mut bytes[..most], self.position)?;
        self.position += n as u64;
        Ok(n)
    }
}
