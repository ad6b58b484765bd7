//! Attributes of files as `os.stat_result`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use uext4::{FileKind, Metadata, Timestamp};

static STAT_RESULT: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The bits of `st_mode` that say what a file is.
pub fn kind_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => 0o100_000,
        FileKind::Directory => 0o040_000,
        FileKind::Symlink => 0o120_000,
        FileKind::CharDevice => 0o020_000,
        FileKind::BlockDevice => 0o060_000,
        FileKind::Fifo => 0o010_000,
        FileKind::Socket => 0o140_000,
    }
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.sec) * 1_000_000_000 + i128::from(time.nsec)
}

/// Seconds as Python has them, with the fraction that a float holds.
#[expect(clippy::cast_precision_loss, reason = "as os.stat does")]
fn seconds(time: Timestamp) -> f64 {
    time.sec as f64 + f64::from(time.nsec) * 1e-9
}

/// The number of a device as makedev(3) makes it.
fn device_number((major, minor): (u32, u32)) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    (major & 0xfff) << 8 | (major >> 12) << 44 | minor & 0xff | (minor >> 8) << 20
}

/// `os.stat_result` of a file.
pub fn result<'py>(py: Python<'py>, of: &Metadata) -> PyResult<Bound<'py, PyAny>> {
    let mode = kind_bits(of.file_kind()) | u32::from(of.permissions());
    let times = [of.accessed(), of.modified(), of.changed()];
    let [accessed, modified, changed] = times.map(|t| t.sec);
    let named = PyDict::new(py);
    for (name, time) in ["st_atime", "st_mtime", "st_ctime"].iter().zip(times) {
        named.set_item(name, seconds(time))?;
        named.set_item(format!("{name}_ns"), nanoseconds(time))?;
    }
    named.set_item("st_blksize", of.blksize())?;
    named.set_item("st_blocks", of.blocks())?;
    named.set_item("st_rdev", device_number(of.rdev()))?;
    let numbers = (
        mode,
        of.ino(),
        0,
        of.nlink(),
        of.uid(),
        of.gid(),
        of.len(),
        accessed,
        modified,
        changed,
    );
    STAT_RESULT
        .import(py, "os", "stat_result")?
        .call1((numbers, named))
}
