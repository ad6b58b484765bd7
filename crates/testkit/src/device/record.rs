//! A device that logs every change, for crash tests.
//!
//! # Data model
//! The log is a base image and a list of operations in the order in which they *returned*; the
//! index of one is its sequence number. A flush covers what had returned when it began, so that a
//! write that runs beside a flush isn't taken for durable. Calls that fail aren't logged. What
//! [`super::Replayer`] makes of a log is in `replay.rs`.
//!
//! # Locking
//! The list's lock (class `device`) is taken after the wrapped device's call, never over it. Writes
//! of the same bytes at the same time may be logged in another order than the device took them.

use crate::external::*;
use std::io::IoSlice;
use uext4_block::error::Result;
use uext4_sync::{Mutex, class};

/// A change of a device. Offsets and lengths are in bytes.
#[derive(Clone, Debug)]
pub enum RecordOp {
    /// A write.
    Write {
        /// Where it began.
        offset: u64,
        /// What was written.
        data: Arc<[u8]>,
        /// Whether it was durable when it returned.
        fua: bool,
    },
    /// A range that reads as zeros from then on.
    Zero {
        /// Where it began.
        offset: u64,
        /// How long it was.
        len: u64,
    },
    /// A range given up.
    Discard {
        /// Where it began.
        offset: u64,
        /// How long it was.
        len: u64,
    },
    /// A flush.
    Flush {
        /// The operations before this index had returned when the flush began.
        covers: usize,
    },
    /// A change of length.
    SetLen(u64),
    /// A marker of the test.
    Mark(u64),
}

/// A marker in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its index in the log.
    pub at_op: usize,
    /// What the test gave.
    pub value: u64,
}

/// What happened to a device since it was wrapped.
#[derive(Clone, Debug)]
pub struct RecordLog {
    /// The image at the start.
    pub base: MemoryDevice,
    /// What changed it, in the order in which the calls returned.
    pub ops: Vec<RecordOp>,
}

impl RecordLog {
    /// The log cut after each flush: ranges of indices, together all of it.
    pub fn epochs(&self) -> Vec<Range<usize>> {
        let mut epochs = Vec::new();
        let mut start = 0;
        for (index, op) in self.ops.iter().enumerate() {
            if matches!(op, RecordOp::Flush { .. }) {
                epochs.push(start..index + 1);
                start = index + 1;
            }
        }
        if start < self.ops.len() {
            epochs.push(start..self.ops.len());
        }
        epochs
    }

    /// The bytes that the logged writes carry.
    pub fn written_bytes(&self) -> u64 {
        let len = |op: &RecordOp| match op {
            RecordOp::Write { data, .. } => data.len() as u64,
            _ => 0,
        };
        self.ops.iter().map(len).sum()
    }
}

/// A device that logs every change. Share it as an [`Arc`] to keep hold of the log.
#[derive(Debug)]
pub struct RecordDevice<D> {
    inner: D,
    /// Immutable.
    base: MemoryDevice,
    /// Immutable: whether it says that its flush is atomic.
    is_atomic: bool,
    ops: Mutex<Vec<RecordOp>>,
}

impl<D: BlockDevice> RecordDevice<D> {
    /// Wraps `inner` and copies its bytes for the base of the log.
    pub fn new(inner: D) -> Result<RecordDevice<D>> {
        let base = MemoryDevice::copy_of(&inner)?;
        Ok(RecordDevice::over(inner, base))
    }

    /// Wraps `inner`, whose bytes are those of `base`.
    pub fn over(inner: D, base: MemoryDevice) -> RecordDevice<D> {
        RecordDevice {
            inner,
            base,
            is_atomic: false,
            ops: Mutex::new(&class::DEVICE, Vec::new()),
        }
    }

    /// Makes its flushes atomic: a power loss leaves [`RecordLog::last_flush`].
    pub fn atomic(self, is_atomic: bool) -> RecordDevice<D> {
        RecordDevice { is_atomic, ..self }
    }

    /// Puts a marker into the log: "fsync of X returned here".
    pub fn mark(&self, value: u64) {
        self.push(RecordOp::Mark(value));
    }

    /// The number of operations so far: the next one's index.
    pub fn ops_len(&self) -> usize {
        self.ops.lock().len()
    }

    /// The log so far; it shares the bytes.
    pub fn log(&self) -> RecordLog {
        RecordLog {
            base: self.base.clone(),
            ops: self.ops.lock().clone(),
        }
    }

