//! What was read of a store, on the disk of this host: it survives restarts, and is bounded.

use super::chunk::Chunk;
use super::names::Segment;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{Mutex, class};

/// A directory with a file for each chunk. A file that is missing, damaged or cut is read from the store again: nothing in here is needed, and
/// whether bytes are right is decided by the checksums of the image.
#[derive(Debug)]
pub struct DiskCache {
    dir: PathBuf,
    bytes_max: u64,
    files: Mutex<Files>,
    /// Differs between the names of files that are being written.
    next: AtomicU64,
}

/// The files by their last use.
#[derive(Debug, Default)]
struct Files {
    uses: BTreeMap<u64, (Chunk, u64)>,
    bytes: u64,
    now: u64,
}

impl DiskCache {
    /// Uses a directory, and what it has.
    ///
    /// # Errors
    /// The host's.
    pub fn open(dir: &Path, bytes_max: u64) -> std::io::Result<DiskCache> {
        fs::create_dir_all(dir)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            // Another process may have removed it meanwhile.
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            match entry.file_name().to_str().and_then(parse) {
                Some(chunk) => found.push((metadata.modified()?, chunk, metadata.len())),
                // Of a process that ended while it wrote; one that lives reads it again.
                None => {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
        found.sort_by_key(|(modified, ..)| *modified);
        let mut files = Files::default();
        for (_, chunk, len) in found {
            files.add(chunk, len);
        }
        let cache = DiskCache {
            dir: dir.to_owned(),
            bytes_max,
            files: Mutex::new(&class::DEVICE, files),
            next: AtomicU64::new(0),
        };
        cache.evict();
        Ok(cache)
    }

    /// A chunk that it has.
    pub fn get(&self, chunk: Chunk) -> Option<Vec<u8>> {
        fs::read(self.path(chunk)).ok()
    }

    /// Keeps a chunk, if the host can.
    pub fn put(&self, chunk: Chunk, bytes: &[u8]) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let new = self
            .dir
            .join(format!("new-{}-{number}", std::process::id()));
        let written = fs::write(&new, bytes).and_then(|()| fs::rename(&new, self.path(chunk)));
        if written.is_err() {
            let _ = fs::remove_file(&new);
            return;
        }
        self.files.lock().add(chunk, bytes.len() as u64);
        self.evict();
    }

    /// Forgets a chunk.
    pub fn remove(&self, chunk: Chunk) {
        let _ = fs::remove_file(self.path(chunk));
    }

    fn path(&self, chunk: Chunk) -> PathBuf {
        let Segment { epoch, number } = chunk.segment;
        self.dir.join(format!("{epoch}-{number}-{}", chunk.index))
    }

    /// Removes the oldest until the rest fits.
    fn evict(&self) {
        let mut files = self.files.lock();
        let mut gone = Vec::new();
        while files.bytes > self.bytes_max {
            let Some((_, (chunk, len))) = files.uses.pop_first() else {
                break;
            };
            files.bytes -= len;
            gone.push(chunk);
        }
        drop(files);
        for chunk in gone {
            self.remove(chunk);
        }
    }
}

impl Files {
    fn add(&mut self, chunk: Chunk, len: u64) {
        self.now += 1;
        self.bytes += len;
        self.uses.insert(self.now, (chunk, len));
    }
}

/// Reads the name of a file.
fn parse(name: &str) -> Option<Chunk> {
    let mut parts = name.split('-');
    let chunk = Chunk {
        segment: Segment {
            epoch: parts.next()?.parse().ok()?,
            number: parts.next()?.parse().ok()?,
        },
        index: parts.next()?.parse().ok()?,
    };
    parts.next().is_none().then_some(chunk)
}
