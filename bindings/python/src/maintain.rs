//! Images made, checked, repaired and compared.

use crate::error;
use crate::image::Image;
use crate::names::{self, Name};
use crate::progress::Calls;
use crate::stat::kind_bits;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4::unstable::{RepairDecision, RepairPolicy, UndoPlace, repair_image};
use uext4::{
    Change, ChangeKind, CheckOptions, Difference, ExportError, Fault, ImageFormat, MkfsOptions,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The exception of a callback, else the error of what it was called by.
fn ended<T>(
    py: Python<'_>,
    calls: &Calls,
    result: Result<T, Failure>,
    image: &Path,
) -> PyResult<T> {
    calls.end()?;
    result.map_err(|e| error::on_image(py, &*e, image.as_os_str().as_bytes()))
}

/// Sets an option of mkfs by its name in Python.
fn set_option(options: MkfsOptions, name: &str, value: &Bound<'_, PyAny>) -> PyResult<MkfsOptions> {
    Ok(match name {
        "size" => options.size(value.extract()?),
        "limit" => options.limit(value.extract()?),
        "platform" => options.platform(value.extract::<String>()?),
        "block_size" => options.block_size(value.extract()?),
        "cluster_size" => options.cluster_size(value.extract()?),
        "inode_size" => options.inode_size(value.extract()?),
        "inodes" => options.inodes(value.extract()?),
        "inode_ratio" => options.inode_ratio(value.extract()?),
        "features" => options
            .features(value.extract()?)
            .map_err(|e| PyValueError::new_err(e.to_string()))?,
        "journal_size" => options.journal_size(value.extract()?),
        "uuid" => options.uuid(value.extract()?),
        "label" => options.label(value.extract::<String>()?),
        "reserved_percent" => options.reserved_percent(value.extract()?),
        "time" => options.time(value.extract()?),
        "owner" => {
            let (uid, gid) = value.extract()?;
            options.owner(uid, gid)
        }
        "exclude" => {
            let patterns: Vec<String> = value.extract()?;
            patterns.into_iter().fold(options, MkfsOptions::exclude)
        }
        "fsverity" => {
            let patterns: Vec<String> = value.extract()?;
            patterns.into_iter().fold(options, MkfsOptions::fsverity)
        }
        "manifest" => options.manifest(value.extract::<PathBuf>()?),
        "threads" => options.threads(value.extract()?),
        "partition" => options.partition(value.extract::<String>()?),
        "digest" if value.is_truthy()? => options.digest(),
        "digest" => options,
        "format" => options.format(match value.extract()? {
            "raw" => ImageFormat::Raw,
            "qcow2" => ImageFormat::Qcow2,
            other => {
                let text = format!("the format is 'raw' or 'qcow2', not {other:?}");
                return Err(PyValueError::new_err(text));
            }
        }),
        _ => {
            let text = format!("mkfs() has no option {name:?}");
            return Err(PyTypeError::new_err(text));
        }
    })
}

/// Makes an image, of the sources in their order.
#[pyfunction]
pub fn mkfs<'py>(
    py: Python<'py>,
    path: PathBuf,
    sources: Vec<PathBuf>,
    settings: &Bound<'py, PyDict>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut options = MkfsOptions::new();
    for source in &sources {
        options = options.from_named(source);
    }
    for (name, value) in settings {
        options = set_option(options, name.extract()?, &value)?;
    }
    let calls = Calls::new(progress);
    let made = py.detach(|| uext4::mkfs(&path, &options, &calls).map_err(Failure::from));
    let report = ended(py, &calls, made, &path)?;
    let dict = PyDict::new(py);
    dict.set_item("files", report.files)?;
    dict.set_item("directories", report.directories)?;
    dict.set_item("symlinks", report.symlinks)?;
    dict.set_item("others", report.others)?;
    dict.set_item("hard_links", report.hard_links)?;
    dict.set_item("data_bytes", report.data_bytes)?;
    dict.set_item("image_bytes", report.image_bytes)?;
    dict.set_item(
        "digest",
        report.digest.map(|digest| PyBytes::new(py, &digest)),
    )?;
    Ok(dict)
}

/// A fault as a dictionary.
fn fault<'py>(py: Python<'py>, of: &Fault) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("text", of.to_string())?;
    dict.set_item(
        "inode",
        of.ino
            .map(|ino| ino.to_string().parse::<u64>())
            .transpose()?,
    )?;
    dict.set_item(
        "block",
        of.pblk
            .map(|block| block.to_string().parse::<u64>())
            .transpose()?,
    )?;
    dict.set_item(
        "group",
        of.group
            .map(|group| group.to_string().parse::<u64>())
            .transpose()?,
    )?;
    Ok(dict)
}

