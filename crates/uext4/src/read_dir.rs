//! The entries of a directory, one after the other.

use crate::{Errno, Error, FileKind, FileSystem, Filesystem, InodeRef, Result};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Entries that are fetched at once.
const BATCH: usize = 256;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    name: Vec<u8>,
    ino: u64,
    kind: Option<FileKind>,
}

impl Entry {
    /// The name.
    pub fn file_name(&self) -> &OsStr {
        OsStr::from_bytes(&self.name)
    }

    /// The name as bytes.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The name, without copying it.
    pub fn into_name(self) -> OsString {
        OsString::from_vec(self.name)
    }

    /// The inode number.
    pub fn ino(&self) -> u64 {
        self.ino
    }

    /// The kind of file, where the directory says.
    pub fn kind(&self) -> Option<FileKind> {
        self.kind
    }
}

/// The entries of a directory, without `.` and `..`. An entry that exists all the time comes once.
#[derive(Debug)]
pub struct ReadDir {
    /// Let go before the mount, which may end with it.
    dir: InodeRef,
    fs: Filesystem,
    cookie: u64,
    batch: VecDeque<Entry>,
    /// No more is to come after `batch`.
    done: bool,
}

impl ReadDir {
    pub(crate) fn new(fs: Filesystem, dir: InodeRef) -> Result<ReadDir> {
        let mut entries = ReadDir {
            fs,
            dir,
            cookie: 0,
            batch: VecDeque::new(),
            done: false,
        };
        entries.fetch()?;
        Ok(entries)
    }

    fn fetch(&mut self) -> Result<()> {
        let ReadDir {
            fs,
            dir,
            cookie,
            batch,
            done,
        } = self;
        *done = true;
        let start = *cookie;
        fs.vfs().readdir(&fs.caller, dir, start, &mut |entry| {
            if batch.len() == BATCH {
                *done = false;
                return false;
            }
            *cookie = entry.cookie;
            if entry.name != b"." && entry.name != b".." {
                batch.push_back(Entry {
                    name: entry.name.to_vec(),
                    ino: entry.ino,
                    kind: entry.kind,
                });
            }
            true
        })
    }
}

impl Iterator for ReadDir {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        if self.batch.is_empty()
            && !self.done
            && let Err(e) = self.fetch()
        {
            return Some(Err(e));
        }
        let entry = self.batch.pop_front()?;
        // Whoever joins a name to a path relies on it; a damaged image can hold anything.
        if entry.name.is_empty() || entry.name.iter().any(|b| matches!(b, b'/' | 0)) {
            let what = format!("directory {}: illegal name", self.dir.ino);
            return Some(Err(Error::new(Errno::EUCLEAN).context(what)));
        }
        Some(Ok(entry))
    }
}
