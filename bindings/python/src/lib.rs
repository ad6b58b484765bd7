//! The native part of the Python package `uext4`: what needs the library, and nothing that Python can do. The package in `python/uext4`
//! makes of it what users see.
//!
//! # Locks
//! Every call that may block detaches from the interpreter first, and so does each drop of what an image is held by: a device may be a
//! file object of Python ([`device`]), which another thread reads from while it holds locks of the engine.
//!
//! | module | holds |
//! | --- | --- |
//! | [`image`], [`file`] | an open image; an open file |
//! | [`maintain`], [`progress`] | images made, checked, repaired and compared; their progress |
//! | [`device`] | a file object of Python as a device |
//! | [`names`], [`error`], [`stat`] | conversions |
//! | [`buffer`] | memory of Python |
#![deny(unsafe_code)]

mod buffer;
mod device;
mod error;
mod file;
mod image;
mod maintain;
mod names;
mod progress;
mod stat;

use pyo3::prelude::*;

/// The native part of `uext4`.
#[pymodule]
fn _uext4(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<image::Image>()?;
    module.add_class::<file::RawFile>()?;
    module.add_function(wrap_pyfunction!(maintain::mkfs, module)?)?;
    module.add_function(wrap_pyfunction!(maintain::check, module)?)?;
    module.add_function(wrap_pyfunction!(maintain::repair, module)?)?;
    module.add_function(wrap_pyfunction!(maintain::diff, module)?)?;
    Ok(())
}
