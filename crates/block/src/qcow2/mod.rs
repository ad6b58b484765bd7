//! A qcow2 image as a device, with a backing file or without.
//!
//! | module | holds |
//! | --- | --- |
//! | `header` | the header, checked |
//! | `entries` | tables as they are in the file |
//! | `tables` | which cluster of the device is where in the file |
//! | `refcounts` | which clusters of the file are in use |
//!
//! # Invariants
//! - Tables are written by [`BlockDevice::flush`] alone, and when the device is closed. Data of a cluster is durable before a
//!   table that leads to it is written, its refcount too.
//! - A cluster that was freed is used again only when no durable table names it and no call that found it still runs.
//!
//! # Locking
//! Class `qcow2`, in this order: `calls`, shared by every read and write of data; `allocating`, held by one write that needs
//! new clusters, and by a flush; `tables`, for a look-up, and over the I/O of loading and writing tables.

mod compressed;
mod entries;
pub(crate) mod header;
mod refcounts;
mod tables;

use crate::device::{BlockDevice, total_len, total_len_mut};
use crate::error::{
    BlockError, BlockOp, EFBIG, EINVAL, Failure, Result, check_failure, check_range,
};
use crate::forward_device;
use crate::origin::Origin;
use header::{AUTOCLEAR_AT, Header};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tables::{Mapping, Tables};
use uext4_sync::{Mutex, RwLock, class};

/// Bytes of a cluster of new images.
const CLUSTER_BITS: u32 = 16;
/// Clusters that one write maps at a time.
const RUN_CLUSTERS_MAX: u64 = 256;

/// A qcow2 image.
#[derive(Debug)]
pub struct Qcow2Device {
    /// Immutable.
    file: Arc<dyn BlockDevice>,
    /// What shows where the image holds nothing. Immutable.
    backing: Option<Arc<dyn BlockDevice>>,
    /// Bytes. Immutable.
    len: u64,
    /// Immutable.
    cluster_bits: u32,
    /// From version 3 on. Immutable.
    has_zero_clusters: bool,
    calls: RwLock<Calls>,
    allocating: Mutex<NewClusters>,
    tables: RwLock<Tables>,
    failure: OnceLock<Failure>,
}

/// The clusters that calls have found: nothing else uses them until the calls return.
#[derive(Debug)]
struct Calls(());

/// The right to take clusters and to map them.
#[derive(Debug)]
struct NewClusters(());

/// What one step of a call does: the bytes up to the end of a run of clusters.
struct Run {
    mapping: Mapping,
    len: u64,
}

impl Qcow2Device {
    /// The image in `file`, over its backing file; `path` is for messages.
    ///
    /// # Errors
    /// [`BlockError::Image`]: the image is refused. Else the file's, or the tables contradict themselves.
    pub fn open(
        path: &Path,
        file: Arc<dyn BlockDevice>,
        backing: Option<Arc<dyn BlockDevice>>,
    ) -> Result<Qcow2Device> {
        let header = Header::read(path, &*file)?;
        if header.backing.is_some() != backing.is_some() {
            let (path, why) = (path.to_owned(), "needs its backing file".to_owned());
            return Err(BlockError::Image { path, why });
        }
        if !file.is_read_only() {
            if header.autoclear != 0 {
                file.write_at(AUTOCLEAR_AT, &[0; 8])?;
            }
            let whole = file.len().next_multiple_of(header.cluster_bytes());
            if whole > file.len()
                && let Err(e) = file.set_len(whole)
            {
                // A block device.
                if e.raw_os_error() != Some(EINVAL) {
                    return Err(e);
                }
            }
        }
        let tables = Tables::load(&*file, &header)?;
        Ok(Qcow2Device {
            backing,
            len: header.size,
            cluster_bits: header.cluster_bits,
            has_zero_clusters: header.version > 2,
            calls: RwLock::new(&class::QCOW2, Calls(())),
            allocating: Mutex::new(&class::QCOW2, NewClusters(())),
            tables: RwLock::new(&class::QCOW2, tables),
            failure: OnceLock::new(),
            file,
        })
    }