    fn push(&self, op: RecordOp) {
        self.ops.lock().push(op);
    }

    fn push_write(&self, offset: u64, data: Arc<[u8]>, fua: bool) {
        if !data.is_empty() {
            self.push(RecordOp::Write { offset, data, fua });
        }
    }
}

impl<D: BlockDevice> BlockDevice for RecordDevice<D> {
    forward_device!(self => self.inner;
        len, is_read_only, logical_block_size, read_at, read_vectored_at, read_batch, allocate, identity);

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let data = Arc::from(buf);
        self.inner.write_at(offset, buf)?;
        self.push_write(offset, data, false);
        Ok(())
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        let data: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        self.inner.write_vectored_at(offset, bufs)?;
        self.push_write(offset, data.into(), false);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let covers = self.ops_len();
        self.inner.flush()?;
        self.push(RecordOp::Flush { covers });
        Ok(())
    }

    fn write_fua(&self, offset: u64, buf: &[u8]) -> Result<()> {
        if self.is_atomic {
            self.write_at(offset, buf)?;
            return self.flush();
        }
        let data = Arc::from(buf);
        self.inner.write_fua(offset, buf)?;
        self.push_write(offset, data, true);
        Ok(())
    }

    fn is_flush_atomic(&self) -> bool {
        self.is_atomic
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.discard(offset, len)?;
        self.push(RecordOp::Discard { offset, len });
        Ok(())
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.zero(offset, len)?;
        self.push(RecordOp::Zero { offset, len });
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)?;
        self.push(RecordOp::SetLen(len));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::replay::Cut;
    use super::*;

    #[test]
    fn base_is_the_start() {
        let device = RecordDevice::new(MemoryDevice::from_bytes(&[4; 1000])).unwrap();
        device.write_at(0, &[5; 1000]).unwrap();
        device.write_at(1, &[]).unwrap();
        assert_eq!(device.log().base.snapshot(), [4; 1000]);
        assert_eq!(device.ops_len(), 1);
    }

    #[test]
    fn marks_and_epochs() {
        let device = RecordDevice::new(MemoryDevice::new(4096)).unwrap();
        device.mark(10);
        device.flush().unwrap();
        device.write_at(0, &[1]).unwrap();
        device.mark(11);
        let log = device.log();
        let values = |at_op| -> Vec<u64> {
            let marks = log.marks_before(&Cut::at(at_op));
            marks.iter().map(|mark| mark.value).collect()
        };
        assert!(values(0).is_empty());
        assert_eq!(values(1), [10]);
        assert_eq!(values(3), [10]);
        assert_eq!(values(99), [10, 11]);
        assert_eq!(log.epochs(), [0..2, 2..4]);
    }

    /// A device whose flush is overtaken by a write.
    #[derive(Debug)]
    struct Overtaken(Mutex<Option<std::sync::Weak<RecordDevice<Arc<Overtaken>>>>>);

    impl BlockDevice for Overtaken {
        fn len(&self) -> u64 {
            4096
        }
        fn is_read_only(&self) -> bool {
            false
        }
        fn read_at(&self, _: u64, buf: &mut [u8]) -> Result<()> {
            buf.fill(0);
            Ok(())
        }
        fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
            Ok(())
        }
        fn flush(&self) -> Result<()> {
            let recorder = self.0.lock().take();
            recorder
                .and_then(|r| r.upgrade())
                .map_or(Ok(()), |r| r.write_at(512, &[2]))
        }
        fn discard(&self, _: u64, _: u64) -> Result<()> {
            Ok(())
        }
        fn zero(&self, _: u64, _: u64) -> Result<()> {
            Ok(())
        }
        fn set_len(&self, _: u64) -> Result<()> {
            Ok(())
        }
        fn identity(&self) -> Option<DeviceId> {
            None
        }
    }

    #[test]
    fn a_write_beside_a_flush_is_not_durable() {
        let inner = Arc::new(Overtaken(Mutex::new(&class::DEVICE, None)));
        let device = Arc::new(RecordDevice::new(inner.clone()).unwrap());
        *inner.0.lock() = Some(Arc::downgrade(&device));
        device.write_at(0, &[1]).unwrap();
        device.flush().unwrap();
        let log = device.log();
        let mut lost = 0;
        for seed in 0..50 {
            let image = log.replay(&Cut::at(log.ops.len()).seeded(seed)).snapshot();
            assert_eq!(image[0], 1);
            lost += usize::from(image[512] == 0);
        }
        assert!(lost > 0 && lost < 50);
    }
}
