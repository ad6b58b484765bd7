//! Writing an image into a file so that what the file held is lost only once its successor is complete.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4_block::{BlockError, FileDevice, OpenOptions as DeviceOptions};
use uext4_build::MkfsError;
use uext4_vfs::Errno;

/// So much of a file shows whether it holds data. Asking for holes would not: what was read counts as data.
const HEAD_BYTES: u64 = 256 << 10;

/// Makes the file `path` of `len` bytes and has `write` fill it; the file that is there, if it holds data, is replaced
/// afterwards.
///
/// # Errors
/// As [`crate::mkfs()`]; what was there is unchanged, what was made is removed.
pub(crate) fn write<T>(
    path: &Path,
    len: u64,
    write: impl FnOnce(Arc<FileDevice>) -> Result<T, MkfsError>,
) -> Result<T, MkfsError> {
    match File::open(path).map(|file| holds_data(&file)) {
        Ok(true) => replace(path, len, write),
        Ok(false) => fill(path, len, write),
        // A file of which nothing can be read may hold anything.
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(open_error(path, e)),
        Err(_) => {
            let made = Made(Some(path.to_owned()));
            let written = fill(path, len, write)?;
            made.keep();
            Ok(written)
        }
    }
}

/// Writes into the file where it is.
fn fill<T>(
    path: &Path,
    len: u64,
    write: impl FnOnce(Arc<FileDevice>) -> Result<T, MkfsError>,
) -> Result<T, MkfsError> {
    let device =
        FileDevice::open(path, &DeviceOptions::create(len)).map_err(|e| too_large(path, len, e))?;
    write(Arc::new(device))
}

fn replace<T>(
    path: &Path,
    len: u64,
    write: impl FnOnce(Arc<FileDevice>) -> Result<T, MkfsError>,
) -> Result<T, MkfsError> {
    let fail = |e| open_error(path, e);
    // A link to it stays a link.
    let path = path.canonicalize().map_err(fail)?;
    // Held to the end: an image that is in use is not replaced.
    let old = FileDevice::open(&path, &DeviceOptions::read_write())?;
    let beside = Made::beside(&path).map_err(fail)?;
    let written = fill(beside.path(), len, write)?;
    // Windows replaces no file that is open.
    let old = Some(old).filter(|_| cfg!(not(windows)));
    fs::rename(beside.path(), &path).map_err(fail)?;
    beside.keep();
    drop(old);
    if let Some(dir) = path.parent() {
        sync_names(dir).map_err(|e| open_error(dir, e))?;
    }
    Ok(written)
}

/// Makes the names in a directory durable.
#[cfg(unix)]
fn sync_names(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Nothing: the file system does it, and a directory is not opened as a file.
#[cfg(not(unix))]
fn sync_names(_: &Path) -> io::Result<()> {
    Ok(())
}

/// A file that was made, and is removed unless it is kept.
struct Made(Option<PathBuf>);

impl Made {
    /// A new file in the directory of another, which belongs to the same user and has the same mode.
    fn beside(other: &Path) -> io::Result<Made> {
        let there = fs::metadata(other)?;
        let pid = std::process::id();
        for number in 0_u32.. {
            let path = other.with_file_name(format!(".uext4-mkfs.{pid}.{number}"));
            let file = match File::create_new(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            let made = Made(Some(path));
            give_to(made.path(), &file, &there)?;
            return Ok(made);
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or(Path::new(""))
    }

    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The error that is reported is the one that led here.
            let _ = fs::remove_file(path);
        }
    }
}

/// Gives a file the owner and the permission that another one has.
#[cfg(unix)]
fn give_to(path: &Path, file: &File, there: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    // Only root gives files away.
    let _ = chown(path, Some(there.uid()), Some(there.gid()));
    file.set_permissions(fs::Permissions::from_mode(there.mode() & 0o777))
}

/// A new file has the owner and the permission of its directory.
#[cfg(not(unix))]
fn give_to(_path: &Path, _file: &File, _there: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// Whether the file begins with anything but zeros, as every file system worth keeping does.
fn holds_data(file: &File) -> bool {
    let mut head = Vec::new();
    let read = file.take(HEAD_BYTES).read_to_end(&mut head);
    read.is_err() || head.iter().any(|b| *b != 0)
}

fn open_error(path: &Path, source: io::Error) -> MkfsError {
    let path = path.to_owned();
    BlockError::Open { path, source }.into()
}

/// Names the host's limit where that is what the length failed at.
fn too_large(path: &Path, need: u64, e: BlockError) -> MkfsError {
    if e.raw_os_error() != Some(Errno::EFBIG.0) {
        return e.into();
    }
    let Ok(file) = File::options().write(true).open(path) else {
        return e.into();
    };
    let Ok(there) = file.metadata() else {
        return e.into();
    };
    let (mut least, mut most) = (there.len(), need);
    while least + 1 < most {
        let len = least + (most - least) / 2;
        match file.set_len(len) {
            Ok(()) => least = len,
            Err(_) => most = len,
        }
    }
    // It has no data behind its old end.
    let _ = file.set_len(there.len());
    MkfsError::HostLimit { need, most: least }
}
