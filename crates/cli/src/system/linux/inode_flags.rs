//! The flags of files of the host, as the kernel has them.

use rustix::fs::{IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::Errno as HostErrno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use uext4::Errno;
use uext4::unstable::ondisk::InodeFlags;
use uext4_mountd::host_attributes;

type Result<T> = std::result::Result<T, Errno>;

/// A file of the host.
pub struct HostFile {
    file: OwnedFd,
    is_dir: bool,
}

impl HostFile {
    /// Opens a file.
    ///
    /// # Errors
    /// The host's; `EOPNOTSUPP`: neither a file nor a directory, so that it has no flags.
    pub fn open(path: &Path, is_dir: bool, is_file: bool) -> Result<HostFile> {
        if !is_dir && !is_file {
            // Opening a device or a pipe has effects.
            return Err(Errno::EOPNOTSUPP);
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(errno)?;
        Ok(HostFile { file, is_dir })
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.is_dir
    }

    /// Its flags.
    ///
    /// # Errors
    /// The file system has none.
    pub fn flags(&self) -> Result<InodeFlags> {
        let flags = ioctl_getflags(&self.file).map_err(errno)?;
        Ok(InodeFlags::from_bits_retain(flags.bits()))
    }

    /// Changes its flags.
    ///
    /// # Errors
    /// The file system does not have one; the caller may not change it.
    pub fn set_flags(&self, flags: InodeFlags) -> Result<()> {
        ioctl_setflags(&self.file, IFlags::from_bits_retain(flags.bits())).map_err(errno)
    }

    /// Its project.
    ///
    /// # Errors
    /// The file system has none.
    pub fn project(&self) -> Result<u32> {
        host_attributes::project(self.file.as_fd()).map_err(errno)
    }

    /// Changes its project.
    ///
    /// # Errors
    /// The file system has none; the caller may not change it.
    pub fn set_project(&self, project: u32) -> Result<()> {
        host_attributes::set_project(self.file.as_fd(), project).map_err(errno)
    }

    /// Its generation.
    ///
    /// # Errors
    /// The file system has none.
    pub fn generation(&self) -> Result<u32> {
        host_attributes::generation(self.file.as_fd()).map_err(errno)
    }

    /// Changes its generation.
    ///
    /// # Errors
    /// The file system has none; the caller may not change it.
    pub fn set_generation(&self, generation: u32) -> Result<()> {
        host_attributes::set_generation(self.file.as_fd(), generation).map_err(errno)
    }
}

/// The number of an error; of an ioctl that the file system does not have, that it is not supported.
pub fn errno(e: HostErrno) -> Errno {
    match e {
        HostErrno::NOTTY => Errno::EOPNOTSUPP,
        e => Errno(e.raw_os_error()),
    }
}
