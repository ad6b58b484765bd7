//! Files of the host have no flags of ext4.

use std::path::Path;
use uext4::Errno;
use uext4::unstable::ondisk::InodeFlags;

type Result<T> = std::result::Result<T, Errno>;

/// A file with flags; there is none.
pub enum HostFile {}

impl HostFile {
    /// Opens a file.
    ///
    /// # Errors
    /// `EOPNOTSUPP`.
    pub fn open(_: &Path, _: bool, _: bool) -> Result<HostFile> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        match *self {}
    }

    /// Its flags.
    pub fn flags(&self) -> Result<InodeFlags> {
        match *self {}
    }

    /// Changes its flags.
    pub fn set_flags(&self, _: InodeFlags) -> Result<()> {
        match *self {}
    }

    /// Its project.
    pub fn project(&self) -> Result<u32> {
        match *self {}
    }

    /// Changes its project.
    pub fn set_project(&self, _: u32) -> Result<()> {
        match *self {}
    }

    /// Its generation.
    pub fn generation(&self) -> Result<u32> {
        match *self {}
    }

    /// Changes its generation.
    pub fn set_generation(&self, _: u32) -> Result<()> {
        match *self {}
    }
}
