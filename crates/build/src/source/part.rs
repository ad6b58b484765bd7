//! Files of the host that hold data of archives, and parts of them.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use super::positioned::{read_at, read_exact_at};
use crate::tree::Segment;

/// A file of the host.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    Open(Arc<File>),
    /// It is opened when it is read, as there may be thousands.
    Closed(Arc<Closed>),
}

/// A file of the host that is not open, and by what it is known again.
#[derive(Debug)]
pub(crate) struct Closed {
    path: PathBuf,
    state: State,
}

/// What is different in another file, and in one that was written to.
type State = (u64, u64, u64, i64, i64);

/// What `std` knows of a file that others may write.
#[cfg(not(unix))]
fn state(metadata: &Metadata) -> State {
    let modified = metadata.modified().ok();
    let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let since = since.unwrap_or_default();
    let (sec, nsec) = (since.as_secs().cast_signed(), since.subsec_nanos().into());
    (0, 0, metadata.len(), sec, nsec)
}

#[cfg(unix)]
fn state(metadata: &Metadata) -> State {
    use std::os::unix::fs::MetadataExt;
    (
        metadata.dev(),
        metadata.ino(),
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec(),
    )
}

impl Store {
    /// The file, open.
    ///
    /// # Errors
    /// The host's; another file has its name, or it was written to.
    pub fn file(&self) -> io::Result<Arc<File>> {
        let closed = match self {
            Store::Open(file) => return Ok(file.clone()),
            Store::Closed(closed) => closed,
        };
        let fail = |e| io::Error::other(format!("{}: {e}", closed.path.display()));
        let file = File::open(&closed.path).map_err(fail)?;
        match state(&file.metadata().map_err(fail)?) == closed.state {
            true => Ok(Arc::new(file)),
            false => Err(fail(io::Error::other("changed since it was first read"))),
        }
    }
}

/// A file in a store.
pub(crate) struct Stored<'a> {
    pub file: &'a File,
    /// Where its data begins.
    pub at: u64,
    pub size: u64,
    pub segments: &'a [Segment],
    /// Bytes of the data before each segment.
    pub before: &'a [u64],
}

impl Stored<'_> {
    /// Reads a part of it; holes are zeros.
    pub fn read(&self, from: u64, bytes: &mut [u8]) -> std::io::Result<usize> {
        let end = (from + bytes.len() as u64).min(self.size);
        let len = end.saturating_sub(from) as usize;
        bytes[..len].fill(0);
        let first = self.segments.partition_point(|segment| segment.end <= from);
        let parts = self.segments.iter().zip(self.before).skip(first);
        for (segment, before) in parts.take_while(|(segment, _)| segment.start < end) {
            let (start, stop) = (segment.start.max(from), segment.end.min(end));
            let part = &mut bytes[(start - from) as usize..(stop - from) as usize];
            let at = self.at + before + (start - segment.start);
            read_exact_at(self.file, part, at)?;
        }
        Ok(len)
    }
}

/// The data of a file with holes, which its store has without them.
#[derive(Debug)]
pub(crate) struct Holes {
    segments: Vec<Segment>,
    /// Bytes of data before each segment.
    before: Vec<u64>,
}

impl Holes {
    /// Between segments, which are in order.
    pub fn between(segments: Vec<Segment>) -> Holes {
        let before = segments.iter().scan(0, |bytes, segment| {
            let before = *bytes;
            *bytes += segment.end - segment.start;
            Some(before)
        });
        Holes {
            before: before.collect(),
            segments,
        }
    }
}

/// Bytes of a file from `at`. Copies have positions of their own.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub store: Store,
    /// The first byte in the store.
    pub at: u64,
    pub len: u64,
    holes: Option<Arc<Holes>>,
    position: u64,
    /// The store, from the first byte that is read on.
    open: Option<Arc<File>>,
}

impl Part {
    /// `len` bytes from `at`.
    pub fn new(store: Store, at: u64, len: u64) -> Part {
        Part {
            store,
            at,
            len,
            holes: None,
            position: 0,
            open: None,
        }
    }

    /// With holes: `len` bytes, of which those that are data follow each other from `at`.
    pub fn with_holes(self, holes: Holes) -> Part {
        Part {
            holes: Some(Arc::new(holes)),
            ..self
        }
    }

    /// All of a file.
    pub fn whole(file: File) -> io::Result<Part> {
        let len = file.metadata()?.len();
        Ok(Part::new(Store::Open(Arc::new(file)), 0, len))
    }

    /// All of a file, which is opened when it is read.
    pub fn of_path(path: PathBuf) -> io::Result<Part> {
        let metadata = std::fs::metadata(&path)?;
        if !metadata.is_file() {
            return Err(io::Error::other("is not a file"));
        }
        let (len, state) = (metadata.len(), state(&metadata));
        let closed = Closed { path, state };
        Ok(Part::new(Store::Closed(Arc::new(closed)), 0, len))
    }

    /// Whether the bytes are in the store as they are read.
    pub fn is_dense(&self) -> bool {
        self.holes.is_none()
    }
}

impl Read for Part {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = (self.len - self.position).min(bytes.len() as u64) as usize;
        if most == 0 {
            return Ok(0);
        }
        let file = match self.open.take() {
            Some(file) => file,
            None => self.store.file()?,
        };
        let file = &*self.open.insert(file);
        let n = match &self.holes {
            None => read_at(file, &mut bytes[..most], self.at + self.position)?,
            Some(holes) => {
                let stored = Stored {
                    file,
                    at: self.at,
                    size: self.len,
                    segments: &holes.segments,
                    before: &holes.before,
                };
                stored.read(self.position, &mut bytes[..most])?
            }
        };
        self.position += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "..abcde").unwrap();
        let segments = [(1, 3), (5, 8)].map(|(start, end)| Segment { start, end });
        let store = Part::of_path(path).unwrap().store;
        let part = Part::new(store, 2, 10).with_holes(Holes::between(segments.into()));
        let mut bytes = Vec::new();
        part.clone().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"\0ab\0\0cde\0\0");
    }

    #[test]
    fn a_file_that_changed_is_not_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "one").unwrap();
        let part = Part::of_path(path.clone()).unwrap();
        let mut text = String::new();
        part.clone().read_to_string(&mut text).unwrap();
        assert_eq!(text, "one");
        std::fs::write(&path, "longer").unwrap();
        let error = part.clone().read_to_string(&mut text).unwrap_err();
        assert!(error.to_string().contains("changed since"), "{error}");
        Part::of_path(dir.path().to_owned()).unwrap_err();
    }
}
