//! Paths and names of Python: strings, with surrogates for bytes that are not UTF-8 as `os.fsencode` has them, and bytes.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// A path or a name inside an image: a string, bytes, a pure path of `pathlib`, or what has the method `__ext4path__`.
#[derive(Clone, Debug)]
pub struct Name(pub Vec<u8>);

impl<'a, 'py> FromPyObject<'a, 'py> for Name {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Name> {
        if let Ok(bytes) = given.cast::<PyBytes>() {
            return Ok(Name(bytes.as_bytes().to_vec()));
        }
        if !given.is_instance_of::<PyString>() && given.hasattr("__ext4path__")? {
            let path: PathBuf = given.call_method0("__ext4path__")?.extract()?;
            return Ok(Name(path.into_os_string().into_vec()));
        }
        match given.extract::<PathBuf>() {
            Ok(path) => Ok(Name(path.into_os_string().into_vec())),
            Err(_) => Err(PyTypeError::new_err(format!(
                "a path in an image is str, bytes or a pure path, not {}",
                given.get_type().name()?
            ))),
        }
    }
}

/// A name as a string of Python.
pub fn to_str<'py>(py: Python<'py>, name: &[u8]) -> PyResult<Bound<'py, PyString>> {
    Ok(OsStr::from_bytes(name).into_pyobject(py)?)
}
