//! What identifies an image.

use crate::error::{BlockError, Result};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// The identity of an image, by which two opens of the same one are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceId {
    /// A regular file.
    File {
        /// The file system it is on.
        st_dev: u64,
        /// Its inode number there.
        st_ino: u64,
    },
    /// A block device, whatever node it was opened by.
    Block {
        /// Its device number.
        rdev: u64,
    },
}

impl DeviceId {
    /// Of what is at `path` now.
    ///
    /// # Errors
    /// `ENOTBLK`: neither a file nor a block device. Else what the host says.
    pub fn of_path(path: &Path) -> Result<DeviceId> {
        let stat = rustix::fs::stat(path).map_err(|errno| open_error(path, errno))?;
        identify(path, &stat)
    }
}

pub(crate) fn identify(path: &Path, stat: &Stat) -> Result<DeviceId> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(DeviceId::File {
            st_dev: stat.st_dev,
            st_ino: stat.st_ino,
        }),
        FileType::BlockDevice => Ok(DeviceId::Block { rdev: stat.st_rdev }),
        _ => Err(BlockError::NotADevice {
            path: path.to_owned(),
        }),
    }
}

pub(crate) fn open_error(path: &Path, errno: Errno) -> BlockError {
    BlockError::Open {
        path: path.to_owned(),
        source: io::Error::from(errno),
    }
}