    /// Makes an image of `len` bytes in a file of zeros, or an empty one; `path` is for messages.
    ///
    /// # Errors
    /// The file's; `EFBIG`: more than 64 TiB.
    pub fn create(path: &Path, file: Arc<dyn BlockDevice>, len: u64) -> Result<Qcow2Device> {
        let cluster = 1u64 << CLUSTER_BITS;
        let l1_entries = len.div_ceil(cluster * cluster / 8);
        let l1_clusters = (8 * l1_entries).div_ceil(cluster);
        // A block counts half as many clusters as a cluster has bytes; an eighth more is for tables.
        let blocks = (len + len / 8).div_ceil(cluster * cluster / 2) + 1;
        let table_clusters = (8 * blocks).div_ceil(cluster);
        let used = 2 + table_clusters + l1_clusters;
        if used > cluster / 2 {
            let e = io::Error::from_raw_os_error(EFBIG);
            return Err(BlockError::io(BlockOp::SetLen, 0, len, e));
        }
        let header = Header {
            version: 3,
            cluster_bits: CLUSTER_BITS,
            size: len,
            l1_offset: (2 + table_clusters) * cluster,
            l1_entries: l1_entries as usize,
            refcount_offset: cluster,
            refcount_entries: (table_clusters * cluster / 8) as usize,
            refcount_order: 4,
            autoclear: 0,
            backing: None,
        };
        refcounts::grow(&*file, used * cluster)?;
        let block = (1 + table_clusters) * cluster;
        file.write_at(cluster, &block.to_be_bytes())?;
        file.write_at(block, &1u16.to_be_bytes().repeat(used as usize))?;
        file.write_at(0, &header.encode())?;
        Qcow2Device::open(path, file, None)
    }

