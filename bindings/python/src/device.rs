//! A file object of Python as a device: an image in a store that fsspec reaches, of which only the ranges that are used are read.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io;
use uext4::{BlockDevice, BlockError, BlockOp, DeviceId};

type Result<T> = std::result::Result<T, BlockError>;

/// A device that is read by a call of Python, `read(offset, length) -> bytes`; it is not written.
#[derive(Debug)]
pub struct PythonDevice {
    read: Py<PyAny>,
    len: u64,
}

impl PythonDevice {
    pub fn new(read: Py<PyAny>, len: u64) -> PythonDevice {
        PythonDevice { read, len }
    }

    /// Refuses what writes.
    fn refuse(op: BlockOp, offset: u64, len: u64) -> Result<()> {
        Err(BlockError::ReadOnly { op, offset, len })
    }
}

impl BlockDevice for PythonDevice {
    fn len(&self) -> u64 {
        self.len
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let (op, len) = (BlockOp::Read, buf.len() as u64);
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(BlockError::OutOfRange {
                op,
                offset,
                len,
                device_len: self.len,
            });
        }
        let failed = |source| BlockError::Io {
            op,
            offset,
            len,
            source,
        };
        let done = Python::try_attach(|py| -> PyResult<usize> {
            let data = self.read.bind(py).call1((offset, len))?;
            let data = data.cast::<PyBytes>()?.as_bytes();
            let done = data.len().min(buf.len());
            buf[..done].copy_from_slice(&data[..done]);
            Ok(done)
        });
        let done = done
            .ok_or_else(|| failed(io::Error::other("the interpreter ended")))?
            .map_err(|e| failed(e.into()))?;
        match done == buf.len() {
            true => Ok(()),
            false => Err(BlockError::Short {
                op,
                offset,
                len,
                done: done as u64,
            }),
        }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        PythonDevice::refuse(BlockOp::Write, offset, buf.len() as u64)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        PythonDevice::refuse(BlockOp::Discard, offset, len)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        PythonDevice::refuse(BlockOp::Write, offset, len)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        PythonDevice::refuse(BlockOp::Write, 0, len)
    }

    fn identity(&self) -> Option<DeviceId> {
        None
    }
}
