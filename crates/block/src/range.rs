//! A part of a device as a device, such as a partition of a disk image.

use crate::device::BlockDevice;
use crate::device_id::DeviceId;
use crate::error::{BlockError, BlockOp, EINVAL, Result, check_range};
use crate::forward_device;
use crate::origin::Origin;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

/// A part of a device, of a fixed length.
#[derive(Debug)]
pub struct RangeDevice {
    /// Immutable.
    device: Arc<dyn BlockDevice>,
    /// Where it begins, in bytes. Immutable.
    start: u64,
    /// Bytes. Immutable.
    len: u64,
}

impl RangeDevice {
    /// The part of `device` from `start` on: `len` bytes, or up to the end.
    ///
    /// # Errors
    /// [`BlockError::OutOfRange`]: the device ends before the part does.
    pub fn new(device: Arc<dyn BlockDevice>, start: u64, len: Option<u64>) -> Result<RangeDevice> {
        let len = len.unwrap_or_else(|| device.len().saturating_sub(start));
        check_range(BlockOp::Read, start, len, device.len())?;
        Ok(RangeDevice { device, start, len })
    }

    /// Where `offset` is on the whole device.
    fn at(&self, op: BlockOp, offset: u64, len: u64) -> Result<u64> {
        check_range(op, offset, len, self.len)?;
        Ok(self.start + offset)
    }
}

impl BlockDevice for RangeDevice {
    forward_device!(self => self.device; is_read_only, logical_block_size, flush);
    forward_device!(self => self.device; is_flush_atomic, is_fenced, remote_stats, release);

    fn len(&self) -> u64 {
        self.len
    }

    fn newest(&self) -> Result<Option<Arc<dyn BlockDevice>>> {
        let part = |whole| RangeDevice::new(whole, self.start, Some(self.len));
        let newest = self.device.newest()?.map(part).transpose()?;
        Ok(newest.map(|part| Arc::new(part) as Arc<dyn BlockDevice>))
    }

    fn identity(&self) -> Option<DeviceId> {
        self.device.identity()
    }

    fn origin(&self, offset: u64, len: u64) -> Origin {
        match self.at(BlockOp::Read, offset, len) {
            Ok(at) => self.device.origin(at, len),
            Err(_) => Origin::unknown(len),
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let at = self.at(BlockOp::Read, offset, buf.len() as u64)?;
        self.device.read_at(at, buf)
    }

    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<()> {
        let at = self.at(BlockOp::Read, offset, crate::device::total_len_mut(bufs))?;
        self.device.read_vectored_at(at, bufs)
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        let mut shifted = Vec::with_capacity(reads.len());
        for (offset, buf) in reads {
            let at = self.at(BlockOp::Read, *offset, buf.len() as u64)?;
            shifted.push((at, &mut **buf));
        }
        self.device.read_batch(&mut shifted)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let at = self.at(BlockOp::Write, offset, buf.len() as u64)?;
        self.device.write_at(at, buf)
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let at = self.at(BlockOp::Write, offset, crate::device::total_len(bufs))?;
        self.device.write_vectored_at(at, bufs)
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        let shift =
            |(offset, buf): &(u64, &'_ [u8])| self.at(BlockOp::Write, *offset, buf.len() as u64);
        let mut shifted = Vec::with_capacity(writes.len());
        for write in writes {
            shifted.push((shift(write)?, write.1));
        }
        self.device.write_batch(&shifted)
    }

    fn write_fua(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let at = self.at(BlockOp::Write, offset, buf.len() as u64)?;
        self.device.write_fua(at, buf)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        let at = self.at(BlockOp::Discard, offset, len)?;
        self.device.discard(at, len)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        let at = self.at(BlockOp::Zero, offset, len)?;
        self.device.zero(at, len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        let at = self.at(BlockOp::Allocate, offset, len)?;
        self.device.allocate(at, len)
    }

    fn drop_cache(&self, offset: u64, len: u64) -> Result<()> {
        let at = self.at(BlockOp::Read, offset, len)?;
        self.device.drop_cache(at, len)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let e = io::Error::from_raw_os_error(EINVAL);
        Err(BlockError::io(BlockOp::SetLen, 0, len, e))
    }
}