    fn cluster_bytes(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// The clusters at `offset` that are alike and follow each other in the file, up to `len` bytes.
    fn find(&self, offset: u64, len: u64) -> Result<Run> {
        loop {
            if let Some(run) = self.find_in(&self.tables.read(), offset, len)? {
                return Ok(run);
            }
            let cluster = offset >> self.cluster_bits;
            self.tables.write().load_l2(&*self.file, cluster)?;
        }
    }

    /// The same, if the L2 table is in memory.
    fn find_in(&self, tables: &Tables, offset: u64, len: u64) -> Result<Option<Run>> {
        let cluster = offset >> self.cluster_bits;
        let inside = offset & (self.cluster_bytes() - 1);
        let file_len = self.file.len();
        let Some(first) = tables.find(file_len, cluster)? else {
            return Ok(None);
        };
        let end = tables.end_of_l2(cluster).min(offset + len);
        let mut clusters = 1;
        let mut run = self.cluster_bytes() - inside;
        if !matches!(first, Mapping::Compressed { .. }) {
            while offset + run < end {
                let expected = match first {
                    Mapping::Data { at, ours } => Mapping::Data {
                        at: at + (clusters << self.cluster_bits),
                        ours,
                    },
                    other => other,
                };
                if tables.find(file_len, cluster + clusters).ok().flatten() != Some(expected) {
                    break;
                }
                clusters += 1;
                run += self.cluster_bytes();
            }
        }
        let mapping = match first {
            Mapping::Data { at, ours } => Mapping::Data {
                at: at + inside,
                ours,
            },
            other => other,
        };
        let len = run.min(len);
        Ok(Some(Run { mapping, len }))
    }

    /// Fills buffers from a run; `calls` is held.
    fn read_run(&self, offset: u64, mapping: Mapping, bufs: Vec<&mut [u8]>) -> Result<()> {
        match mapping {
            Mapping::Zero => bufs.into_iter().for_each(|buf| buf.fill(0)),
            Mapping::Data { at, .. } => return read_up_to_end(&*self.file, at, bufs),
            Mapping::Backing => match &self.backing {
                Some(backing) => return read_up_to_end(&**backing, offset, bufs),
                None => bufs.into_iter().for_each(|buf| buf.fill(0)),
            },
            Mapping::Compressed { at, len } => {
                let mut data = vec![0; len as usize];
                self.file.read_at(at, &mut data)?;
                let cluster = compressed::expand(&data, self.cluster_bytes() as usize);
                let cluster = cluster.ok_or_else(|| {
                    entries::damaged(format!("the compressed cluster at byte {at} is damaged"))
                })?;
                let mut from = (offset & (self.cluster_bytes() - 1)) as usize;
                for buf in bufs {
                    buf.copy_from_slice(&cluster[from..from + buf.len()]);
                    from += buf.len();
                }
            }
        }
        Ok(())
    }

    fn read_all(&self, offset: u64, bufs: VecDeque<&mut [u8]>) -> Result<()> {
        let mut rest = bufs;
        let mut at = offset;
        while !rest.is_empty() {
            let left = rest.iter().map(|buf| buf.len() as u64).sum();
            let run = self.find(at, left)?;
            let now = take(&mut rest, run.len, |buf, len| buf.split_at_mut(len));
            self.read_run(at, run.mapping, now)?;
            at += run.len;
        }
        Ok(())
    }

    fn write_all(&self, offset: u64, bufs: VecDeque<&[u8]>) -> Result<()> {
        let mut rest = bufs;
        let mut at = offset;
        while !rest.is_empty() {
            let left = rest.iter().map(|buf| buf.len() as u64).sum();
            let run = self.find(at, left)?;
            let done = match run.mapping {
                Mapping::Data {
                    at: place,
                    ours: true,
                } => {
                    let now = take(&mut rest, run.len, |buf, len| buf.split_at(len));
                    let now: Vec<_> = now.into_iter().map(IoSlice::new).collect();
                    self.file.write_vectored_at(place, &now)?;
                    run.len
                }
                _ => self.write_new(at, run.len, &mut rest)?,
            };
            at += done;
        }
        Ok(())
    }

    /// Writes clusters that have no place of their own yet, up to `len` bytes: how many.
    fn write_new(&self, offset: u64, len: u64, rest: &mut VecDeque<&[u8]>) -> Result<u64> {
        let _allocating = self.allocating.lock();
        // Another write may have been here first.
        let run = self.find(offset, len)?;
        if matches!(run.mapping, Mapping::Data { ours: true, .. }) {
            return Ok(0);
        }
        let first = offset >> self.cluster_bits;
        let end = offset + run.len;
        let wanted = (end.div_ceil(self.cluster_bytes()) - first).min(RUN_CLUSTERS_MAX);
        let (place, count) = self.tables.write().allocate(&*self.file, wanted)?;
        let clusters = first..first + count;
        let end = end.min(clusters.end << self.cluster_bits);
        let now = take(rest, end - offset, |buf, len| buf.split_at(len));
        let written = self.write_whole(offset..end, clusters.clone(), place, now);
        let mut tables = self.tables.write();
        let mut mapped = written;
        for (cluster, at) in clusters.zip((place..).step_by(1 << self.cluster_bits)) {
            if mapped.is_ok() {
                mapped = tables.map(&*self.file, cluster, Some(at));
            }
            if mapped.is_err()
                && let Some(refcounts) = &mut tables.refcounts
            {
                refcounts.freed.push(at >> self.cluster_bits);
            }
        }
        mapped.map(|()| end - offset)
    }

    /// Writes new clusters at `place`: `bufs` for `range`, and around it what they hold now.
    fn write_whole(
        &self,
        range: Range<u64>,
        clusters: Range<u64>,
        place: u64,
        bufs: Vec<&[u8]>,
    ) -> Result<()> {
        let start = clusters.start << self.cluster_bits;
        let end = clusters.end << self.cluster_bits;
        let mut head = vec![0; (range.start - start) as usize];
        let mut tail = vec![0; (end - range.end) as usize];
        for (at, part) in [(start, &mut head), (range.end, &mut tail)] {
            // The last cluster may reach past the end of the device.
            let len = self.len.saturating_sub(at).min(part.len() as u64) as usize;
            if len > 0 {
                self.read_all(at, VecDeque::from([&mut part[..len]]))?;
            }
        }
        let parts = [&head[..]].into_iter().chain(bufs).chain([&tail[..]]);
        let parts: Vec<_> = parts
            .filter(|part| !part.is_empty())
            .map(IoSlice::new)
            .collect();
        self.file.write_vectored_at(place, &parts)
    }

    /// Unmaps whole clusters, so that they read as zeros.
    fn unmap(&self, clusters: Range<u64>) -> Result<()> {
        let _allocating = self.allocating.lock();
        let ranges = match self.backing {
            // Clusters of the backing file are hidden by entries of their own.
            Some(_) => vec![clusters],
            None => self.tables.read().used(clusters),
        };
        for cluster in ranges.into_iter().flatten() {
            let run = self.find(cluster << self.cluster_bits, 1)?;
            if run.mapping != Mapping::Zero {
                self.tables.write().map(&*self.file, cluster, None)?;
            }
        }
        Ok(())
    }

    /// The clusters that lie in a range as a whole; the last of the device counts as one.
    fn whole(&self, offset: u64, len: u64) -> Range<u64> {
        let end = offset + len;
        let first = offset.div_ceil(self.cluster_bytes());
        let last = match end == self.len {
            true => end.div_ceil(self.cluster_bytes()),
            false => end >> self.cluster_bits,
        };
        first..last.max(first)
    }

    /// Writes zeros where the range does not read so.
    fn write_zeros(&self, range: Range<u64>) -> Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let mut at = range.start;
        while at < range.end {
            let run = self.find(at, (range.end - at).min(ZEROS.len() as u64))?;
            if run.mapping != Mapping::Zero {
                let zeros = &ZEROS[..run.len as usize];
                self.write_all(at, VecDeque::from([zeros]))?;
            }
            at += run.len;
        }
        Ok(())
    }

