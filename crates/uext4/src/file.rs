//! An open file.

use crate::metadata::Metadata;
use crate::mount::Mount;
use crate::operation;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use uext4_ext4::{Ext4Error, FileIo, InodeRef};
use uext4_ondisk::{Generation, InodeFlags};
use uext4_vfs::open_file::Wanted;
use uext4_vfs::{
    Attr, Caller, Errno, Error, Fallocate, FiemapExtent, FiemapOf, FileHandle, FileSystem, IoFlags,
    OpenFile, OpenFlags, Result, SetAttr, TimeSet, Written,
};

/// An open file. Its position is shared by the threads that use it, as in a process.
///
/// It implements [`Read`], [`Write`] and [`Seek`], as does a reference to it; nothing is buffered, so
/// wrap it if reads or writes are small.
pub struct File {
    open: OpenFile<Mount>,
    caller: Caller,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("ino", &self.open.node().ino.0)
            .field("flags", &self.open.flags())
            .finish_non_exhaustive()
    }
}

impl File {
    pub(crate) fn new(open: OpenFile<Mount>, caller: Caller) -> File {
        File { open, caller }
    }

    pub(crate) fn open(&self) -> &OpenFile<Mount> {
        &self.open
    }

    #[inline(always)]
    fn run<T>(&self, operation: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        operation::run(operation, Some(self.open.node()), b"", work)
    }

