//! An open image.

use crate::device::PythonDevice;
use crate::file::RawFile;
use crate::names::{self, Name};
use crate::{error, stat};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use uext4::unstable::SetAttr;
use uext4::{
    Caller, FileKind, Filesystem, ImageOptions, Metadata, NewKind, OpenOptions, RenameFlags,
    TimeSet, Timestamp, XattrFlags,
};

/// A name of a directory, its inode, and what it is.
type Entry<'py> = (Bound<'py, PyString>, u64, Option<u32>);

/// Drops what holds a mount, detached from the interpreter: the last one ends the mount, and may wait for threads that read a file object
/// of Python.
pub fn drop_detached<T: Send>(held: Option<T>) {
    if held.is_some() {
        Python::attach(|py| py.detach(move || drop(held)));
    }
}

/// An open image; the package's class `Image` is below it.
#[pyclass(subclass, frozen, module = "uext4._uext4")]
pub struct Image {
    /// `None` once closed.
    fs: RwLock<Option<Filesystem>>,
}

impl Image {
    pub fn filesystem(&self) -> PyResult<Filesystem> {
        let fs = self.fs.read().unwrap_or_else(PoisonError::into_inner);
        let closed = || PyValueError::new_err("operation on a closed image");
        fs.clone().ok_or_else(closed)
    }

    /// Runs an operation on a path, detached from the interpreter.
    fn on<T: Send>(
        &self,
        py: Python<'_>,
        path: &Name,
        call: impl FnOnce(&Filesystem, &[u8]) -> uext4::Result<T> + Send,
    ) -> PyResult<T> {
        let fs = self.filesystem()?;
        py.detach(move || call(&fs, &path.0))
            .map_err(|e| error::on_paths(py, &e, &path.0, None))
    }

    /// Runs an operation on two paths.
    fn on_two(
        &self,
        py: Python<'_>,
        from: &Name,
        to: &Name,
        call: impl FnOnce(&Filesystem, &[u8], &[u8]) -> uext4::Result<()> + Send,
    ) -> PyResult<()> {
        let fs = self.filesystem()?;
        py.detach(move || call(&fs, &from.0, &to.0))
            .map_err(|e| error::on_paths(py, &e, &from.0, Some(&to.0)))
    }

    fn set_attr(&self, py: Python<'_>, path: &Name, follow: bool, change: SetAttr) -> PyResult<()> {
        self.on(py, path, move |fs, path| match (follow, &change) {
            (false, _) => fs.set_attr(path, &change),
            (
                true,
                SetAttr {
                    mode: Some(mode), ..
                },
            ) => fs.set_permissions(path, *mode),
            (
                true,
                SetAttr {
                    uid: None,
                    gid: None,
                    ..
                },
            ) => fs.set_times(path, change.atime, change.mtime),
            (true, _) => fs.chown(path, change.uid, change.gid),
        })
    }
}

/// How a file is opened, by the letters of a mode of `open()` without `b` and `t`.
fn open_options(mode: &str, permissions: u16) -> PyResult<OpenOptions> {
    let wrong = || PyValueError::new_err(format!("invalid mode: {mode:?}"));
    let (first, plus) = match mode.strip_suffix('+') {
        Some(first) => (first, true),
        None => (mode, false),
    };
    let options = OpenOptions::new().mode(permissions);
    Ok(match first {
        "r" => options.read(true).write(plus),
        "w" => options.read(plus).write(true).create(true).truncate(true),
        "x" => options.read(plus).write(true).create_new(true),
        "a" => options.read(plus).append(true).create(true),
        _ => return Err(wrong()),
    })
}

/// A time in nanoseconds since 1970.
fn time_set(nanoseconds: i64) -> TimeSet {
    TimeSet::At(Timestamp {
        sec: nanoseconds.div_euclid(1_000_000_000),
        nsec: nanoseconds.rem_euclid(1_000_000_000) as u32,
    })
}