    fn check_change(&self, op: BlockOp, offset: u64, len: u64) -> Result<()> {
        if self.is_read_only() {
            return Err(BlockError::ReadOnly { op, offset, len });
        }
        check_range(op, offset, len, self.len)?;
        check_failure(&self.failure, op, offset, len)
    }

    /// Makes data and tables durable, and then frees what no table names any more.
    fn sync(&self) -> Result<()> {
        {
            let _allocating = self.allocating.lock();
            let mut tables = self.tables.write();
            tables.write(&*self.file)?;
            self.file.flush()?;
            if !tables.has_freed() {
                return Ok(());
            }
        }
        // Calls that found a freed cluster before it was unmapped have returned then.
        let _alone = self.calls.write();
        let _allocating = self.allocating.lock();
        let mut tables = self.tables.write();
        // Clusters that were freed since are named by durable tables.
        tables.write(&*self.file)?;
        self.file.flush()?;
        tables.release_freed(&*self.file)
    }
}

impl BlockDevice for Qcow2Device {
    forward_device!(self => self.file; is_read_only, logical_block_size, identity, remote_stats, release);

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.read_vectored_at(offset, &mut [IoSliceMut::new(buf)])
    }

    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<()> {
        check_range(BlockOp::Read, offset, total_len_mut(bufs), self.len)?;
        let _call = self.calls.read();
        let bufs = bufs.iter_mut().map(|buf| &mut **buf);
        self.read_all(offset, bufs.filter(|buf| !buf.is_empty()).collect())
    }

    fn origin(&self, offset: u64, len: u64) -> Origin {
        let Ok(run) = self.find(offset, len) else {
            return Origin::unknown(len);
        };
        match (run.mapping, &self.backing) {
            (Mapping::Data { at, .. }, _) => self.file.origin(at, run.len),
            (Mapping::Compressed { at, len }, _) => {
                let skipped = offset & (self.cluster_bytes() - 1);
                let origin = self.file.origin(at, len);
                match origin.bytes() == len {
                    true => origin.expanded(skipped, run.len),
                    // They are kept in several places.
                    false => Origin::unknown(run.len),
                }
            }
            (Mapping::Backing, Some(backing)) if offset < backing.len() => {
                let there = run.len.min(backing.len() - offset);
                backing.origin(offset, there)
            }
            (Mapping::Backing | Mapping::Zero, _) => Origin::unknown(run.len),
        }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.write_vectored_at(offset, &[IoSlice::new(buf)])
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        self.check_change(BlockOp::Write, offset, total_len(bufs))?;
        let _call = self.calls.read();
        let bufs = bufs.iter().map(|buf| &**buf);
        self.write_all(offset, bufs.filter(|buf| !buf.is_empty()).collect())
    }

    fn flush(&self) -> Result<()> {
        self.check_change(BlockOp::Flush, 0, 0)?;
        let done = self.sync();
        if done.is_err() {
            let _ = self.failure.set(Failure::WritesLost);
        }
        // One that ran beside this may have failed.
        done.and_then(|()| self.check_change(BlockOp::Flush, 0, 0))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check_change(BlockOp::Discard, offset, len)?;
        let _call = self.calls.read();
        match &self.backing {
            Some(_) if !self.has_zero_clusters => Ok(()),
            _ => self.unmap(self.whole(offset, len)),
        }
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.check_change(BlockOp::Zero, offset, len)?;
        let _call = self.calls.read();
        let whole = match &self.backing {
            Some(_) if !self.has_zero_clusters => 0..0,
            _ => self.whole(offset, len),
        };
        let (start, end) = (
            whole.start << self.cluster_bits,
            whole.end << self.cluster_bits,
        );
        if whole.is_empty() {
            return self.write_zeros(offset..offset + len);
        }
        self.write_zeros(offset..start)?;
        self.unmap(whole)?;
        self.write_zeros(end.min(offset + len)..offset + len)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let e = io::Error::from_raw_os_error(EINVAL);
        Err(BlockError::io(BlockOp::SetLen, 0, len, e))
    }
}

