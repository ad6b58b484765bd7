//! The operations that a file system gives to front ends (FUSE, the path API, later NFS).
//!
//! # Data model
//! A [`FileSystem::Node`] is a counted reference to an inode: while one exists, the inode does,
//! even without a name. Names are bytes, at most 255, without `/` and NUL.
//!
//! # Invariants
//! The file system checks permission itself, under the locks that make the check hold, wherever a
//! [`Caller`] is passed. Reading and writing data take none: permission was checked when the file was
//! opened ([`crate::permission`], [`crate::open_file::OpenFile::open`]).
//!
//! # Locking
//! Every operation may sleep; call it with no lock of rank `dir_ilock` or below held.
//!
//! # Errors
//! Besides what each operation lists, any can give `EIO` (a failing device or an aborted journal),
//! `EUCLEAN` (damage on disk), `ENOMEM`, and every change `EROFS` (mounted read-only), `ENOSPC`
//! and `EDQUOT`.

use crate::attr::{
    Attr, DirEntry, FileHandle, FileKind, NewNode, RenameFlags, SetAttr, StatFs, XattrFlags,
};
use crate::caller::Caller;
use crate::errno::{Errno, Result};
use crate::io::{Fallocate, IoFlags, Written};
use crate::permission::{self, Access};

/// The longest name in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// The longest path, and symbolic link target, in bytes, not counting a final NUL.
pub const PATH_BYTES_MAX: usize = 4095;

