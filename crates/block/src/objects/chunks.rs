//! What was read of segments, kept in memory and on the disk of this host.

use super::chunk::{CHUNK, Chunk};
use super::disk_cache::DiskCache;
use super::names::Segment;
use super::page::{BLOCK, Location};
use super::store::{ObjectStore, StoreError, StoreResult, again};
use crate::remote_stats::CacheCounts;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of chunks that are kept in memory.
const KEPT: u64 = 64 << 20;

#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<Chunk, Arc<[u8]>> for Bytes {
    fn weight(&self, _: &Chunk, bytes: &Arc<[u8]>) -> u64 {
        bytes.len() as u64 + 64
    }
}

/// The parts of segments that this host has. Segments do not change, so that what it has is never old.
#[derive(Debug)]
pub struct Chunks {
    pub store: Arc<dyn ObjectStore>,
    memory: Cache<Chunk, Arc<[u8]>, Bytes>,
    disk: Option<DiskCache>,
    /// Reads of the store.
    fetched: AtomicU64,
    /// Look-ups, and those that the disk answered.
    looked_up: AtomicU64,
    on_disk: AtomicU64,
}

impl Chunks {
    /// Of the segments of a store.
    pub fn new(store: Arc<dyn ObjectStore>, disk: Option<DiskCache>) -> Chunks {
        Chunks {
            store,
            memory: Cache::with_weighter((KEPT / CHUNK as u64) as usize, KEPT, Bytes),
            disk,
            fetched: AtomicU64::new(0),
            looked_up: AtomicU64::new(0),
            on_disk: AtomicU64::new(0),
        }
    }

    /// Keeps a segment that was written.
    pub fn written(&self, segment: Segment, bytes: &[u8]) {
        for (index, part) in bytes.chunks(CHUNK).enumerate() {
            let index = index as u16;
            self.memory.insert(Chunk { segment, index }, part.into());
        }
    }

    /// Reads bytes of a segment.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]: the segment was collected; the store's; they are not those that were written.
    pub fn read(&self, location: Location, buf: &mut [u8]) -> StoreResult<()> {
        if self.read_kept(location, buf, false)? {
            return Ok(());
        }
        // What this host kept is damaged.
        for chunk in Chunk::of(location, buf.len()) {
            self.forget(chunk);
        }
        match self.read_kept(location, buf, true)? {
            true => Ok(()),
            false => Err(StoreError::Failed(format!(
                "{} has a wrong checksum at byte {}",
                location.segment.name(),
                usize::from(location.at) * BLOCK
            ))),
        }
    }

    /// Reads bytes, and whether they have their checksum.
    fn read_kept(&self, location: Location, buf: &mut [u8], is_fresh: bool) -> StoreResult<bool> {
        let start = usize::from(location.at) * BLOCK;
        let mut done = 0;
        for chunk in Chunk::of(location, buf.len()) {
            let bytes = self.chunk(chunk, is_fresh)?;
            let from = (start + done) - usize::from(chunk.index) * CHUNK;
            let Some(found) = bytes.get(from..) else {
                return Ok(false);
            };
            let len = found.len().min(buf.len() - done);
            buf[done..done + len].copy_from_slice(&found[..len]);
            done += len;
        }
        Ok(done == buf.len() && crc32c::crc32c(buf) == location.crc)
    }

    /// A chunk, read if this host has it not. Callers of one chunk wait for the first.
    ///
    /// # Errors
    /// As [`Chunks::read`].
    pub fn chunk(&self, chunk: Chunk, is_fresh: bool) -> StoreResult<Arc<[u8]>> {
        self.looked_up.fetch_add(1, Ordering::Relaxed);
        if is_fresh {
            let bytes = self.fetch(chunk)?;
            self.memory.insert(chunk, Arc::clone(&bytes));
            return Ok(bytes);
        }
        self.memory.get_or_insert_with(&chunk, || {
            let disk = self.disk.as_ref();
            match disk.and_then(|disk| disk.get(chunk)) {
                Some(bytes) => {
                    self.on_disk.fetch_add(1, Ordering::Relaxed);
                    Ok(bytes.into())
                }
                None => self.fetch(chunk),
            }
        })
    }

    /// Reads a chunk of the store.
    fn fetch(&self, chunk: Chunk) -> StoreResult<Arc<[u8]>> {
        let start = u64::from(chunk.index) * CHUNK as u64;
        let range = start..start + CHUNK as u64;
        let (store, name) = (&*self.store, chunk.segment.name());
        let bytes = again(store, || store.get(&name, Some(range.clone())))?;
        self.fetched.fetch_add(1, Ordering::Relaxed);
        if let Some(disk) = &self.disk {
            disk.put(chunk, &bytes);
        }
        Ok(bytes.into())
    }

    /// Whether a chunk is in memory.
    pub fn has(&self, chunk: Chunk) -> bool {
        self.memory.contains_key(&chunk)
    }

    fn forget(&self, chunk: Chunk) {
        self.memory.remove(&chunk);
        if let Some(disk) = &self.disk {
            disk.remove(chunk);
        }
    }

    /// What became of look-ups. Each read of the store was one.
    pub fn counts(&self) -> CacheCounts {
        let (disk_hits, misses) = (self.on_disk.load(Ordering::Relaxed), self.fetched());
        let all = self.looked_up.load(Ordering::Relaxed);
        CacheCounts {
            memory_hits: all.saturating_sub(disk_hits + misses),
            disk_hits,
            misses,
        }
    }

    /// How often the store was read.
    pub fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }
}