fn faults<'py>(py: Python<'py>, of: &[Fault]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for of in of {
        list.append(fault(py, of)?)?;
    }
    Ok(list)
}

/// Checks everything of an image.
#[pyfunction]
pub fn check(
    py: Python<'_>,
    path: PathBuf,
    threads: usize,
    faults_max: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyDict>> {
    let options = CheckOptions::new().threads(threads).faults_max(faults_max);
    let calls = Calls::new(progress);
    let checked = py.detach(|| uext4::check(&path, &options, &calls).map_err(Failure::from));
    let report = ended(py, &calls, checked, &path)?;
    let dict = PyDict::new(py);
    dict.set_item("clean", report.is_clean() && !report.incomplete)?;
    dict.set_item("faults", faults(py, &report.faults)?)?;
    dict.set_item("faults_total", report.faults_total)?;
    dict.set_item("notes", faults(py, &report.notes)?)?;
    dict.set_item("incomplete", report.incomplete)?;
    dict.set_item("needs_recovery", report.needs_recovery)?;
    dict.set_item("inodes_used", report.inodes_used)?;
    Ok(dict)
}

/// Repairs an image: every fault, or with `safe` those whose repair loses nothing.
#[pyfunction]
pub fn repair(
    py: Python<'_>,
    path: PathBuf,
    safe: bool,
    undo: Option<PathBuf>,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyDict>> {
    let mut policy = match safe {
        true => RepairPolicy::Safe,
        false => RepairPolicy::All,
    };
    let options = CheckOptions::new().threads(threads);
    let calls = Calls::new(progress);
    let undo = undo.as_deref().map(UndoPlace::new);
    let repaired = py.detach(|| {
        let wanted = || !calls.has_failed();
        repair_image(&path, &mut policy, undo.as_ref(), &options, &calls, wanted)
    });
    let plan = ended(py, &calls, repaired, &path)?;
    let of = |repaired: bool| -> PyResult<Bound<'_, PyList>> {
        let decided = |d: &&RepairDecision| d.repaired == repaired;
        let chosen = plan.decisions.iter().filter(decided);
        faults(py, &chosen.map(|d| d.fault.clone()).collect::<Vec<_>>())
    };
    let dict = PyDict::new(py);
    dict.set_item("repaired", of(true)?)?;
    dict.set_item("left", of(false)?)?;
    dict.set_item("clean", plan.mends_all())?;
    Ok(dict)
}

/// A difference by its name in Python.
fn difference(of: &Difference) -> String {
    match of {
        Difference::Kind(..) => "kind".to_owned(),
        Difference::Permissions(..) => "permissions".to_owned(),
        Difference::Owner(..) => "owner".to_owned(),
        Difference::Len(..) => "size".to_owned(),
        Difference::Data => "data".to_owned(),
        Difference::Target(..) => "target".to_owned(),
        Difference::Device(..) => "device".to_owned(),
        Difference::Modified(..) => "mtime".to_owned(),
        Difference::Xattr(name) => format!("xattr:{}", String::from_utf8_lossy(name)),
        Difference::Links(..) => "links".to_owned(),
        other => format!("{other:?}"),
    }
}

/// A file that differs, as a dictionary.
fn change<'py>(py: Python<'py>, of: &Change) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("path", names::to_str(py, &of.path)?)?;
    dict.set_item(
        "change",
        match of.kind {
            ChangeKind::Added => "added",
            ChangeKind::Removed => "removed",
            ChangeKind::Changed => "changed",
        },
    )?;
    dict.set_item("kind", kind_bits(of.file_kind))?;
    let differences: Vec<String> = of.differences.iter().map(difference).collect();
    dict.set_item("differences", differences)?;
    Ok(dict)
}

/// Compares a tree of an image with one of a newer image.
#[pyfunction]
pub fn diff<'py>(
    py: Python<'py>,
    old: &Bound<'py, Image>,
    new: &Bound<'py, Image>,
    path: Name,
    new_path: Name,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let (old, new) = (old.get().filesystem()?, new.get().filesystem()?);
    let calls = Calls::new(progress);
    let compared = py.detach(|| {
        let mut found = Vec::new();
        let result = old.diff(&path.0, &new, &new_path.0, &calls, |change| {
            found.push(change);
            Ok::<(), ExportError>(())
        });
        // Dropped here, where the thread is detached.
        drop((old, new));
        result.map(|_| found).map_err(Failure::from)
    });
    let shown = Path::new(std::ffi::OsStr::from_bytes(&path.0));
    let found = ended(py, &calls, compared, shown)?;
    found.iter().map(|of| change(py, of)).collect()
}
