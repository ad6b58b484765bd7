//! The data of files in archives, by position.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::source::positioned::write_all_at;

/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;

/// A file without a name, to which data is added. Several archives that are read one after the other share one.
pub(crate) struct Spool {
    dir: PathBuf,
    file: Arc<File>,
    buffer: Vec<u8>,
    /// Bytes in the file.
    written: u64,
}

/// The directory of a spool has no room, or refuses it otherwise.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub(crate) struct SpoolError {
    pub dir: PathBuf,
    pub source: io::Error,
}

impl SpoolError {
    fn of(dir: &Path, source: io::Error) -> io::Error {
        let dir = dir.to_owned();
        io::Error::other(SpoolError { dir, source })
    }
}

impl Spool {
    /// An empty one in a directory of the host. What it takes there is free again when it is closed, however this process ends.
    ///
    /// # Errors
    /// [`SpoolError`], in an error of the host.
    pub fn new_in(dir: &Path) -> io::Result<Spool> {
        let file = tempfile::tempfile_in(dir).map_err(|e| SpoolError::of(dir, e))?;
        Ok(Spool {
            dir: dir.to_owned(),
            file: Arc::new(file),
            buffer: Vec::with_capacity(BUFFER),
            written: 0,
        })
    }

    /// Where the next byte will be.
    pub fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// The file, with all that was added so far.
    ///
    /// # Errors
    /// [`SpoolError`], in an error of the host.
    pub fn file(&mut self) -> io::Result<Arc<File>> {
        self.flush()?;
        Ok(self.file.clone())
    }

    fn put(&self, bytes: &[u8]) -> io::Result<()> {
        let written = write_all_at(&self.file, bytes, self.written);
        written.map_err(|e| SpoolError::of(&self.dir, e))
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
                self.put(bytes)?;
                self.written += bytes.len() as u64;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.put(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::positioned::read_exact_at;

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
        let file = spool.file().unwrap();
        for (part, at) in parts.iter().zip(places) {
            let mut bytes = vec![0; part.len()];
            read_exact_at(&file, &mut bytes, at).unwrap();
            assert_eq!(bytes, *part);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
