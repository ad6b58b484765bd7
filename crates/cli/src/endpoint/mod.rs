//! One interface to the files of the host, of an image, and of an image that is mounted.

pub mod host;
mod image;
#[cfg(target_os = "linux")]
mod mounted;

pub use host::{Host, STDIN, STDOUT};
pub use image::Image;

use crate::system::paths;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4::unstable::{Attr, SetAttr};
use uext4::{FileKind, NewKind};

/// The files of an image that is mounted at `dir`, through its mount.
#[cfg(target_os = "linux")]
pub fn of_mount(id: usize, image: &Path, dir: &Path) -> Option<Arc<dyn Endpoint>> {
    let mounted = mounted::Mounted::new(id, image.to_owned(), dir).ok()?;
    Some(Arc::new(mounted))
}

/// The files of an image that is mounted: none is.
#[cfg(not(target_os = "linux"))]
pub fn of_mount(_: usize, _: &Path, _: &Path) -> Option<Arc<dyn Endpoint>> {
    None
}

/// As many links are followed at the end of a path, as on Linux.
const LINKS_MAX: usize = 40;

/// A file as it was found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Its attributes.
    pub attr: Attr,
    /// Which file system of its endpoint it is on.
    pub dev: u64,
}

/// Where data comes from.
pub trait Source {
    /// Reads at an offset, where a pipe is; fewer bytes than asked only at the end.
    fn read_at(&self, data: &mut [u8], offset: u64) -> Result<usize>;
    /// The first byte at `offset` or after it that may be data; `None` if only a hole follows.
    fn next_data(&self, offset: u64) -> Result<Option<u64>>;
}

/// Where data goes.
pub trait Sink {
    /// Writes all at an offset.
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()>;
    /// Whether it can have holes; else everything is written, from the first byte to the last.
    fn can_have_holes(&self) -> bool;
    /// Ends the file at this length, and what was not written is a hole; of what has no length, writes all back.
    fn finish(&self, len: u64) -> Result<()>;
}

/// How a file is opened to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// The user named it: whatever is there is written to, behind a link too; a file is made if nothing is there.
    Named,
    /// A file with data is there, and no link.
    Existing,
    /// Nothing is there.
    New,
    /// Of a file of an image, what is there stays, and writes append to it; a file is made if nothing is there.
    Append,
}

/// Files by path, to be read. Symbolic links are followed only where it says so.
///
/// # Errors
/// All name the file.
pub trait Endpoint: Send + Sync {
    /// Identifies an endpoint: files of two endpoints are never the same. The host's is 0.
    fn id(&self) -> usize;
    /// Whether it is an image, which may be damaged.
    fn is_image(&self) -> bool {
        self.id() != 0
    }
    /// The device and the number of the file of the host that holds the image, if it is one.
    fn image_file(&self) -> Option<(u64, u64)> {
        None
    }
    /// The file as messages name it.
    fn display(&self, path: &Path) -> String;
    /// What is there; `None` if nothing is.
    fn find(&self, path: &Path, follow: bool) -> Result<Option<Found>>;
    /// The names in a directory, in order.
    fn list(&self, path: &Path) -> Result<Vec<Vec<u8>>>;
    /// As [`Endpoint::list`], but damage is an error, and nothing is reported.
    fn list_undamaged(&self, path: &Path) -> Result<Vec<Vec<u8>>> {
        self.list(path)
    }
    /// What a symbolic link holds.
    fn read_link(&self, path: &Path) -> Result<Vec<u8>>;
    /// Opens a file to read; follows.
    fn open(&self, path: &Path) -> Result<Box<dyn Source>>;
    /// The extended attributes.
    fn xattrs(&self, path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;

    /// What is there.
    fn get(&self, path: &Path, follow: bool) -> Result<Found> {
        match self.find(path, follow)? {
            Some(found) => Ok(found),
            None => Err(self.missing(path)),
        }
    }

    /// The path of the file that symbolic links at the end of `path` lead to; it need not exist.
    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            let found = self.find(&path, false)?;
            if found.is_none_or(|found| found.attr.kind != FileKind::Symlink) {
                return Ok(path);
            }
            let target = self.read_link(&path)?;
            path.pop();
            path.push(paths::path(&target));
        }
        bail!("{}: too many symbolic links", self.display(&path))
    }

    /// That nothing is there.
    fn missing(&self, path: &Path) -> anyhow::Error {
        anyhow::anyhow!("{}: no such file or directory", self.display(path))
    }
}

/// Files by path, to be changed too.
///
/// # Errors
/// All name the file.
pub trait Target: Endpoint {
    /// Opens a file to write, empty unless it is appended to; one that is made gets `mode`.
    fn create(&self, path: &Path, mode: u16, over: Overwrite) -> Result<Box<dyn Sink>>;
    /// Makes something else than a file with data.
    fn make(&self, path: &Path, mode: u16, kind: NewKind<'_>) -> Result<()>;
    /// Gives a file another name.
    fn link(&self, original: &Path, link: &Path) -> Result<()>;
    /// Removes a name that is not a directory's.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> Result<()>;
    /// Makes what was written to it survive the end of the process.
    fn flush(&self) -> Result<()>;
    /// Changes attributes of what is a `kind`; owners as far as the user may.
    fn set_attr(&self, path: &Path, kind: FileKind, change: &SetAttr) -> Result<()>;
    /// Sets an extended attribute; false if this endpoint can't hold it.
    fn set_xattr(&self, path: &Path, name: &[u8], value: &[u8]) -> Result<bool>;
}
