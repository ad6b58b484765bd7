//! A device in memory.
//!
//! # Data model
//! Chunks of a block, 4 KiB, made when first written; one that was never written reads as zeros and costs
//! nothing. A clone shares every chunk with its original, and whichever writes to a chunk first
//! copies it, and the list of its shard, so that thousands of images of one crash log fit in memory.
//!
//! # Locking
//! Chunks lie in shards by their number modulo the number of shards: a sequential stream and random
//! I/O both spread over all of them, and blocks beside each other share no lock. A shard's lock (class `device`) is held to
//! copy the bytes of one chunk; one shard is locked at a time.

use crate::FileDevice;
use crate::device::{BlockDevice, total_len, total_len_mut};
use crate::device_id::DeviceId;
use crate::error::{BlockOp, Result, check_range};
use crate::open::OpenOptions;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{CachePadded, RwLock, assert_may_block, class};

const CHUNK_BYTES: usize = 4 << 10;
const SHARDS: usize = 512;
/// From how many chunks on it is cheaper to visit the chunks that exist than all that may exist.
const SWEEP_CHUNKS: u64 = 64 << 10;

/// Its count lies beside its bytes: one place in memory to fetch.
type Chunk = Arc<[u8]>;
type Chunks = BTreeMap<u64, Chunk>;
type Shard = Arc<Chunks>;

/// A sparse device in memory. Its clone is an image of its own that shares what neither has
/// written since; writes that run during the cloning are in it or not, chunk by chunk.
pub struct MemoryDevice {
    len: AtomicU64,
    shards: Box<[CachePadded<RwLock<Shard>>]>,
}

/// The part of a call that falls into one chunk.
struct Piece {
    chunk: u64,
    start: usize,
    len: usize,
}

impl MemoryDevice {
    /// A device of `len` bytes, all zeros.
    pub fn new(len: u64) -> MemoryDevice {
        MemoryDevice::with_shards(len, std::iter::repeat_n(Shard::default(), SHARDS))
    }

    /// A device that holds a copy of `bytes`.
    pub fn from_bytes(bytes: &[u8]) -> MemoryDevice {
        let device = MemoryDevice::new(bytes.len() as u64);
        for (chunk, part) in (0u64..).zip(bytes.chunks(CHUNK_BYTES)) {
            device.fill_chunk(chunk, part);
        }
        device
    }

    /// A copy of another device. Zeros take no memory.
    ///
    /// # Errors
    /// Those of reading `source`.
    pub fn copy_of(source: &(impl BlockDevice + ?Sized)) -> Result<MemoryDevice> {
        let device = MemoryDevice::new(source.len());
        let mut buf = vec![0; CHUNK_BYTES];
        for piece in pieces(0, source.len()) {
            let part = &mut buf[..piece.len];
            source.read_at(piece.chunk * CHUNK_BYTES as u64, part)?;
            device.fill_chunk(piece.chunk, part);
        }
        Ok(device)
    }

