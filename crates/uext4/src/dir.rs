//! A directory that names are looked up in, as the `*at` system calls do.

use crate::file::File;
use crate::image_path::ImagePath;
use crate::metadata::Metadata;
use crate::open_options::OpenOptions;
use crate::operation;
use crate::read_dir::ReadDir;
use crate::session::Session;
use uext4_ext4::InodeRef;
use uext4_vfs::{Errno, FileHandle, FileKind, FileSystem, NewKind, NewNode, RenameFlags, Result};

/// A directory that stays open when its name changes. Names are single components, without `/`.
///
/// # Locks
/// Calls that change names take the directory's lock, exclusively; look-ups take it shared. Calls may sleep.
///
/// # Crash
/// Recovery finds each change of names as a whole or not at all, in the order in which they were made.
///
/// ```
/// # use uext4::*;
/// # let device = std::sync::Arc::new(MemoryDevice::new(16 << 20));
/// # mkfs_on(&*device, &MkfsOptions::new(), &NoProgress)?;
/// # let fs = Filesystem::open_device(device, &ImageOptions::read_write())?;
/// let dir = fs.root()?.mkdir("inbox", 0o755)?;
/// dir.create_new("one", 0o644)?;
/// dir.rename_at("one", &fs.root()?, "two", RenameFlags::empty())?;
/// assert!(dir.read_dir()?.next().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dir {
    /// Dropped before the mount, which may end with it.
    node: InodeRef,
    session: Session,
}

impl Dir {
    pub(crate) fn new(session: Session, node: InodeRef) -> Dir {
        Dir { node, session }
    }

    /// Refuses any other kind of file.
    pub(crate) fn of(session: Session, node: InodeRef) -> Result<Dir> {
        if session.vfs().getattr(&node)?.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        Ok(Dir::new(session, node))
    }

    /// The inode.
    #[cfg(feature = "unstable")]
    pub(crate) fn inode(&self) -> &InodeRef {
        &self.node
    }

    /// Identifies the directory independently of its name.
    pub fn handle(&self) -> FileHandle {
        self.session.vfs().handle(&self.node)
    }

    /// The directory `name`; symbolic links are refused.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `EACCES`.
    pub fn open_dir(&self, name: impl ImagePath) -> Result<Dir> {
        self.run("open_dir", name, |name| {
            Dir::of(self.session.clone(), self.lookup(name)?)
        })
    }

    /// Opens the file `name`, or creates it if `options` do; a symbolic link is refused.
    ///
    /// # Errors
    /// As [`OpenOptions::open`]. `ELOOP`: a symbolic link.
    pub fn open_file(&self, name: impl ImagePath, options: &OpenOptions) -> Result<File> {
        self.run("open", name, |name| {
            options.open_at(&self.session, &self.node, name)
        })
    }

    /// Makes an empty file: `openat` with `O_CREAT | O_EXCL`, then `close`.
    ///
    /// # Errors
    /// `EEXIST`: it exists. `EACCES`, `ENOSPC`, `EROFS`, `ENAMETOOLONG`.
    #[inline]
    pub fn create_new(&self, name: impl ImagePath, mode: u16) -> Result<()> {
        self.make("create", name, mode, NewKind::Regular).map(drop)
    }

    /// Makes anything: a device, a pipe, a symbolic link.
    ///
    /// # Errors
    /// As [`Filesystem::mknod`](crate::Filesystem::mknod).
    pub fn create(&self, name: impl ImagePath, mode: u16, kind: NewKind<'_>) -> Result<()> {
        self.make("create", name, mode, kind).map(drop)
    }

    /// Makes a directory and opens it.
    ///
    /// # Errors
    /// `EEXIST`, `EACCES`, `EMLINK`, `ENOSPC`, `EROFS`, `ENAMETOOLONG`.
    pub fn mkdir(&self, name: impl ImagePath, mode: u16) -> Result<Dir> {
        let node = self.make("mkdir", name, mode, NewKind::Directory)?;
        Ok(Dir::new(self.session.clone(), node))
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `EACCES`, `EPERM`, `EROFS`.
    #[inline]
    pub fn unlink(&self, name: impl ImagePath) -> Result<()> {
        self.run("unlink", name, |name| {
            let session = &self.session;
            session.vfs().unlink(&session.caller, &self.node, name)
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOTEMPTY`, `ENOENT`, `ENOTDIR`, `EACCES`, `EPERM`, `EROFS`.
    pub fn rmdir(&self, name: impl ImagePath) -> Result<()> {
        self.run("rmdir", name, |name| {
            let session = &self.session;
            session.vfs().rmdir(&session.caller, &self.node, name)
        })
    }

    /// Moves the name `old` to `new` in `to`.
    ///
    /// # Errors
    /// `EXDEV`: `to` is on another file system. Others as [`Filesystem::rename`](crate::Filesystem::rename).
    pub fn rename_at(
        &self,
        old: impl ImagePath,
        to: &Dir,
        new: impl ImagePath,
        flags: RenameFlags,
    ) -> Result<()> {
        self.run("rename", old, |old| {
            if !self.session.mount.is_same_as(&to.session.mount) {
                return Err(Errno::EXDEV.into());
            }
            let (caller, new) = (&self.session.caller, new.as_bytes());
            self.session
                .vfs()
                .rename(caller, &self.node, old, &to.node, new, flags)
        })
    }

    /// The attributes of `name`; a symbolic link is not followed.
    ///
    /// # Errors
    /// `ENOENT`, `EACCES`.
    pub fn metadata(&self, name: impl ImagePath) -> Result<Metadata> {
        self.run("metadata", name, |name| {
            self.session.vfs().getattr(&self.lookup(name)?)
        })
        .map(Metadata::new)
    }

    /// The attributes of the directory.
    ///
    /// # Errors
    /// `EIO`.
    pub fn self_metadata(&self) -> Result<Metadata> {
        self.run("metadata", b"", |_| self.session.vfs().getattr(&self.node))
            .map(Metadata::new)
    }

    /// The entries, without `.` and `..`.
    ///
    /// # Errors
    /// `EACCES`: no read permission. `EUCLEAN`: damage; the iterator, too, returns it.
    pub fn read_dir(&self) -> Result<ReadDir> {
        self.run("read_dir", b"", |_| self.entries())
    }

    pub(crate) fn entries(&self) -> Result<ReadDir> {
        ReadDir::new(self.session.clone(), self.node.clone())
    }

    /// Runs an operation on a name in the directory.
    #[inline(always)]
    fn run<T>(
        &self,
        operation: &'static str,
        name: impl ImagePath,
        work: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let name = name.as_bytes();
        operation::run(operation, Some(&self.node), name, || work(name))
    }

    fn lookup(&self, name: &[u8]) -> Result<InodeRef> {
        self.session
            .vfs()
            .lookup(&self.session.caller, &self.node, name)
    }

    #[inline]
    fn make(
        &self,
        operation: &'static str,
        name: impl ImagePath,
        mode: u16,
        kind: NewKind<'_>,
    ) -> Result<InodeRef> {
        let new = NewNode { mode, kind };
        self.run(operation, name, |name| {
            self.session
                .vfs()
                .create(&self.session.caller, &self.node, name, &new)
        })
    }
}