#[pymethods]
impl Image {
    /// Opens the image in a file of the host, or on a device that `read(offset, length)` reads, of `length` bytes.
    #[new]
    #[pyo3(signature = (path, mode="r", *, read=None, length=0, caller=None, exclusive=true, cache_bytes=None, skip_recovery=false))]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        mode: &str,
        read: Option<Py<PyAny>>,
        length: u64,
        caller: Option<(u32, u32)>,
        exclusive: bool,
        cache_bytes: Option<u64>,
        skip_recovery: bool,
    ) -> PyResult<Image> {
        let mut options = match mode {
            "r" => ImageOptions::read_only().skip_recovery(skip_recovery),
            "r+" => ImageOptions::read_write(),
            _ => {
                let text = format!("the mode of an image is 'r' or 'r+', not {mode:?}");
                return Err(PyValueError::new_err(text));
            }
        };
        options = options.exclusive(exclusive);
        if let Some((uid, gid)) = caller {
            options = options.caller(Caller::user(uid, gid));
        }
        if let Some(bytes) = cache_bytes {
            options = options.cache_bytes(bytes);
        }
        let opened = py.detach(|| match read {
            Some(read) => {
                let device = Arc::new(PythonDevice::new(read, length));
                Filesystem::open_device(device, &options)
            }
            None => Filesystem::open(&path, &options),
        });
        let fs = opened.map_err(|e| error::on_paths(py, &e, path.as_os_str().as_bytes(), None))?;
        Ok(Image {
            fs: RwLock::new(Some(fs)),
        })
    }

    /// Writes everything back and ends the mount; a second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut fs = self.fs.write().unwrap_or_else(PoisonError::into_inner);
        let open = fs.take();
        drop(fs);
        match open {
            Some(fs) => py
                .detach(move || fs.unmount())
                .map_err(|e| error::on_file(&e.into())),
            None => Ok(()),
        }
    }

    #[getter]
    fn closed(&self) -> bool {
        self.filesystem().is_err()
    }

    #[getter]
    fn read_only(&self) -> PyResult<bool> {
        Ok(self.filesystem()?.is_read_only())
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.on(py, &Name(b"/".to_vec()), |fs, _| fs.sync())
    }

    /// As `os.statvfs`, in a dictionary.
    fn _statfs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.on(py, &Name(b"/".to_vec()), |fs, _| fs.statfs())?;
        let dict = PyDict::new(py);
        dict.set_item("block_size", found.block_size)?;
        dict.set_item("blocks", found.blocks)?;
        dict.set_item("blocks_free", found.blocks_free)?;
        dict.set_item("blocks_available", found.blocks_available)?;
        dict.set_item("inodes", found.inodes)?;
        dict.set_item("inodes_free", found.inodes_free)?;
        dict.set_item("name_bytes_max", found.name_bytes_max)?;
        dict.set_item("read_only", found.read_only)?;
        Ok(dict)
    }

    #[pyo3(signature = (path, mode="r", permissions=0o644))]
    fn open_raw(
        &self,
        py: Python<'_>,
        path: Name,
        mode: &str,
        permissions: u16,
    ) -> PyResult<RawFile> {
        let options = open_options(mode, permissions)?;
        let file = self.on(py, &path, move |fs, path| options.open(fs, path))?;
        Ok(RawFile::new(file))
    }

    /// The names of a directory, each with its inode and the bits of `st_mode` that say what it is, if the directory records them.
    fn _entries<'py>(&self, py: Python<'py>, path: Name) -> PyResult<Vec<Entry<'py>>> {
        let found = self.on(py, &path, |fs, path| {
            fs.read_dir(path)?.collect::<uext4::Result<Vec<_>>>()
        })?;
        let entry = |e: &uext4::DirEntry| {
            let name = names::to_str(py, e.name())?;
            Ok((name, e.ino(), e.kind().map(stat::kind_bits)))
        };
        found.iter().map(entry).collect()
    }

    #[pyo3(signature = (path, *, follow_symlinks=true))]
    fn stat<'py>(
        &self,
        py: Python<'py>,
        path: Name,
        follow_symlinks: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found: Metadata = self.on(py, &path, |fs, path| match follow_symlinks {
            true => fs.metadata(path),
            false => fs.symlink_metadata(path),
        })?;
        stat::result(py, &found)
    }

    #[pyo3(signature = (path, mode=0o755))]
    fn mkdir(&self, py: Python<'_>, path: Name, mode: u16) -> PyResult<()> {
        self.on(py, &path, |fs, path| {
            fs.mknod(path, mode, NewKind::Directory)
        })
    }

    /// Makes a FIFO, a socket, a device or an empty file, by the bits of `st_mode`.
    #[pyo3(signature = (path, mode=0o100_600, major=0, minor=0))]
    fn mknod(&self, py: Python<'_>, path: Name, mode: u32, major: u32, minor: u32) -> PyResult<()> {
        let device = |kind| NewKind::Device { kind, major, minor };
        let kind = match mode & 0o170_000 {
            0 | 0o100_000 => NewKind::Regular,
            0o010_000 => NewKind::Fifo,
            0o140_000 => NewKind::Socket,
            0o020_000 => device(FileKind::CharDevice),
            0o060_000 => device(FileKind::BlockDevice),
            _ => {
                return Err(PyValueError::new_err(format!(
                    "mknod can't make mode {mode:#o}"
                )));
            }
        };
        let permissions = (mode & 0o7777) as u16;
        self.on(py, &path, |fs, path| fs.mknod(path, permissions, kind))
    }

    fn rmdir(&self, py: Python<'_>, path: Name) -> PyResult<()> {
        self.on(py, &path, |fs, path| fs.remove_dir(path))
    }

    fn unlink(&self, py: Python<'_>, path: Name) -> PyResult<()> {
        self.on(py, &path, |fs, path| fs.remove_file(path))
    }

    /// Removes a directory with everything in it; symbolic links are not followed.
    fn rmtree(&self, py: Python<'_>, path: Name) -> PyResult<()> {
        self.on(py, &path, |fs, path| fs.remove_dir_all(path))
    }

    /// Moves a name; with `replace=False` it fails if the new name exists, with `exchange=True` the two names change places.
    #[pyo3(signature = (src, dst, *, replace=true, exchange=false))]
    fn rename(
        &self,
        py: Python<'_>,
        src: Name,
        dst: Name,
        replace: bool,
        exchange: bool,
    ) -> PyResult<()> {
        let mut flags = RenameFlags::empty();
        flags.set(RenameFlags::NOREPLACE, !replace);
        flags.set(RenameFlags::EXCHANGE, exchange);
        self.on_two(py, &src, &dst, |fs, from, to| {
            fs.rename_with(from, to, flags)
        })
    }

    fn link(&self, py: Python<'_>, src: Name, dst: Name) -> PyResult<()> {
        self.on_two(py, &src, &dst, |fs, from, to| fs.hard_link(from, to))
    }

    fn symlink(&self, py: Python<'_>, src: Name, dst: Name) -> PyResult<()> {
        self.on_two(py, &src, &dst, |fs, target, link| fs.symlink(target, link))
    }

    fn readlink<'py>(&self, py: Python<'py>, path: Name) -> PyResult<Bound<'py, PyString>> {
        let target = self.on(py, &path, |fs, path| fs.read_link(path))?;
        names::to_str(py, &target)
    }

    #[pyo3(signature = (path, mode, *, follow_symlinks=true))]
    fn chmod(&self, py: Python<'_>, path: Name, mode: u32, follow_symlinks: bool) -> PyResult<()> {
        let change = SetAttr {
            mode: Some((mode & 0o7777) as u16),
            ..SetAttr::default()
        };
        self.set_attr(py, &path, follow_symlinks, change)
    }

    /// Changes owner and group; -1 leaves one as it is.
    #[pyo3(signature = (path, uid, gid, *, follow_symlinks=true))]
    fn chown(
        &self,
        py: Python<'_>,
        path: Name,
        uid: i64,
        gid: i64,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        let id = |id: i64| match id {
            -1 => Ok(None),
            id => u32::try_from(id)
                .map(Some)
                .map_err(|_| PyValueError::new_err(format!("{id} is no user or group"))),
        };
        let change = SetAttr {
            uid: id(uid)?,
            gid: id(gid)?,
            ..SetAttr::default()
        };
        match (change.uid, change.gid) {
            (None, None) => self.stat(py, path, follow_symlinks).map(drop),
            _ => self.set_attr(py, &path, follow_symlinks, change),
        }
    }

    /// Sets the times of the last access and the last change, in nanoseconds since 1970; without them, to now.
    #[pyo3(signature = (path, ns=None, *, follow_symlinks=true))]
    fn _utime(
        &self,
        py: Python<'_>,
        path: Name,
        ns: Option<(i64, i64)>,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        let (atime, mtime) = match ns {
            Some((atime, mtime)) => (time_set(atime), time_set(mtime)),
            None => (TimeSet::Now, TimeSet::Now),
        };
        let change = SetAttr {
            atime: Some(atime),
            mtime: Some(mtime),
            ..SetAttr::default()
        };
        self.set_attr(py, &path, follow_symlinks, change)
    }

    fn truncate(&self, py: Python<'_>, path: Name, length: u64) -> PyResult<()> {
        self.on(py, &path, |fs, path| fs.truncate(path, length))
    }

    fn getxattr<'py>(
        &self,
        py: Python<'py>,
        path: Name,
        attribute: Name,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.on(py, &path, |fs, path| fs.get_xattr(path, &attribute.0))?;
        Ok(PyBytes::new(py, &value))
    }

    /// Sets an extended attribute; the flags are `os.XATTR_CREATE` and `os.XATTR_REPLACE`.
    #[pyo3(signature = (path, attribute, value, flags=0))]
    fn setxattr(
        &self,
        py: Python<'_>,
        path: Name,
        attribute: Name,
        value: Vec<u8>,
        flags: u32,
    ) -> PyResult<()> {
        let flags = XattrFlags::from_bits(flags)
            .ok_or_else(|| PyValueError::new_err(format!("unknown flags {flags:#x}")))?;
        self.on(py, &path, |fs, path| {
            fs.set_xattr(path, &attribute.0, &value, flags)
        })
    }

    fn listxattr<'py>(&self, py: Python<'py>, path: Name) -> PyResult<Vec<Bound<'py, PyString>>> {
        let found = self.on(py, &path, |fs, path| fs.list_xattrs(path))?;
        found.iter().map(|name| names::to_str(py, name)).collect()
    }

    fn removexattr(&self, py: Python<'_>, path: Name, attribute: Name) -> PyResult<()> {
        self.on(py, &path, |fs, path| fs.remove_xattr(path, &attribute.0))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let fs = self.fs.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop_detached(fs.take());
    }
}