/// A mounted file system, by inode. See the [module](self) for what holds everywhere.
pub trait FileSystem: Send + Sync + 'static {
    /// A counted reference to an inode.
    type Node: Clone + Send + Sync + 'static;

    /// The root directory, of which the file system keeps a reference: a walk makes none.
    fn root(&self) -> Result<&Self::Node>;

    /// What finds `node` again after every reference to it is gone.
    fn handle(&self, node: &Self::Node) -> FileHandle;

    /// The inode that `handle` was made for.
    ///
    /// # Errors
    /// `ESTALE`: it is free, or used for another file since.
    fn open_handle(&self, handle: FileHandle) -> Result<Self::Node>;

    /// The attributes; needs no permission on the file itself (stat(2)).
    fn getattr(&self, node: &Self::Node) -> Result<Attr>;

    /// What a node is, which never changes.
    fn kind(&self, node: &Self::Node) -> Result<FileKind> {
        Ok(self.getattr(node)?.kind)
    }

    /// Checks that the caller has every permission in `want` (access(2)); open(2) calls it.
    ///
    /// A file system with access control lists has its own.
    ///
    /// # Errors
    /// As [`permission::check_access`].
    fn access(&self, caller: &Caller, node: &Self::Node, want: Access) -> Result<()> {
        permission::check_access(&self.getattr(node)?, caller, want)
    }

    /// Refuses to open a file, to write its data or only to read it, for what no permission says.
    ///
    /// # Errors
    /// `ENOKEY`: it is encrypted, and its key is missing. `EOPNOTSUPP`: its data can't be read, or not be written.
    fn check_open(&self, _node: &Self::Node, _writes: bool) -> Result<()> {
        Ok(())
    }

    /// Changes attributes and gives the new ones (chmod(2), chown(2), truncate(2), utimensat(2)).
    ///
    /// # Errors
    /// `EPERM`: not the owner, or the file is immutable or append-only. `EACCES`: no write
    /// permission for [`crate::attr::TimeSet::Now`]. `EFBIG`: the size is beyond what the format
    /// can hold. `EISDIR`: the size of a directory. `EINVAL`: the size of anything else that is
    /// not a regular file. Permission to change the size is checked when the file is opened, or by
    /// the implementation of truncate(2) by path.
    fn setattr(&self, caller: &Caller, node: &Self::Node, change: &SetAttr) -> Result<Attr>;

    /// The entry `name` of a directory; `.` and `..` included, `..` of the root is the root.
    ///
    /// # Errors
    /// `ENOENT`: no such name. `ENOTDIR`: `dir` is none. `EACCES`: no search permission on `dir`.
    /// `ENAMETOOLONG`: more than [`NAME_BYTES_MAX`].
    fn lookup(&self, caller: &Caller, dir: &Self::Node, name: &[u8]) -> Result<Self::Node>;

    /// Looks up leading components of `path`, which is relative, at once, where that costs less than one by one: the node that they lead to, and how many
    /// bytes of the path they take. All but the last of the path are directories; that one is looked up only `with_last` and if no slash
    /// follows it and it is not a symbolic link. None if the first is to be looked up by [`FileSystem::lookup`], as are dots.
    ///
    /// # Errors
    /// `ENOTDIR`: `dir` is none. `EACCES`: no search permission on `dir`.
    fn lookup_known(
        &self,
        caller: &Caller,
        dir: &Self::Node,
        path: &[u8],
        with_last: bool,
    ) -> Result<Option<(Self::Node, usize)>> {
        let _ = (caller, dir, path, with_last);
        Ok(None)
    }

    /// Makes a file under a name that is free (open(2) with `O_CREAT | O_EXCL`, mkdir(2),
    /// symlink(2), mknod(2)). For `O_CREAT` alone see [`open_or_create`].
    ///
    /// # Errors
    /// `EEXIST`: the name exists. `EACCES`: no write or search permission on `dir`. `ENOENT`:
    /// `dir` was removed. `ENOTDIR`: `dir` is none. `EMLINK`: too many subdirectories. `EPERM`: a
    /// device without the capability `MKNOD`. `ENAMETOOLONG`: the name, or a link's target.
    fn create(
        &self,
        caller: &Caller,
        dir: &Self::Node,
        name: &[u8],
        new: &NewNode<'_>,
    ) -> Result<Self::Node>;

    /// Makes a file without a name (open(2) with `O_TMPFILE`); [`FileSystem::link`] can give it one.
    ///
    /// # Errors
    /// `EACCES`: no write or search permission on `dir`. `ENOENT`: `dir` was removed. `ENOTDIR`.
    /// `EOPNOTSUPP`: the file system has none.
    fn tmpfile(&self, caller: &Caller, dir: &Self::Node, mode: u16) -> Result<Self::Node>;

    /// Gives `node` another name (link(2)).
    ///
    /// # Errors
    /// `EEXIST`: the name exists. `EACCES`: no write or search permission on `dir`. `EPERM`: `node`
    /// is a directory, immutable or append-only. `EMLINK`: too many names. `ENOENT`: `dir` was
    /// removed, or `node` was and is not a temporary file. `EXDEV`: different projects, quotas
    /// inherited. `ENOTDIR`. `ENAMETOOLONG`.
    fn link(&self, caller: &Caller, node: &Self::Node, dir: &Self::Node, name: &[u8])
    -> Result<()>;

    /// Removes a name that is not a directory's (unlink(2)); the file goes with its last name and
    /// reference.
    ///
    /// # Errors
    /// `ENOENT`. `EISDIR`: a directory. `EACCES`: no write or search permission on `dir`. `EPERM`:
    /// the sticky bit forbids it, or the file is immutable or append-only. `ENOTDIR`.
    fn unlink(&self, caller: &Caller, dir: &Self::Node, name: &[u8]) -> Result<()>;

    /// Removes an empty directory (rmdir(2)).
    ///
    /// # Errors
    /// `ENOTEMPTY`: has entries, or `name` is `..`. `ENOTDIR`: not a directory. `EINVAL`: `name` is
    /// `.`. `ENOENT`, `EACCES`, `EPERM` as [`FileSystem::unlink`].
    fn rmdir(&self, caller: &Caller, dir: &Self::Node, name: &[u8]) -> Result<()>;

    /// Moves a name, replacing what has the new one (renameat2(2)). Does nothing when both names
    /// are of one file.
    ///
    /// # Errors
    /// `ENOENT`: the old name, or with `EXCHANGE` the new one. `EEXIST`: `NOREPLACE` and the new
    /// name exists. `ENOTEMPTY`: the new name is a directory with entries. `EISDIR`, `ENOTDIR`: the
    /// new name is a directory and the old one none, or the reverse. `EINVAL`: a directory into
    /// itself, or flags that contradict each other. `EBUSY`: `.` or `..`. `EMLINK`. `EXDEV`.
    /// `EACCES`, `EPERM`: as [`FileSystem::unlink`] for either directory.
    fn rename(
        &self,
        caller: &Caller,
        old_dir: &Self::Node,
        old_name: &[u8],
        new_dir: &Self::Node,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()>;

    /// The target of a symbolic link (readlink(2)).
    ///
    /// # Errors
    /// `EINVAL`: not a symbolic link.
    fn readlink(&self, caller: &Caller, node: &Self::Node) -> Result<Vec<u8>>;

    /// Gives the entries after `cookie` (0: from the start), `.` and `..` included, until `emit`
    /// answers false; the entry that it refused comes again (getdents(2)). An entry that exists all
    /// the time comes once. `emit` is called with no lock that it could meet again.
    ///
    /// # Errors
    /// `ENOTDIR`. `EACCES`: no read permission. `ENOENT`: the directory was removed.
    fn readdir(
        &self,
        caller: &Caller,
        dir: &Self::Node,
        cookie: u64,
        emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
    ) -> Result<()>;

    /// Reads from a byte offset; fewer bytes than asked only at the end of the file (preadv2(2)).
    ///
    /// # Errors
    /// `EISDIR`: a directory. `EINVAL`: not a regular file; with [`IoFlags::DIRECT`] offset, length or
    /// memory not aligned to [`FileSystem::direct_alignment`]. `EAGAIN`: with [`IoFlags::NOWAIT`], and
    /// it would wait.
    fn read_with(
        &self,
        node: &Self::Node,
        offset: u64,
        data: &mut [u8],
        flags: IoFlags,
    ) -> Result<usize>;

    /// Writes at a byte offset, or with [`IoFlags::APPEND`] at the end, in one step that no other append
    /// comes between; fewer bytes than asked only when space ran out part way (pwritev2(2)). Set-id
    /// bits are for the caller to clear, as [`crate::open_file::OpenFile`] does.
    ///
    /// # Errors
    /// `EFBIG`: beyond the largest file. `EPERM`: the file is immutable, or append-only and the offset is
    /// not its end. `EISDIR`, `EINVAL`, `EAGAIN`: as [`FileSystem::read_with`].
    fn write_with(
        &self,
        node: &Self::Node,
        offset: u64,
        data: &[u8],
        flags: IoFlags,
    ) -> Result<Written>;

    /// What offset, length and memory of direct reads and writes must be multiples of, in bytes
    /// (`STATX_DIOALIGN`).
    fn direct_alignment(&self) -> u32 {
        512
    }

    /// As [`FileSystem::read_with`] without flags (pread(2)).
    ///
    /// # Errors
    /// As [`FileSystem::read_with`].
    fn read(&self, node: &Self::Node, offset: u64, data: &mut [u8]) -> Result<usize> {
        self.read_with(node, offset, data, IoFlags::empty())
    }

    /// As [`FileSystem::write_with`] without flags (pwrite(2)).
    ///
    /// # Errors
    /// As [`FileSystem::write_with`].
    fn write(&self, node: &Self::Node, offset: u64, data: &[u8]) -> Result<usize> {
        Ok(self.write_with(node, offset, data, IoFlags::empty())?.len)
    }

    /// Writes all at the end, and gives the new end (write(2) with `O_APPEND`).
    ///
    /// # Errors
    /// As [`FileSystem::write_with`]; `ENOSPC` if not all could be written, though a part may be.
    fn append(&self, node: &Self::Node, data: &[u8]) -> Result<u64> {
        let written = self.write_with(node, 0, data, IoFlags::APPEND)?;
        if written.len < data.len() {
            return Err(Errno::ENOSPC.into());
        }
        Ok(written.end())
    }

    /// Allocates, frees or zeroes a range of a file, in bytes (fallocate(2)).
    ///
    /// # Errors
    /// `EINVAL`: an empty range. `EFBIG`: beyond the largest file. `ENODEV`: not a regular file. `EISDIR`.
    /// `EPERM`: immutable, or append-only and not [`Fallocate::Allocate`]. `EOPNOTSUPP`: the file system
    /// or the file has none.
    fn fallocate(&self, node: &Self::Node, what: Fallocate, offset: u64, len: u64) -> Result<()>;

    /// As [`FileSystem::fallocate`]; with [`IoFlags::NO_RESERVE`] it is refused what a write would be.
    ///
    /// # Errors
    /// As that.
    fn fallocate_with(
        &self,
        node: &Self::Node,
        what: Fallocate,
        offset: u64,
        len: u64,
        _flags: IoFlags,
    ) -> Result<()> {
        self.fallocate(node, what, offset, len)
    }

    /// The first byte at `offset` or after it that is data (lseek(2) with `SEEK_DATA`). What is allocated
    /// but was never written is none.
    ///
    /// # Errors
    /// `ENXIO`: no data from there on, or the offset is at the end or beyond. `EINVAL`: not a regular
    /// file. `EISDIR`.
    fn seek_data(&self, node: &Self::Node, offset: u64) -> Result<u64>;

    /// The first byte at `offset` or after it that is in a hole; the end of the file counts as one
    /// (lseek(2) with `SEEK_HOLE`).
    ///
    /// # Errors
    /// `ENXIO`: the offset is at the end or beyond. `EINVAL`: not a regular file. `EISDIR`.
    fn seek_hole(&self, node: &Self::Node, offset: u64) -> Result<u64>;

    /// Returns once the file is on the device (fsync(2)); with `data_only`, without timestamps
    /// (fdatasync(2)).
    ///
    /// # Errors
    /// `EIO`: something of it could not be written.
    fn fsync(&self, node: &Self::Node, data_only: bool) -> Result<()>;

    /// Returns once everything is on the device (syncfs(2)).
    fn syncfs(&self) -> Result<()>;

    /// Sizes and free space (statvfs(3)).
    fn statfs(&self) -> Result<StatFs>;

    /// The value of an extended attribute (getxattr(2)), its name with the namespace: `user.x`.
    ///
    /// # Errors
    /// `ENODATA`: no such attribute. `EOPNOTSUPP`: no such namespace. `EACCES`: no read permission
    /// (`user.`). `ERANGE`: a name longer than 255 bytes.
    fn getxattr(&self, caller: &Caller, node: &Self::Node, name: &[u8]) -> Result<Vec<u8>>;

    /// Sets an extended attribute (setxattr(2)).
    ///
    /// # Errors
    /// `EEXIST`, `ENODATA`: as the flags say. `E2BIG`: value longer than 64 KiB. `ENOSPC`: no room
    /// in the inode and its block. `EPERM`: `user.` on what is neither file nor directory, or a
    /// namespace for the superuser. `EACCES`, `EOPNOTSUPP`, `ERANGE`: as [`FileSystem::getxattr`].
    fn setxattr(
        &self,
        caller: &Caller,
        node: &Self::Node,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()>;

    /// The names of the extended attributes that the caller may see (listxattr(2)).
    fn listxattr(&self, caller: &Caller, node: &Self::Node) -> Result<Vec<Vec<u8>>>;

    /// Removes an extended attribute (removexattr(2)).
    ///
    /// # Errors
    /// `ENODATA`: no such attribute; others as [`FileSystem::setxattr`].
    fn removexattr(&self, caller: &Caller, node: &Self::Node, name: &[u8]) -> Result<()>;
}

/// The file `name` of `dir`, created if it does not exist: open(2) with `O_CREAT` and not `O_EXCL`.
/// True in the second place when this call made it.
///
/// # Errors
/// Those of [`FileSystem::lookup`] and [`FileSystem::create`], but not `EEXIST`.
pub fn open_or_create<F: FileSystem>(
    fs: &F,
    caller: &Caller,
    dir: &F::Node,
    name: &[u8],
    new: &NewNode<'_>,
) -> Result<(F::Node, bool)> {
    // Each round that ends in EEXIST, then ENOENT, saw another caller make and remove the name.
    loop {
        match fs.lookup(caller, dir, name) {
            Ok(node) => return Ok((node, false)),
            Err(e) if e == Errno::ENOENT => {}
            Err(e) => return Err(e),
        }
        match fs.create(caller, dir, name, new) {
            Ok(node) => return Ok((node, true)),
            Err(e) if e == Errno::EEXIST => {}
            Err(e) => return Err(e),
        }
    }
}