    /// All bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len() as usize];
        self.copy_out(0, &mut bytes);
        bytes
    }

    /// Writes the image to a file, replacing what it held; untouched chunks become holes.
    ///
    /// # Errors
    /// Those of [`FileDevice::open`] and of writing.
    pub fn save_to(&self, path: impl AsRef<Path>) -> Result<()> {
        let file = FileDevice::open(path, &OpenOptions::create(0))?;
        file.set_len(self.len())?;
        for shard in &self.shards {
            let chunks = shard.read().clone();
            for (number, chunk) in &*chunks {
                let offset = number * CHUNK_BYTES as u64;
                let len = self.len().saturating_sub(offset).min(CHUNK_BYTES as u64);
                file.write_at(offset, &chunk[..len as usize])?;
            }
        }
        Ok(())
    }

    /// The memory that chunks of this device take, shared ones included, in bytes.
    pub fn allocated_bytes(&self) -> u64 {
        let chunks: usize = self.shards.iter().map(|shard| shard.read().len()).sum();
        (chunks * CHUNK_BYTES) as u64
    }

    fn with_shards(len: u64, shards: impl Iterator<Item = Shard>) -> MemoryDevice {
        MemoryDevice {
            len: AtomicU64::new(len),
            shards: shards
                .map(|shard| CachePadded::new(RwLock::new(&class::DEVICE, shard)))
                .collect(),
        }
    }

    fn shard(&self, chunk: u64) -> &RwLock<Shard> {
        &self.shards[(chunk % SHARDS as u64) as usize]
    }

    /// Puts the first bytes of a chunk of a new device; zeros are left out.
    fn fill_chunk(&self, chunk: u64, bytes: &[u8]) {
        if bytes.iter().any(|&byte| byte != 0) {
            let mut whole = zero_chunk();
            Arc::make_mut(&mut whole)[..bytes.len()].copy_from_slice(bytes);
            Arc::make_mut(&mut self.shard(chunk).write()).insert(chunk, whole);
        }
    }

    fn copy_out(&self, offset: u64, mut buf: &mut [u8]) {
        for piece in pieces(offset, buf.len() as u64) {
            let (part, rest) = buf.split_at_mut(piece.len);
            match self.shard(piece.chunk).read().get(&piece.chunk) {
                Some(chunk) => part.copy_from_slice(&chunk[piece.start..piece.start + piece.len]),
                None => part.fill(0),
            }
            buf = rest;
        }
    }

    fn copy_in(&self, offset: u64, mut buf: &[u8]) {
        for piece in pieces(offset, buf.len() as u64) {
            let (part, rest) = buf.split_at(piece.len);
            let mut shard = self.shard(piece.chunk).write();
            let shard = Arc::make_mut(&mut shard);
            if piece.len == CHUNK_BYTES
                && let Entry::Vacant(vacant) = shard.entry(piece.chunk)
            {
                vacant.insert(part.into());
            } else {
                let chunk = shard.entry(piece.chunk).or_insert_with(zero_chunk);
                Arc::make_mut(chunk)[piece.start..piece.start + piece.len].copy_from_slice(part);
            }
            buf = rest;
        }
    }

    /// Changes the shard of a chunk if it has that; else it stays what clones share.
    fn change(&self, chunk: u64, change: impl FnOnce(&mut Chunks)) {
        let mut shard = self.shard(chunk).write();
        if shard.contains_key(&chunk) {
            change(Arc::make_mut(&mut shard));
        }
    }

    /// Frees whole chunks and clears parts of others.
    fn clear(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        let whole = offset.div_ceil(CHUNK_BYTES as u64)..end / CHUNK_BYTES as u64;
        if whole.end.saturating_sub(whole.start) <= SWEEP_CHUNKS {
            for chunk in whole {
                self.change(chunk, |shard| drop(shard.remove(&chunk)));
            }
        } else {
            for shard in &self.shards {
                let mut shard = shard.write();
                if shard.keys().any(|chunk| whole.contains(chunk)) {
                    Arc::make_mut(&mut shard).retain(|chunk, _| !whole.contains(chunk));
                }
            }
        }
        let head = len.min(offset.next_multiple_of(CHUNK_BYTES as u64) - offset);
        let tail = (end % CHUNK_BYTES as u64).min(len - head);
        for (at, len) in [(offset, head), (end - tail, tail)] {
            for piece in pieces(at, len) {
                self.change(piece.chunk, |shard| {
                    if let Some(chunk) = shard.get_mut(&piece.chunk) {
                        Arc::make_mut(chunk)[piece.start..piece.start + piece.len].fill(0);
                    }
                });
            }
        }
    }
}

impl Clone for MemoryDevice {
    fn clone(&self) -> MemoryDevice {
        let shards = self.shards.iter().map(|shard| shard.read().clone());
        MemoryDevice::with_shards(self.len(), shards)
    }
}