impl Drop for Qcow2Device {
    /// Writes the tables, so that what was not flushed is lost with the host alone.
    fn drop(&mut self) {
        if self.is_read_only() || self.failure.get().is_some() {
            return;
        }
        // Nothing can be reported any more; a crash would leave no less. The second writes what the first has freed.
        let _ = self
            .sync()
            .and_then(|()| self.tables.write().write(&*self.file));
    }
}

/// Fills buffers from a device that may end before them: zeros follow.
fn read_up_to_end(device: &dyn BlockDevice, at: u64, bufs: Vec<&mut [u8]>) -> Result<()> {
    let mut left = device.len().saturating_sub(at);
    let mut there = Vec::with_capacity(bufs.len());
    for buf in bufs {
        let len = left.min(buf.len() as u64);
        let (now, after) = buf.split_at_mut(len as usize);
        after.fill(0);
        left -= len;
        if !now.is_empty() {
            there.push(IoSliceMut::new(now));
        }
    }
    match there.is_empty() {
        true => Ok(()),
        false => device.read_vectored_at(at, &mut there),
    }
}

/// The first `len` bytes of buffers, which keep the rest.
fn take<T: Bytes>(
    rest: &mut VecDeque<T>,
    mut len: u64,
    split: impl Fn(T, usize) -> (T, T),
) -> Vec<T> {
    let mut taken = Vec::new();
    while len > 0
        && let Some(buf) = rest.pop_front()
    {
        if buf.count() as u64 <= len {
            len -= buf.count() as u64;
            taken.push(buf);
            continue;
        }
        let (now, after) = split(buf, len as usize);
        taken.push(now);
        rest.push_front(after);
        break;
    }
    taken
}

/// A buffer to read to, or to write.
trait Bytes {
    /// How many.
    fn count(&self) -> usize;
}

impl Bytes for &[u8] {
    fn count(&self) -> usize {
        self.len()
    }
}

impl Bytes for &mut [u8] {
    fn count(&self) -> usize {
        self.len()
    }
}
