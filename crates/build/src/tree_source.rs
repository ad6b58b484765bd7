//! Trees that a program provides as the source of an image.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use uext4_ondisk::InodeFlags;

/// A tree that an image is filled from, as a program provides it.
///
/// [`TreeSource::files`] is called once, and then [`TreeSource::read`] by several threads. If the files and their data are the same, the image is
/// the same, whatever the order of the calls.
///
/// # Examples
/// ```
/// use std::io;
/// use uext4_build::{SourceFile, SourceKind, TreeSource};
///
/// /// One file.
/// struct Hello;
///
/// impl TreeSource for Hello {
///     fn files(&self) -> Box<dyn Iterator<Item = io::Result<SourceFile>> + '_> {
///         let kind = SourceKind::Regular { len: 5, segments: None };
///         let files = [SourceFile::new("", 1, SourceKind::Directory), SourceFile::new("hello", 2, kind)];
///         Box::new(files.into_iter().map(Ok))
///     }
///
///     fn read(&self, _id: u64, at: u64, data: &mut [u8]) -> io::Result<usize> {
///         let rest = b"hello".get(at as usize..).unwrap_or_default();
///         let n = rest.len().min(data.len());
///         data[..n].copy_from_slice(&rest[..n]);
///         Ok(n)
///     }
/// }
/// ```
pub trait TreeSource: Send + Sync {
    /// The files, each directory before the files in it. Directories without an entry of their own are made.
    ///
    /// # Errors
    /// A file can't be read; the message should name it.
    fn files(&self) -> Box<dyn Iterator<Item = io::Result<SourceFile>> + '_>;

    /// Reads data of a regular file from the byte `at` on, until `data` is full or the file ends; the number of bytes. Holes are read
    /// as zeros.
    ///
    /// # Errors
    /// The data can't be read.
    fn read(&self, id: u64, at: u64, data: &mut [u8]) -> io::Result<usize>;
}

/// A name of a file in a [`TreeSource`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SourceFile {
    /// Names from the root with slashes between; empty for the root.
    pub path: Vec<u8>,
    /// What [`TreeSource::read`] knows the file by. A second name with the id of a file is a hard link to it.
    pub id: u64,
    /// What it is.
    pub kind: SourceKind,
    /// The 12 permission bits.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access.
    pub atime: SystemTime,
    /// Last change of the data.
    pub mtime: SystemTime,
    /// Last change of attributes.
    pub ctime: SystemTime,
    /// Creation; `None` means that of the image.
    pub crtime: Option<SystemTime>,
    /// Extended attributes, by their full names, with values as getxattr(2) returns them.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Flags; those that chattr(1) sets and that files of the kind can have are kept.
    pub flags: InodeFlags,
    /// Project; with one other than 0, the image gets the feature `project`.
    pub project: u32,
    /// The descriptor of fs-verity of a regular file as `FS_IOC_READ_VERITY_METADATA` returns it, with the signature behind it if there is one.
    /// The file gets the same fs-verity if that is of SHA-256 over blocks of 4096 bytes; else a warning has the number of such files.
    pub fsverity: Option<Vec<u8>>,
}

impl SourceFile {
    /// A file of root, of 1970, with permission 755 for a directory, 777 for a symbolic link, and 644 for others.
    pub fn new(path: impl Into<Vec<u8>>, id: u64, kind: SourceKind) -> SourceFile {
        SourceFile {
            path: path.into(),
            id,
            permissions: match kind {
                SourceKind::Directory => 0o755,
                SourceKind::Symlink(_) => 0o777,
                _ => 0o644,
            },
            kind,
            uid: 0,
            gid: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: None,
            xattrs: Vec::new(),
            flags: InodeFlags::empty(),
            project: 0,
            fsverity: None,
        }
    }
}

/// What a file of a [`TreeSource`] is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SourceKind {
    /// A directory.
    Directory,
    /// A regular file.
    Regular {
        /// Bytes.
        len: u64,
        /// Ranges of bytes that are data, in order; the rest are holes. `None` means all.
        segments: Option<Vec<Range<u64>>>,
    },
    /// A symbolic link, with its target.
    Symlink(Vec<u8>),
    /// A character device, by its major and minor number.
    CharDevice(u32, u32),
    /// A block device, by its major and minor number.
    BlockDevice(u32, u32),
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
}

/// A [`TreeSource`] with the name that messages have.
#[derive(Clone)]
pub struct NamedTree {
    name: PathBuf,
    tree: Arc<dyn TreeSource>,
}

// A tree is only read, and one whose reading panicked is not asked again.
impl std::panic::UnwindSafe for NamedTree {}
impl std::panic::RefUnwindSafe for NamedTree {}

impl NamedTree {
    /// A tree and its name.
    pub fn new(name: impl Into<PathBuf>, tree: Arc<dyn TreeSource>) -> NamedTree {
        NamedTree {
            name: name.into(),
            tree,
        }
    }

    /// The name.
    pub fn name(&self) -> &Path {
        &self.name
    }

    pub(crate) fn tree(&self) -> &dyn TreeSource {
        &*self.tree
    }

    /// An error of reading it.
    pub(crate) fn failed(&self, e: io::Error) -> crate::MkfsError {
        crate::MkfsError::tree("read", self.name.clone(), e)
    }
}

/// The same tree, not one with the same files.
impl PartialEq for NamedTree {
    fn eq(&self, other: &NamedTree) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.tree, &other.tree)
    }
}

impl Eq for NamedTree {}

impl fmt::Debug for NamedTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedTree").field(&self.name).finish()
    }
}
