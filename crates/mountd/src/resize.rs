//! Making a mounted image larger.

use crate::ask::{self, AskError};
use crate::mountinfo::{self, MountEntry};
use crate::stats;
use std::io;
use std::path::{Path, PathBuf};

/// A mounted image does not become larger.
#[derive(Debug, thiserror::Error)]
pub enum ResizeError {
    /// The directory can't be found or opened, or the kernel refuses.
    #[error("{0}")]
    Host(#[from] io::Error),
    /// There is no mount.
    #[error("nothing is mounted there")]
    NotMounted,
    /// It is another's.
    #[error("not a mount of uext4 but of {0}; resize2fs(8) makes larger what the kernel mounts")]
    NotOurs(String),
    /// The server does not answer.
    #[error("its server does not answer; uext4 umount --lazy takes the mount away")]
    Hung,
    /// The mount is of message queues, or its server is of another version.
    #[error("its server says no size: is it another version, or a mount of message queues?")]
    NoSize,
    /// The server refuses.
    #[error("{0}")]
    Refused(String),
}

/// The size of a mounted image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountedSize {
    /// Blocks of the file system.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_size: u64,
}

/// A mounted image, to be made larger.
#[derive(Debug)]
pub struct MountedImage {
    dir: PathBuf,
}

impl MountedImage {
    /// The image that is mounted at `dir`.
    ///
    /// # Errors
    /// It is not a uext4 mount.
    pub fn at(dir: &Path) -> Result<MountedImage, ResizeError> {
        let dir = mountinfo::absolute(dir)?;
        let entry = MountEntry::at(&dir)?.ok_or(ResizeError::NotMounted)?;
        match entry.is_ours() {
            true => Ok(MountedImage { dir }),
            false => Err(ResizeError::NotOurs(entry.kind)),
        }
    }

    /// The size as it is now.
    ///
    /// # Errors
    /// The server does not answer, or says no size.
    pub fn size(&self) -> Result<MountedSize, ResizeError> {
        let said = stats::read_from_afar(&self.dir).map_err(|_| ResizeError::Hung)?;
        let size = said.as_ref().map(|said| &said["size"]);
        let number = |key: &str| size.and_then(|size| size[key].as_u64());
        match (number("blocks"), number("block_size")) {
            (Some(blocks), Some(block_size)) if block_size > 0 => {
                Ok(MountedSize { blocks, block_size })
            }
            _ => Err(ResizeError::NoSize),
        }
    }

    /// Makes it larger: so many blocks, or as many of them as make groups.
    ///
    /// # Locks
    /// Waits for changes that run.
    ///
    /// # Errors
    /// The caller is neither the superuser nor the user that mounted it; the server refuses, and has logged why.
    pub fn grow(&self, blocks: u64) -> Result<(), ResizeError> {
        let opened = ask::open(&self.dir).map_err(|e| match e {
            AskError::Host(e) => ResizeError::Host(e),
            e => ResizeError::Refused(e.to_string()),
        })?;
        uext4_fuse::grow_mounted(&opened, blocks).map_err(refusal)
    }
}

fn refusal(e: io::Error) -> ResizeError {
    let why = match e.raw_os_error() {
        Some(libc::EPERM) => "only the superuser, and the user that mounted it, may make it larger",
        Some(libc::EROFS) => "it is mounted read-only",
        Some(libc::EBUSY) => "it is frozen, or is being made larger",
        Some(libc::EINVAL) => "its device is too short, or has no more block or inode numbers",
        Some(libc::EOPNOTSUPP) => {
            "it has no blocks reserved for more descriptors: unmount it, then `uext4 resize` its image"
        }
        Some(libc::EUCLEAN) => "it is damaged: unmount it, then `uext4 check` its image",
        Some(libc::ENOSPC) => "the host is full, or its journal is too small",
        _ => return ResizeError::Host(e),
    };
    ResizeError::Refused(why.to_owned())
}
