//! An open file, of which the package makes an `io.RawIOBase`.

use crate::image::drop_detached;
use crate::{buffer, error, stat};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::{Arc, PoisonError, RwLock};
use uext4::File;

/// An open file. Its position is that of the file, which threads share.
#[pyclass(frozen, module = "uext4._uext4")]
pub struct RawFile {
    /// `None` once closed.
    file: RwLock<Option<Arc<File>>>,
}

impl RawFile {
    pub fn new(file: File) -> RawFile {
        RawFile {
            file: RwLock::new(Some(Arc::new(file))),
        }
    }

    fn file(&self) -> PyResult<Arc<File>> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        let closed = || PyValueError::new_err("I/O operation on closed file.");
        file.clone().ok_or_else(closed)
    }

    fn on_file<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&File) -> std::io::Result<T> + Send,
    ) -> PyResult<T> {
        let file = self.file()?;
        py.detach(move || call(&file))
            .map_err(|e| error::on_file(&e))
    }
}

#[pymethods]
impl RawFile {
    fn readinto(&self, py: Python<'_>, memory: PyBuffer<u8>) -> PyResult<usize> {
        let file = self.file()?;
        buffer::fill(py, &memory, move |data| (&*file).read(data))?.map_err(|e| error::on_file(&e))
    }

    fn write(&self, py: Python<'_>, memory: PyBuffer<u8>) -> PyResult<usize> {
        let file = self.file()?;
        buffer::take(py, &memory, move |data| (&*file).write(data))?.map_err(|e| error::on_file(&e))
    }

    /// Reads at an offset, whatever the position is.
    fn pread_into(&self, py: Python<'_>, memory: PyBuffer<u8>, offset: u64) -> PyResult<usize> {
        let file = self.file()?;
        buffer::fill(py, &memory, move |data| file.read_at(data, offset))?
            .map_err(|e| error::on_file(&e.into()))
    }

    /// Writes at an offset, whatever the position is.
    fn pwrite(&self, py: Python<'_>, memory: PyBuffer<u8>, offset: u64) -> PyResult<usize> {
        let file = self.file()?;
        buffer::take(py, &memory, move |data| file.write_at(data, offset))?
            .map_err(|e| error::on_file(&e.into()))
    }

    #[pyo3(signature = (offset, whence=0))]
    fn seek(&self, py: Python<'_>, offset: i64, whence: u8) -> PyResult<u64> {
        let to = match (whence, u64::try_from(offset)) {
            (0, Ok(offset)) => SeekFrom::Start(offset),
            (1, _) => SeekFrom::Current(offset),
            (2, _) => SeekFrom::End(offset),
            (0, Err(_)) => {
                return Err(PyValueError::new_err(format!(
                    "negative seek position {offset}"
                )));
            }
            _ => return Err(PyValueError::new_err(format!("invalid whence ({whence})"))),
        };
        self.on_file(py, move |mut file| file.seek(to))
    }

    fn truncate(&self, py: Python<'_>, len: u64) -> PyResult<()> {
        self.on_file(py, move |file| Ok(file.set_len(len)?))
    }

    /// Returns once what the file holds is durable; with `data_only`, what is needed to read it back.
    #[pyo3(signature = (data_only=false))]
    fn fsync(&self, py: Python<'_>, data_only: bool) -> PyResult<()> {
        self.on_file(py, move |file| match data_only {
            true => Ok(file.sync_data()?),
            false => Ok(file.sync_all()?),
        })
    }

    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.on_file(py, |file| Ok(file.metadata()?))?;
        stat::result(py, &found)
    }

    fn close(&self, py: Python<'_>) {
        let mut file = self.file.write().unwrap_or_else(PoisonError::into_inner);
        let closed = file.take();
        drop(file);
        py.detach(move || drop(closed));
    }
}

impl Drop for RawFile {
    fn drop(&mut self) {
        let file = self.file.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop_detached(file.take());
    }
}
