//! The entries of a directory, one after the other.

use crate::operation;
use crate::session::Session;
use std::collections::VecDeque;
use uext4_ext4::InodeRef;
use uext4_vfs::{Errno, Error, FileKind, FileSystem, Result};

/// Entries that are fetched at once.
const BATCH: usize = 256;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    name: Vec<u8>,
    ino: u64,
    kind: Option<FileKind>,
}

impl DirEntry {
    /// The name: 1 to 255 bytes, none of them `/` or 0.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The name, without a copy.
    pub fn into_name(self) -> Vec<u8> {
        self.name
    }

    /// The name as a string of the host.
    #[cfg(unix)]
    pub fn file_name(&self) -> &std::ffi::OsStr {
        std::os::unix::ffi::OsStrExt::from_bytes(&self.name)
    }

    /// The inode number.
    pub fn ino(&self) -> u64 {
        self.ino
    }

    /// The kind of file, if the directory records it (feature `filetype`).
    pub fn kind(&self) -> Option<FileKind> {
        self.kind
    }
}

/// The entries of a directory, without `.` and `..`.
///
/// An entry that exists during the whole iteration is returned once; one that is created or removed meanwhile may
/// be missing or not. Entries are fetched in batches of 256.
#[derive(Debug)]
pub struct ReadDir {
    /// Dropped before the mount, which may end with it.
    dir: InodeRef,
    session: Session,
    cookie: u64,
    batch: VecDeque<DirEntry>,
    /// `batch` is the last one.
    done: bool,
}

impl ReadDir {
    pub(crate) fn new(session: Session, dir: InodeRef) -> Result<ReadDir> {
        let mut entries = ReadDir {
            session,
            dir,
            cookie: 0,
            batch: VecDeque::new(),
            done: false,
        };
        entries.fetch()?;
        Ok(entries)
    }

    fn next_batch(&mut self) -> Result<()> {
        let dir = self.dir.clone();
        operation::run("read_dir", Some(&dir), b"", || self.fetch())
    }

    fn fetch(&mut self) -> Result<()> {
        let ReadDir {
            session,
            dir,
            cookie,
            batch,
            done,
        } = self;
        *done = true;
        let start = *cookie;
        let caller = &session.caller;
        session.vfs().readdir(caller, dir, start, &mut |entry| {
            if batch.len() == BATCH {
                *done = false;
                return false;
            }
            *cookie = entry.cookie;
            if entry.name != b"." && entry.name != b".." {
                batch.push_back(DirEntry {
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
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Result<DirEntry>> {
        self.advance(ReadDir::next_batch)
    }
}

impl ReadDir {
    /// The next entry, within another operation.
    pub(crate) fn next_inner(&mut self) -> Option<Result<DirEntry>> {
        self.advance(ReadDir::fetch)
    }

    fn advance(&mut self, fetch: fn(&mut ReadDir) -> Result<()>) -> Option<Result<DirEntry>> {
        if self.batch.is_empty()
            && !self.done
            && let Err(e) = fetch(self)
        {
            return Some(Err(e));
        }
        let entry = self.batch.pop_front()?;
        // A caller joins names to paths; a damaged image can hold any bytes.
        if entry.name.is_empty() || entry.name.iter().any(|b| matches!(b, b'/' | 0)) {
            let what = format!(
                "inode {}: directory entry has an illegal name",
                self.dir.ino
            );
            return Some(Err(Error::new(Errno::EUCLEAN).context(what)));
        }
        Some(Ok(entry))
    }
}
