//! Images in stores of objects: any with conditional writes, such as S3.
//!
//! | module | holds |
//! | --- | --- |
//! | `store` | [`ObjectStore`]: what a store does |
//! | `s3`, `address`, `administration` | S3, where an image is in it, and images as a whole (feature `s3`) |
//! | `names` | the names of the objects of an image |
//! | `root` | what the image was at a flush |
//! | `page` | the pages of the map |
//! | `map` | from a block to its bytes |
//! | `chunk`, `chunks`, `disk_cache` | what was read, in memory and on the disk of this host |
//! | `writeback` | what was written since the last flush |
//! | `segments`, `flush` | from that to segments and a new root |
//! | `lease` | the right to write, and what readers pin |
//! | `image` | an image that is open |
//! | `collect` | roots and segments that nothing needs |
//! | `compact`, `moved` | segments of which little is needed |
//!
//! # Format
//! An image is a prefix of names. `root/N` is what it was at its flush N: its size, and a table of pages, of pages, of blocks. Blocks and pages
//! are in `segment/EPOCH/N`, which are written once. A flush writes segments, then root N + 1, which must not exist: the host that makes it is
//! the writer. An entry has the CRC32C of what it leads to.
//!
//! # Exclusion
//! A host that writes for the first time makes the next root with an epoch of its own. The writer before, whether it lives, hangs or is cut
//! off, fails at its next flush, as it can't make the root that it would: what it still sends has no effect. No clock decides anything.
//!
//! # Failure
//! What fails is tried again for some seconds. A flush that fails at last fails the device for good; so does one that another host has overtaken.

#[cfg(feature = "s3")]
mod address;
#[cfg(feature = "s3")]
mod administration;
mod chunk;
mod chunks;
mod collect;
mod compact;
mod disk_cache;
mod flush;
mod image;
mod lease;
mod map;
mod moved;
mod names;
mod page;
mod root;
#[cfg(feature = "s3")]
mod s3;
mod segments;
pub mod store;
mod writeback;

#[cfg(feature = "s3")]
pub use address::S3Address;
#[cfg(feature = "s3")]
pub use administration::images_of;
#[cfg(feature = "s3")]
pub use s3::S3Store;
pub use store::{Created, Listed, ObjectStore, StoreError, StoreResult};

use self::chunks::Chunks;
use self::disk_cache::DiskCache;
use self::image::Image;
use self::lease::Stopped;
use self::map::Map;
use self::page::BLOCK;
use self::root::Root;
use crate::device::BlockDevice;
use crate::device_id::DeviceId;
use crate::error::{BlockError, BlockOp, EINVAL, Failure, Result, check_failure, check_range};
use crate::open::OpenOptions;
use crate::remote_stats::{Lease, RemoteStats};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use uext4_sync::assert_may_block;

/// Blocks that are zeroed or discarded at a time: those of a page of pages.
const ZEROED: u64 = root::TABLE_ENTRY;

/// An image in a store of objects, open.
#[derive(Debug)]
pub struct ObjectDevice {
    image: Arc<Image>,
    /// Immutable.
    len: u64,
    /// Immutable.
    is_read_only: bool,
    /// Immutable.
    id: DeviceId,
}

/// A directory of this host for what was read of a store.
#[derive(Clone, Debug)]
pub struct CacheDir {
    /// The directory, of one image only.
    pub dir: PathBuf,
    /// Bytes that it may have.
    pub bytes_max: u64,
}

