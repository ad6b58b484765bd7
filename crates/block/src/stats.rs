//! A device that counts what passes.

use crate::batch::runs;
use crate::device::{BlockDevice, total_len, total_len_mut};
use crate::error::Result;
use crate::forward_device;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Calls and bytes that reached a device, failed calls included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Reads; a vectored one and a run of a batch count once.
    pub reads: u64,
    /// Bytes asked for.
    pub read_bytes: u64,
    /// Writes, FUA writes included; a vectored one and a run of a batch count once.
    pub writes: u64,
    /// Bytes given.
    pub written_bytes: u64,
    /// FUA writes.
    pub fua_writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Zeroings.
    pub zeros: u64,
}

/// A device that counts what passes.
#[derive(Debug)]
pub struct CountDevice<D> {
    inner: D,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    fua_writes: AtomicU64,
    flushes: AtomicU64,
    discards: AtomicU64,
    zeros: AtomicU64,
}

impl<D: BlockDevice> CountDevice<D> {
    /// Wraps `inner`, with all counts at zero.
    pub fn new(inner: D) -> CountDevice<D> {
        CountDevice {
            inner,
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            fua_writes: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            discards: AtomicU64::new(0),
            zeros: AtomicU64::new(0),
        }
    }

    /// The counts so far.
    pub fn counts(&self) -> DeviceCounts {
        DeviceCounts {
            reads: self.reads.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            writes: self.writes.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            fua_writes: self.fua_writes.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            discards: self.discards.load(Relaxed),
            zeros: self.zeros.load(Relaxed),
        }
    }

    fn count_read(&self, bytes: u64) {
        self.reads.fetch_add(1, Relaxed);
        self.read_bytes.fetch_add(bytes, Relaxed);
    }

    fn count_write(&self, bytes: u64) {
        self.writes.fetch_add(1, Relaxed);
        self.written_bytes.fetch_add(bytes, Relaxed);
    }
}

impl<D: BlockDevice> BlockDevice for CountDevice<D> {
    forward_device!(self => self.inner; is_flush_atomic, is_fenced, remote_stats, release);
    forward_device!(self => self.inner;
        len, is_read_only, logical_block_size, allocate, drop_cache, set_len, identity, origin);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.count_read(buf.len() as u64);
        self.inner.read_at(offset, buf)
    }

    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<()> {
        self.count_read(total_len_mut(bufs));
        self.inner.read_vectored_at(offset, bufs)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.count_write(buf.len() as u64);
        self.inner.write_at(offset, buf)
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        self.count_write(total_len(bufs));
        self.inner.write_vectored_at(offset, bufs)
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        runs(reads).for_each(|run| self.count_read(run.bytes));
        self.inner.read_batch(reads)
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        runs(writes).for_each(|run| self.count_write(run.bytes));
        self.inner.write_batch(writes)
    }

    fn flush(&self) -> Result<()> {
        self.flushes.fetch_add(1, Relaxed);
        self.inner.flush()
    }

    fn write_fua(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.count_write(buf.len() as u64);
        self.fua_writes.fetch_add(1, Relaxed);
        self.inner.write_fua(offset, buf)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.discards.fetch_add(1, Relaxed);
        self.inner.discard(offset, len)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.zeros.fetch_add(1, Relaxed);
        self.inner.zero(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    #[test]
    fn counts() {
        let device = CountDevice::new(MemoryDevice::new(100_000));
        device.read_at(0, &mut [0; 10]).unwrap();
        device.write_at(0, &[1; 20]).unwrap();
        device.write_fua(0, &[1; 3]).unwrap();
        device.flush().unwrap();
        device.zero(0, 1).unwrap();
        device.discard(0, 1).unwrap();
        let want = DeviceCounts {
            reads: 1,
            read_bytes: 10,
            writes: 2,
            written_bytes: 23,
            fua_writes: 1,
            flushes: 1,
            discards: 1,
            zeros: 1,
        };
        assert_eq!(device.counts(), want);
    }
}
