//! Errors of the library as `OSError`, of which Python chooses the subclass by the number.

use crate::names;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use uext4::{BlockError, Errno};

/// The number of an error that is made of others: that of the first of them that has one. `EINVAL` otherwise: what was asked for can't be.
fn errno_of(error: &(dyn std::error::Error + 'static)) -> i32 {
    let mut next = Some(error);
    while let Some(e) = next {
        if let Some(e) = e.downcast_ref::<uext4::Error>() {
            return e.errno().0;
        }
        if let Some(number) = e
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::raw_os_error)
        {
            return number;
        }
        match e.downcast_ref::<BlockError>() {
            Some(BlockError::Busy { .. }) => return Errno::EBUSY.0,
            Some(BlockError::ReadOnly { .. }) => return Errno::EROFS.0,
            Some(BlockError::Image { .. } | BlockError::NotADevice { .. }) => {
                return Errno::EINVAL.0;
            }
            Some(e) if std::error::Error::source(e).is_none() => return Errno::EIO.0,
            _ => {}
        }
        next = e.source();
    }
    Errno::EINVAL.0
}

/// An error of an operation on paths of an image.
pub fn on_paths(py: Python<'_>, e: &uext4::Error, path: &[u8], to: Option<&[u8]>) -> PyErr {
    os_error(py, e.errno().0, e.to_string(), path, to).unwrap_or_else(|e| e)
}

/// An error of making, checking, repairing or opening an image, by the image's name.
pub fn on_image(py: Python<'_>, e: &(dyn std::error::Error + 'static), image: &[u8]) -> PyErr {
    os_error(py, errno_of(e), e.to_string(), image, None).unwrap_or_else(|e| e)
}

/// An error of an open file.
pub fn on_file(e: &std::io::Error) -> PyErr {
    let inner = e.get_ref().and_then(|e| e.downcast_ref::<uext4::Error>());
    let number = match inner {
        Some(e) => e.errno().0,
        None => e.raw_os_error().unwrap_or(Errno::EIO.0),
    };
    PyOSError::new_err((number, e.to_string()))
}

fn os_error(
    py: Python<'_>,
    errno: i32,
    text: String,
    path: &[u8],
    to: Option<&[u8]>,
) -> PyResult<PyErr> {
    let path = names::to_str(py, path)?.unbind();
    Ok(match to {
        None => PyOSError::new_err((errno, text, path)),
        Some(to) => {
            let to = names::to_str(py, to)?.unbind();
            PyOSError::new_err((errno, text, path, py.None(), to))
        }
    })
}
