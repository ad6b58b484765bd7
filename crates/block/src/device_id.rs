//! What identifies an image.

use crate::error::Result;
use crate::platform;
use std::hash::{DefaultHasher, Hash, Hasher};
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
    /// What a server elsewhere has.
    Remote {
        /// A hash of its address.
        name: u64,
    },
}

impl DeviceId {
    /// Whether other hosts may write it, which nothing on this one finds out.
    pub fn is_remote(self) -> bool {
        matches!(self, DeviceId::Remote { .. })
    }

    /// Of what a server has under a name.
    pub fn of_name(name: impl Hash) -> DeviceId {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        DeviceId::Remote {
            name: hasher.finish(),
        }
    }

    /// Of what is at `path` now.
    ///
    /// # Errors
    /// `ENOTBLK`: neither a file nor a block device. Otherwise the host's error.
    pub fn of_path(path: &Path) -> Result<DeviceId> {
        platform::id_of_path(path)
    }
}