    /// Runs an operation of the engine that the trait does not have.
    fn run_engine<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&FileIo, &InodeRef) -> Result<T, Ext4Error>,
    ) -> Result<T> {
        let fs = self.open.fs();
        self.run(operation, || {
            fs.volume.report(work(&fs.files, self.open.node()))
        })
    }

    /// The mount as any file system, so that errors are those of every front end.
    fn vfs(&self) -> &impl FileSystem<Node = InodeRef> {
        self.open.fs()
    }

    /// The attributes.
    ///
    /// # Errors
    /// `EIO`.
    #[inline]
    pub fn metadata(&self) -> Result<Metadata> {
        self.run("metadata", || self.attr()).map(Metadata::new)
    }

    #[inline]
    pub(crate) fn attr(&self) -> Result<Attr> {
        self.vfs().getattr(self.open.node())
    }

    /// A handle that finds the file again by [`Filesystem::open_handle`], whatever its name is then; also after
    /// the image was closed and opened again.
    ///
    /// It goes stale (`ESTALE`) when the file is deleted, its inode used again or not, and when the file
    /// gets another generation.
    ///
    /// [`Filesystem::open_handle`]: crate::Filesystem::open_handle
    pub fn handle(&self) -> FileHandle {
        self.vfs().handle(self.open.node())
    }

    /// The generation, which distinguishes this use of the inode number from others (`EXT4_IOC_GETVERSION`); the
    /// one in [`File::handle`].
    pub fn generation(&self) -> u32 {
        self.open.fs().files.generation(self.open.node()).0
    }

    /// Sets the generation, so that handles made before are stale (`EXT4_IOC_SETVERSION`).
    ///
    /// # Errors
    /// `EPERM`: not the owner. `ENOTTY`: the image has metadata checksums, which depend on it. `EROFS`.
    pub fn set_generation(&self, generation: u32) -> Result<()> {
        let generation = Generation(generation);
        self.run_engine("set_generation", |files, node| {
            files.set_generation(&self.caller, node, generation)
        })
    }

    /// The flags that chattr(1) sets, as `FS_IOC_GETFLAGS` gives them.
    pub fn flags(&self) -> InodeFlags {
        self.open.fs().files.flags(self.open.node())
    }

    /// Sets the flags (`FS_IOC_SETFLAGS`); flags that cannot be set keep their value.
    ///
    /// # Errors
    /// `EPERM`: not the owner; immutable or append-only would change, without the capability `LINUX_IMMUTABLE`; or
    /// the file is immutable. `EOPNOTSUPP`: a flag that cannot be set here. `ENOTTY`: neither file nor directory.
    /// `EROFS`.
    pub fn set_flags(&self, flags: InodeFlags) -> Result<()> {
        self.run_engine("set_flags", |files, node| {
            files.set_flags(&self.caller, node, flags)
        })
    }

    /// The project, 0 where the image has none (`FS_IOC_FSGETXATTR`).
    pub fn project(&self) -> u32 {
        self.open.fs().files.project(self.open.node())
    }

    /// Sets the project (`FS_IOC_FSSETXATTR`).
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the image does not have the feature `project`. `EINVAL`: all ones. Others as
    /// [`File::set_flags`].
    pub fn set_project(&self, project: u32) -> Result<()> {
        self.run_engine("set_project", |files, node| {
            files.set_flags_and_project(&self.caller, node, None, Some(project))
        })
    }

    /// Swaps the data with that of the boot loader's inode, number 5 (`EXT4_IOC_SWAP_BOOT`): content, size
    /// and the times of reading and writing. Both get new generations, so handles of the file go stale;
    /// this and other open files stay valid, and have the other content.
    ///
    /// # Crash
    /// It is swapped, or it is not.
    ///
    /// # Errors
    /// `EBADF`: not open for writing. `EINVAL`: not a regular file with one link, or one whose data cannot
    /// leave its inode. `EPERM`: not the owner, not the capability `SYS_ADMIN`, immutable or append-only.
    /// `EFBIG`, `ENOSPC`: a file in too many pieces for one transaction. `EROFS`.
    pub fn swap_boot(&self) -> Result<()> {
        let fs = self.open.fs();
        self.run("swap_boot", || {
            self.check_writable()?;
            fs.volume
                .report(fs.files.swap_boot(&self.caller, self.open.node()))
        })
    }

    /// Reads from a byte offset; fewer bytes than requested only at the end of the file.
    ///
    /// # Errors
    /// `EBADF`: not open for reading. `EISDIR`, `EIO`, `EUCLEAN`.
    #[inline]
    pub fn read_at(&self, data: &mut [u8], offset: u64) -> Result<usize> {
        self.run("read_at", || self.open.read_at(offset, data))
    }

    /// Fills `data` from a byte offset.
    ///
    /// # Errors
    /// As [`File::read_at`]; `EIO` if the file ends before `data` is full, with the error "end of file".
    pub fn read_exact_at(&self, mut data: &mut [u8], mut offset: u64) -> Result<()> {
        self.run("read_exact_at", move || {
            while !data.is_empty() {
                match self.open.read_at(offset, data)? {
                    0 => return Err(Error::from_source(Errno::EIO, "end of file")),
                    n => {
                        data = &mut data[n..];
                        offset += n as u64;
                    }
                }
            }
            Ok(())
        })
    }

    /// As [`File::read_at`], with `flags` added to those of the open file: direct, or
    /// without waiting (preadv2(2)).
    ///
    /// # Errors
    /// As [`File::read_at`]. `EINVAL`: direct, and offset, length or memory are not multiples of
    /// [`File::direct_alignment`]. `EAGAIN`: [`IoFlags::NOWAIT`], and it would wait.
    pub fn read_at_with(&self, data: &mut [u8], offset: u64, flags: IoFlags) -> Result<usize> {
        self.run("read_at", || self.open.read_at_with(offset, data, flags))
    }

    /// As [`File::write_at`], with `flags` added to those of the open file: direct, at the
    /// end, durable, or without waiting (pwritev2(2)).
    ///
    /// # Errors
    /// As [`File::write_at`]; `EINVAL` and `EAGAIN` as [`File::read_at_with`].
    pub fn write_at_with(&self, data: &[u8], offset: u64, flags: IoFlags) -> Result<Written> {
        self.run("write_at", || self.open.write_at_with(offset, data, flags))
    }

    /// What offset, length and memory of direct reads and writes must be multiples of, in bytes.
    pub fn direct_alignment(&self) -> u32 {
        self.vfs().direct_alignment()
    }

    /// Allocates, frees or zeroes a range, in bytes (fallocate(2)).
    ///
    /// # Crash
    /// If it was not synced, a part of the range may have changed: from its start on, or for a hole, from its end.
    ///
    /// # Errors
    /// `EBADF`: not open for writing. `EINVAL`: an empty range. `ENOSPC`, `EFBIG`, `EPERM`, `EROFS`, `EIO`.
    pub fn fallocate(&self, what: Fallocate, offset: u64, len: u64) -> Result<()> {
        self.run("fallocate", || self.open.fallocate(what, offset, len))
    }

    /// Where on the image `len` bytes from `start` on are, or the extended attributes (the ioctl
    /// `FS_IOC_FIEMAP`).
    ///
    /// # Errors
    /// `EINVAL`: an empty range. `EFBIG`: past the largest file. `EUCLEAN`, `EIO`.
    pub fn fiemap(&self, of: FiemapOf, start: u64, len: u64) -> Result<Vec<FiemapExtent>> {
        self.run_engine("fiemap", |files, node| files.fiemap(node, of, start, len))
    }

    /// Moves the position to the first data at `offset` or after it (lseek(2) with `SEEK_DATA`).
    ///
    /// # Errors
    /// `ENXIO`: there is none.
    pub fn seek_data(&self, offset: u64) -> Result<u64> {
        self.run("seek_data", || self.open.seek_to(Wanted::Data, offset))
    }

    /// Moves the position to the first hole at `offset` or after it, or to the end (lseek(2) with
    /// `SEEK_HOLE`).
    ///
    /// # Errors
    /// `ENXIO`: the offset is at the end or beyond.
    pub fn seek_hole(&self, offset: u64) -> Result<u64> {
        self.run("seek_hole", || self.open.seek_to(Wanted::Hole, offset))
    }

    /// Writes at a byte offset, or at the end when appending; fewer bytes than given only when space
    /// ran out part way.
    ///
    /// # Errors
    /// `EBADF`: not open for writing. `ENOSPC`, `EFBIG`, `EROFS`, `EIO`.
    #[inline]
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        self.run("write_at", || self.open.write_at(offset, data))
    }

    /// Writes all of `data` at a byte offset.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_all_at(&self, data: &[u8], offset: u64) -> Result<()> {
        self.run("write_all_at", || self.write_all_inner(data, offset))
    }

    pub(crate) fn write_all_inner(&self, mut data: &[u8], mut offset: u64) -> Result<()> {
        while !data.is_empty() {
            match self.open.write_at(offset, data)? {
                0 => return Err(Errno::ENOSPC.into()),
                n => {
                    data = &data[n..];
                    offset += n as u64;
                }
            }
        }
        Ok(())
    }

    /// Truncates or extends the file to `len` bytes; an extension is a hole.
    ///
    /// # Errors
    /// `EBADF`: not open for writing. `EFBIG`, `EPERM`, `EROFS`, `EIO`.
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.run("set_len", || self.set_len_inner(len))
    }

    pub(crate) fn set_len_inner(&self, len: u64) -> Result<()> {
        self.check_writable()?;
        self.set_attr_inner(&SetAttr {
            size: Some(len),
            ..SetAttr::default()
        })
        .map(drop)
    }

    fn check_writable(&self) -> Result<()> {
        match self.open.flags().contains(OpenFlags::WRITE) {
            true => Ok(()),
            false => Err(Errno::EBADF.into()),
        }
    }

    /// Sets the 12 permission bits.
    ///
    /// # Errors
    /// `EPERM`: not the owner. `EROFS`, `ENOSPC`, `EIO`.
    pub fn set_permissions(&self, mode: u16) -> Result<()> {
        let change = SetAttr {
            mode: Some(mode & 0o7777),
            ..SetAttr::default()
        };
        self.change("set_permissions", &change).map(drop)
    }

    /// Sets the times of last access and of last change of the data, where given.
    ///
    /// # Errors
    /// `EPERM`: not the owner. `EACCES`: [`TimeSet::Now`] without write permission. `EROFS`, `EIO`.
    pub fn set_times(&self, accessed: Option<TimeSet>, modified: Option<TimeSet>) -> Result<()> {
        let change = SetAttr {
            atime: accessed,
            mtime: modified,
            ..SetAttr::default()
        };
        self.change("set_times", &change).map(drop)
    }

    pub(crate) fn change(&self, operation: &'static str, change: &SetAttr) -> Result<Metadata> {
        self.run(operation, || self.set_attr_inner(change))
            .map(Metadata::new)
    }

    fn set_attr_inner(&self, change: &SetAttr) -> Result<Attr> {
        self.vfs().setattr(&self.caller, self.open.node(), change)
    }

    /// Returns once the file is on the device.
    ///
    /// # Errors
    /// `EIO`: a part could not be written.
    pub fn sync_all(&self) -> Result<()> {
        self.run("sync_all", || self.vfs().fsync(self.open.node(), false))
    }

    /// Returns once the data is on the device, and what is needed to read it.
    ///
    /// # Errors
    /// `EIO`: a part could not be written.
    pub fn sync_data(&self) -> Result<()> {
        self.run("sync_data", || self.vfs().fsync(self.open.node(), true))
    }
}

impl Read for &File {
    fn read(&mut self, data: &mut [u8]) -> io::Result<usize> {
        Ok(self.run("read", || self.open.read(data))?)
    }
}

impl Write for &File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        Ok(self.run("write", || self.open.write(data))?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        Ok(self.run("seek", || self.open.seek(to))?)
    }
}

impl Read for File {
    fn read(&mut self, data: &mut [u8]) -> io::Result<usize> {
        (&*self).read(data)
    }
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}
