//! Memory of Python that is read and written without the interpreter's lock.
#![allow(unsafe_code, reason = "memory of Python is a pointer and a length")]

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

/// Calls `fill` on the memory of a writable buffer, detached from the interpreter.
pub fn fill<T: Send>(
    py: Python<'_>,
    buffer: &PyBuffer<u8>,
    fill: impl FnOnce(&mut [u8]) -> T + Send,
) -> PyResult<T> {
    if buffer.readonly() || !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err(
            "a buffer that can be written is needed",
        ));
    }
    if buffer.len_bytes() == 0 {
        return Ok(py.detach(|| fill(&mut [])));
    }
    let memory = buffer.buf_ptr().expose_provenance();
    let len = buffer.len_bytes();
    Ok(py.detach(move || {
        let memory = std::ptr::with_exposed_provenance_mut::<u8>(memory);
        // SAFETY: `buffer` is contiguous, writable and not empty, and holds its memory in place until it is released, which is after this
        // call. As of readinto() of Python's own files, a program that uses the memory in another thread meanwhile finds any bytes in it.
        fill(unsafe { std::slice::from_raw_parts_mut(memory, len) })
    }))
}

/// Calls `take` on the memory of a buffer, detached from the interpreter.
pub fn take<T: Send>(
    py: Python<'_>,
    buffer: &PyBuffer<u8>,
    take: impl FnOnce(&[u8]) -> T + Send,
) -> PyResult<T> {
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("a contiguous buffer is needed"));
    }
    if buffer.len_bytes() == 0 {
        return Ok(py.detach(|| take(&[])));
    }
    let memory = buffer.buf_ptr().expose_provenance();
    let len = buffer.len_bytes();
    Ok(py.detach(move || {
        let memory = std::ptr::with_exposed_provenance::<u8>(memory);
        // SAFETY: as in `fill`; the memory is only read.
        take(unsafe { std::slice::from_raw_parts(memory, len) })
    }))
}
