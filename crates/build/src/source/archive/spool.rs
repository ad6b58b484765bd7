//! The data of files in archives, by position.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;

/// A file without a name, to which data is added.
pub(crate) struct Spool {
    file: File,
    buffer: Vec<u8>,
    /// Bytes in the file.
    written: u64,
}

impl Spool {
    /// An empty one in a directory of the host. What it takes there is free again when it is closed, however this process ends.
    pub fn new_in(dir: &Path) -> io::Result<Spool> {
        Ok(Spool {
            file: tempfile::tempfile_in(dir)?,
            buffer: Vec::with_capacity(BUFFER),
            written: 0,
        })
    }

    /// Where the next byte will be.
    pub fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// The file, complete.
    pub fn finish(mut self) -> io::Result<File> {
        self.flush()?;
        Ok(self.file)
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        match bytes.len() < BUFFER {
            true => self.buffer.extend_from_slice(bytes),
            false => {
                self.file.write_all_at(bytes, self.written)?;
                self.written += bytes.len() as u64;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_the_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::new_in(dir.path()).unwrap();
        let parts = [
            vec![1; 10],
            vec![2; BUFFER + 5],
            vec![3; BUFFER - 1],
            vec![4; 7],
        ];
        let places = parts.each_ref().map(|part| {
            let at = spool.position();
            spool.write_all(part).unwrap();
            at
        });
        let file = spool.finish().unwrap();
        for (part, at) in parts.iter().zip(places) {
            let mut bytes = vec![0; part.len()];
            file.read_exact_at(&mut bytes, at).unwrap();
            assert_eq!(bytes, *part);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
