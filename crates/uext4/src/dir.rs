//! A directory that names are looked up in, as the `*at` system calls do.

use crate::{
    Attr, Errno, File, FileHandle, FileKind, FileOptions, FileSystem, Filesystem, InodeRef,
    NewKind, NewNode, ReadDir, RenameFlags, Result,
};

/// A directory that stays open whatever its name is. Names are bytes without `/`.
///
/// ```
/// # use std::sync::Arc;
/// # use uext4::*;
/// # let device = Arc::new(MemoryDevice::new(16 << 20));
/// # mkfs_on(&*device, &MkfsOptions::default(), &NoProgress)?;
/// # let fs = Filesystem::open_device(device, &OpenOptions::read_write())?;
/// let dir = fs.root()?.mkdir("inbox", 0o755)?;
/// dir.create_new("one", 0o644)?;
/// dir.rename_at("one", &fs.root()?, "two", RenameFlags::empty())?;
/// assert!(dir.read_dir()?.next().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dir {
    /// Let go before the mount, which may end with it.
    node: InodeRef,
    fs: Filesystem,
}

impl Dir {
    pub(crate) fn new(fs: Filesystem, node: InodeRef) -> Dir {
        Dir { node, fs }
    }

    /// Refuses what is no directory.
    pub(crate) fn of(fs: Filesystem, node: InodeRef) -> Result<Dir> {
        if fs.vfs().getattr(&node)?.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        Ok(Dir::new(fs, node))
    }

    /// The inode, for [`Filesystem::inode`].
    pub fn node(&self) -> &InodeRef {
        &self.node
    }

    /// What finds the directory again whatever its name is then.
    pub fn handle(&self) -> FileHandle {
        self.fs.vfs().handle(&self.node)
    }

    /// The directory `name`; symbolic links are refused.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `EACCES`.
    pub fn open_dir(&self, name: impl AsRef<[u8]>) -> Result<Dir> {
        Dir::of(self.fs.clone(), self.lookup(name.as_ref())?)
    }

    /// The file `name`, opened as `options` say; symbolic links are refused.
    ///
    /// # Errors
    /// As [`FileOptions::open`]; `ELOOP`: a symbolic link.
    pub fn open_file(&self, name: impl AsRef<[u8]>, options: FileOptions) -> Result<File> {
        options.open_node(&self.fs, self.lookup(name.as_ref())?)
    }

    /// Makes the file `name`, or with `exclusive` false opens the one that is there; for reading and
    /// writing.
    ///
    /// # Errors
    /// `EEXIST`: it exists, and `exclusive`. Others as [`FileOptions::open`].
    pub fn create_file(&self, name: impl AsRef<[u8]>, mode: u16, exclusive: bool) -> Result<File> {
        FileOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .create_new(exclusive)
            .mode(mode)
            .open_in(&self.fs, &self.node, name.as_ref())
    }

    /// Makes an empty file: `openat` with `O_CREAT | O_EXCL`, then `close`.
    ///
    /// # Errors
    /// `EEXIST`: it exists. `EACCES`, `ENOSPC`, `EROFS`, `ENAMETOOLONG`.
    #[inline]
    pub fn create_new(&self, name: impl AsRef<[u8]>, mode: u16) -> Result<()> {
        self.make(name.as_ref(), mode, NewKind::Regular).map(drop)
    }

    /// Makes anything: a device, a pipe, a symbolic link.
    ///
    /// # Errors
    /// As [`FileSystem::create`].
    pub fn create(&self, name: impl AsRef<[u8]>, mode: u16, kind: NewKind<'_>) -> Result<()> {
        self.make(name.as_ref(), mode, kind).map(drop)
    }

    /// Makes a directory and opens it.
    ///
    /// # Errors
    /// `EEXIST`, `EACCES`, `EMLINK`, `ENOSPC`, `EROFS`, `ENAMETOOLONG`.
    pub fn mkdir(&self, name: impl AsRef<[u8]>, mode: u16) -> Result<Dir> {
        let node = self.make(name.as_ref(), mode, NewKind::Directory)?;
        Ok(Dir::new(self.fs.clone(), node))
    }

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `EACCES`, `EPERM`, `EROFS`.
    #[inline]
    pub fn unlink(&self, name: impl AsRef<[u8]>) -> Result<()> {
        self.fs
            .vfs()
            .unlink(&self.fs.caller, &self.node, name.as_ref())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOTEMPTY`, `ENOENT`, `ENOTDIR`, `EACCES`, `EPERM`, `EROFS`.
    pub fn rmdir(&self, name: impl AsRef<[u8]>) -> Result<()> {
        self.fs
            .vfs()
            .rmdir(&self.fs.caller, &self.node, name.as_ref())
    }

    /// Moves the name `old` to `new` in `to`.
    ///
    /// # Errors
    /// `EXDEV`: `to` is on another file system. Others as [`FileSystem::rename`].
    pub fn rename_at(
        &self,
        old: impl AsRef<[u8]>,
        to: &Dir,
        new: impl AsRef<[u8]>,
        flags: RenameFlags,
    ) -> Result<()> {
        if !std::sync::Arc::ptr_eq(self.fs.inode(), to.fs.inode()) {
            return Err(Errno::EXDEV.into());
        }
        let (old, new) = (old.as_ref(), new.as_ref());
        self.fs
            .vfs()
            .rename(&self.fs.caller, &self.node, old, &to.node, new, flags)
    }

    /// The attributes of `name`; a symbolic link is not followed.
    ///
    /// # Errors
    /// `ENOENT`, `EACCES`.
    pub fn metadata(&self, name: impl AsRef<[u8]>) -> Result<Attr> {
        self.fs.vfs().getattr(&self.lookup(name.as_ref())?)
    }

    /// The attributes of the directory.
    ///
    /// # Errors
    /// `EIO`.
    pub fn self_metadata(&self) -> Result<Attr> {
        self.fs.vfs().getattr(&self.node)
    }

    /// The entries, without `.` and `..`.
    ///
    /// # Errors
    /// `EACCES`: no read permission. `EUCLEAN`: damage; that may also come with any later entry.
    pub fn read_dir(&self) -> Result<ReadDir> {
        ReadDir::new(self.fs.clone(), self.node.clone())
    }

    fn lookup(&self, name: &[u8]) -> Result<InodeRef> {
        self.fs.vfs().lookup(&self.fs.caller, &self.node, name)
    }

    #[inline]
    fn make(&self, name: &[u8], mode: u16, kind: NewKind<'_>) -> Result<InodeRef> {
        let new = NewNode { mode, kind };
        self.fs
            .vfs()
            .create(&self.fs.caller, &self.node, name, &new)
    }
}