impl std::fmt::Debug for MemoryDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryDevice")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl BlockDevice for MemoryDevice {
    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        assert_may_block("device read");
        check_range(BlockOp::Read, offset, buf.len() as u64, self.len())?;
        self.copy_out(offset, buf);
        Ok(())
    }

    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<()> {
        assert_may_block("device read");
        check_range(BlockOp::Read, offset, total_len_mut(bufs), self.len())?;
        let mut at = offset;
        for buf in bufs {
            self.copy_out(at, buf);
            at += buf.len() as u64;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        assert_may_block("device write");
        check_range(BlockOp::Write, offset, buf.len() as u64, self.len())?;
        self.copy_in(offset, buf);
        Ok(())
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        assert_may_block("device write");
        check_range(BlockOp::Write, offset, total_len(bufs), self.len())?;
        let mut at = offset;
        for buf in bufs {
            self.copy_in(at, buf);
            at += buf.len() as u64;
        }
        Ok(())
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        reads
            .iter_mut()
            .try_for_each(|(offset, buf)| self.read_at(*offset, buf))
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        writes
            .iter()
            .try_for_each(|&(offset, bytes)| self.write_at(offset, bytes))
    }

    fn flush(&self) -> Result<()> {
        assert_may_block("device flush");
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        assert_may_block("device discard");
        check_range(BlockOp::Discard, offset, len, self.len())?;
        self.clear(offset, len);
        Ok(())
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        assert_may_block("device zero");
        check_range(BlockOp::Zero, offset, len, self.len())?;
        self.clear(offset, len);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        assert_may_block("device set length");
        let old = self.len.swap(len, Ordering::AcqRel);
        if len < old {
            self.clear(len, old.next_multiple_of(CHUNK_BYTES as u64) - len);
        }
        Ok(())
    }

    fn identity(&self) -> Option<DeviceId> {
        None
    }
}

fn zero_chunk() -> Chunk {
    std::iter::repeat_n(0, CHUNK_BYTES).collect()
}

/// Cuts a range at chunk boundaries.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = Piece> {
    let (mut at, end) = (offset, offset + len);
    std::iter::from_fn(move || {
        let start = (at % CHUNK_BYTES as u64) as usize;
        let len = (end - at).min((CHUNK_BYTES - start) as u64);
        let piece = Piece {
            chunk: at / CHUNK_BYTES as u64,
            start,
            len: len as usize,
        };
        at += len;
        (len > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clone_is_independent() {
        let a = MemoryDevice::from_bytes(&[1; 200_000]);
        let b = a.clone();
        a.write_at(70_000, &[2; 10]).unwrap();
        b.zero(0, 65_536).unwrap();
        assert_eq!(a.snapshot()[70_000..70_010], [2; 10]);
        assert_eq!(b.snapshot()[70_000..70_010], [1; 10]);
        assert_eq!(a.snapshot()[0], 1);
        assert_eq!(b.snapshot()[0], 0);
        assert!(MemoryDevice::copy_of(&b).unwrap().snapshot() == b.snapshot());
    }

    #[test]
    fn sparse() {
        let device = MemoryDevice::new(1 << 50);
        device.write_at((1 << 50) - 1, &[9]).unwrap();
        assert_eq!(device.allocated_bytes(), CHUNK_BYTES as u64);
        device.zero(3, (1 << 50) - 3).unwrap();
        assert_eq!(device.allocated_bytes(), 0);
    }

    #[test]
    fn saves_to_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        std::fs::write(&path, vec![5; 300_000]).unwrap();
        let device = MemoryDevice::new(200_001);
        device.write_at(190_000, &[3; 10_001]).unwrap();
        device.save_to(&path).unwrap();
        assert!(std::fs::read(&path).unwrap() == device.snapshot());
    }

    #[test]
    fn threads_share_it() {
        let device = MemoryDevice::new(1 << 20);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let device = &device;
                scope.spawn(move || {
                    for i in 0..256 {
                        let at = (i * 4 + thread) * 1024;
                        device.write_at(at, &[thread as u8 + 1; 1024]).unwrap();
                    }
                });
            }
        });
        let bytes = device.snapshot();
        assert!((0..1 << 20).all(|i| bytes[i] == (i / 1024 % 4) as u8 + 1));
    }
}