impl ObjectDevice {
    /// Opens the image that a store has, which `name` names in errors and by which two opens are recognised. A new one is made where the options
    /// have a size and there is none.
    ///
    /// # Errors
    /// [`BlockError::Open`]: there is no image, it is too small, or the store can't be reached. The host's, of the cache.
    pub fn open(
        store: Arc<dyn ObjectStore>,
        cache: Option<&CacheDir>,
        name: &str,
        options: &OpenOptions,
    ) -> Result<ObjectDevice> {
        assert_may_block("opening an image in a store");
        let failed = |source: io::Error| BlockError::Open {
            path: PathBuf::from(name),
            source,
        };
        let disk = cache.map(|cache| DiskCache::open(&cache.dir, cache.bytes_max));
        let disk = disk.transpose().map_err(failed)?;
        let map = Map::new(Chunks::new(Arc::clone(&store), disk));
        let image = match (Image::open(Arc::clone(&store), Arc::new(map)), options.size) {
            (Err(StoreError::NotFound), Some(len)) if options.create => {
                create(&*store, len).map_err(failed)?;
                return ObjectDevice::open(store, cache, name, options);
            }
            (Err(StoreError::NotFound), _) => {
                let why = "there is no image; `uext4 mkfs --size SIZE` makes one";
                return Err(failed(io::Error::new(io::ErrorKind::NotFound, why)));
            }
            (opened, _) => opened.map_err(|e| failed(e.into()))?,
        };
        let len = image.root().len;
        if options.size.is_some_and(|size| size > len) {
            let why = format!("it has {len} bytes, which is too small");
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        Ok(ObjectDevice {
            image: Arc::new(image),
            len,
            is_read_only: options.read_only,
            id: DeviceId::of_name(name),
        })
    }

    /// Removes what no root and no reader needs.
    ///
    /// # Errors
    /// The store's; `EROFS`; another host is the writer.
    pub fn collect(&self) -> Result<()> {
        self.begin(BlockOp::Discard, 0, 0)?;
        collect::collect(&self.image, true).map_err(|why| self.stopped(BlockOp::Discard, 0, 0, why))
    }

    /// The epoch of the image's writer, and the number of the root.
    pub fn epoch_and_root(&self) -> (u32, u64) {
        let root = self.image.root();
        (root.epoch, root.number)
    }

    /// Reads of the store.
    pub fn fetched(&self) -> u64 {
        self.image.map.chunks.fetched()
    }

    /// Refuses a call that can't be; a call that writes becomes the writer.
    fn begin(&self, op: BlockOp, offset: u64, len: u64) -> Result<()> {
        assert_may_block("a call of a store");
        check_range(op, offset, len, self.len)?;
        if op == BlockOp::Read {
            return Ok(());
        }
        if self.is_read_only && op != BlockOp::Flush {
            return Err(BlockError::ReadOnly { op, offset, len });
        }
        check_failure(&self.image.failure, op, offset, len)?;
        match op {
            BlockOp::Flush => Ok(()),
            _ => {
                let claimed = self.image.claim();
                claimed.map_err(|why| self.stopped(op, offset, len, why))
            }
        }
    }

    fn stopped(&self, op: BlockOp, offset: u64, len: u64, why: Stopped) -> BlockError {
        match why {
            Stopped::Store(why) => BlockError::io(op, offset, len, why),
            Stopped::Lost => BlockError::Failed {
                op,
                offset,
                len,
                why: why.failure(),
            },
        }
    }

    /// Ends a call that has written: with a flush, if too much is in memory.
    fn end(&self) -> Result<()> {
        match self.image.is_full() {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Reads ranges, all that has to be fetched at once.
    fn read_ranges(&self, ranges: &mut [(u64, &mut [u8])]) -> StoreResult<()> {
        let mut blocks: Vec<(u64, &mut [u8])> = Vec::new();
        // Parts of blocks: where each is to be, and the whole block.
        let mut edges: Vec<(Part, &mut [u8], Vec<u8>)> = Vec::new();
        for (offset, buf) in ranges {
            let mut rest = &mut **buf;
            for part in parts(*offset, rest.len() as u64) {
                let (now, after) = rest.split_at_mut(part.len);
                match part.len == BLOCK {
                    true => blocks.push((part.block, now)),
                    false => edges.push((part, now, vec![0; BLOCK])),
                }
                rest = after;
            }
        }
        let whole = edges.iter_mut();
        blocks.extend(whole.map(|(part, _, bytes)| (part.block, &mut bytes[..])));
        self.image.read(&mut blocks)?;
        for (part, buf, bytes) in edges {
            buf.copy_from_slice(&bytes[part.at..part.at + part.len]);
        }
        Ok(())
    }

    /// Makes whole blocks read as zeros, some at a time.
    fn zero_blocks(&self, blocks: Range<u64>) -> StoreResult<()> {
        let mut start = blocks.start;
        while start < blocks.end {
            let end = blocks.end.min(start + ZEROED);
            self.image.zero(start..end)?;
            start = end;
        }
        Ok(())
    }

    fn write_blocks(&self, offset: u64, buf: &[u8]) -> StoreResult<()> {
        let mut rest = buf;
        for part in parts(offset, buf.len() as u64) {
            let (now, after) = rest.split_at(part.len);
            match part.len == BLOCK {
                true => self.image.write(part.block, now),
                false => self.image.write_part(part.block, part.at, now)?,
            }
            rest = after;
        }
        Ok(())
    }
}

/// Makes the first root of an image.
fn create(store: &dyn ObjectStore, len: u64) -> io::Result<()> {
    if len > root::LEN_MAX {
        let why = format!("images in stores have {} bytes at most", root::LEN_MAX);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let root = Root::of_new(store, len)?;
    match root.map(|root| lease::advance(store, &root)) {
        Some(Ok(())) => Ok(()),
        Some(Err(Stopped::Store(why))) => Err(why.into()),
        // It exists, or another host made it at the same time.
        None | Some(Err(Stopped::Lost)) => Err(io::ErrorKind::AlreadyExists.into()),
    }
}

/// A part of a block, or all of it.
struct Part {
    block: u64,
    at: usize,
    len: usize,
}

/// The parts of blocks that a range has.
fn parts(offset: u64, len: u64) -> Vec<Part> {
    let (unit, end) = (BLOCK as u64, offset + len);
    let blocks = offset / unit..end.div_ceil(unit);
    let part = |block: u64| {
        let start = offset.max(block * unit);
        let end = end.min((block + 1) * unit);
        Part {
            block,
            at: (start - block * unit) as usize,
            len: (end - start) as usize,
        }
    };
    match len {
        0 => Vec::new(),
        _ => blocks.map(part).collect(),
    }
}

impl BlockDevice for ObjectDevice {
    fn len(&self) -> u64 {
        self.len
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let len = buf.len() as u64;
        self.begin(BlockOp::Read, offset, len)?;
        let read = self.read_ranges(&mut [(offset, buf)]);
        read.map_err(|why| BlockError::io(BlockOp::Read, offset, len, why))
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        let (mut first, mut bytes) = (u64::MAX, 0);
        for (offset, buf) in reads.iter() {
            self.begin(BlockOp::Read, *offset, buf.len() as u64)?;
            (first, bytes) = (first.min(*offset), bytes + buf.len() as u64);
        }
        let read = self.read_ranges(reads);
        read.map_err(|why| BlockError::io(BlockOp::Read, first, bytes, why))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let len = buf.len() as u64;
        self.begin(BlockOp::Write, offset, len)?;
        let written = self.write_blocks(offset, buf);
        written.map_err(|why| BlockError::io(BlockOp::Write, offset, len, why))?;
        self.end()
    }

    fn flush(&self) -> Result<()> {
        self.begin(BlockOp::Flush, 0, 0)?;
        self.image.flush().map_err(|why| match why {
            Some(why) => self.stopped(BlockOp::Flush, 0, 0, why),
            None => BlockError::Failed {
                op: BlockOp::Flush,
                offset: 0,
                len: 0,
                why: *self.image.failure.get_or_init(|| Failure::WritesLost),
            },
        })?;
        if self.image.is_writer() {
            collect::begin_if_due(&self.image);
        }
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.begin(BlockOp::Discard, offset, len)?;
        let unit = BLOCK as u64;
        let blocks = offset.div_ceil(unit)..(offset + len) / unit;
        let done = self.zero_blocks(blocks);
        done.map_err(|why| BlockError::io(BlockOp::Discard, offset, len, why))?;
        self.end()
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.begin(BlockOp::Zero, offset, len)?;
        let (unit, end) = (BLOCK as u64, offset + len);
        let (first, last) = (offset.next_multiple_of(unit), end - end % unit);
        let zeros = [0; BLOCK];
        let part = |from: u64, to: u64| match to.saturating_sub(from) {
            0 => Ok(()),
            len => self.write_blocks(from, &zeros[..len as usize]),
        };
        let done = match first <= last {
            true => part(offset, first)
                .and_then(|()| self.zero_blocks(first / unit..last / unit))
                .and_then(|()| part(last, end)),
            false => part(offset, end),
        };
        done.map_err(|why| BlockError::io(BlockOp::Zero, offset, len, why))?;
        self.end()
    }

    fn drop_cache(&self, offset: u64, len: u64) -> Result<()> {
        self.begin(BlockOp::Read, offset, len)?;
        match self.is_read_only {
            true => Ok(()),
            false => self
                .image
                .refresh()
                .map_err(|why| BlockError::io(BlockOp::Read, offset, len, why)),
        }
    }

    fn set_len(&self, len: u64) -> Result<()> {
        check_failure(&self.image.failure, BlockOp::SetLen, 0, len)?;
        let source = io::Error::from_raw_os_error(EINVAL);
        Err(BlockError::io(BlockOp::SetLen, 0, len, source))
    }

    fn is_flush_atomic(&self) -> bool {
        true
    }

    fn is_fenced(&self) -> bool {
        true
    }

    fn release(&self) {
        self.image.release();
    }

    fn remote_stats(&self) -> Option<RemoteStats> {
        let lease = match self.image.failure.get() {
            Some(Failure::LeaseLost(_)) => Lease::Lost,
            _ if self.image.is_writer() => Lease::Held,
            _ => Lease::NotHeld,
        };
        Some(RemoteStats {
            kind: "objects",
            lease: Some(lease),
            epoch_and_root: Some(self.epoch_and_root()),
            connections: None,
            flushes: self.image.flush_times.snapshot(),
            cache: Some(self.image.map.chunks.counts()),
        })
    }

    fn newest(&self) -> Result<Option<Arc<dyn BlockDevice>>> {
        if !self.is_read_only {
            return Ok(None);
        }
        let image = Image::open(Arc::clone(&self.image.store), Arc::clone(&self.image.map));
        let image = image.map_err(|why| BlockError::io(BlockOp::Read, 0, 0, why))?;
        Ok(Some(Arc::new(ObjectDevice {
            len: image.root().len,
            image: Arc::new(image),
            is_read_only: true,
            id: self.id,
        })))
    }

    fn identity(&self) -> Option<DeviceId> {
        Some(self.id)
    }
}
