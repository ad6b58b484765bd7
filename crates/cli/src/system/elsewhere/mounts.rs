//! Nothing is mounted: images are by the servers of uext4, and block devices by the kernel, of Linux.

use serde_json::Value;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Where an image is mounted.
pub fn mounted_at(_: &Path) -> Option<PathBuf> {
    None
}

/// The statistics of a mount.
pub fn statistics(_: &Path) -> Option<Value> {
    None
}

/// Where an image is mounted, if its files there are those that are stored.
pub fn shown_as_stored_at(_: &Path) -> Option<PathBuf> {
    None
}

/// What is used of a mount: bytes of a block; blocks, free ones, available ones; inodes, free ones.
pub fn usage(_: &Path) -> Option<(u64, [u64; 3], [u64; 2])> {
    None
}

/// The kernel's mount of a block device; there is none.
pub enum KernelMount {}

impl KernelMount {
    /// That of a block device that holds an image.
    pub fn of(_: &Path) -> Option<KernelMount> {
        None
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        match *self {}
    }

    /// Its options.
    pub fn options(&self) -> &str {
        match *self {}
    }

    /// Makes it larger.
    pub fn grow(&self, _: u64) -> io::Result<()> {
        match *self {}
    }
}

/// A mounted image; there is none.
pub enum MountedImage {}

/// The size of one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MountedSize {
    /// Blocks of the file system.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_size: u64,
}

/// There is no mount.
#[derive(Clone, Copy, Debug)]
pub struct ResizeError;

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is a directory, and images are mounted on Linux alone: give the image")
    }
}

impl std::error::Error for ResizeError {}

impl MountedImage {
    /// The image that is mounted at a directory.
    ///
    /// # Errors
    /// Always.
    pub fn at(_: &Path) -> Result<MountedImage, ResizeError> {
        Err(ResizeError)
    }

    /// Its size.
    pub fn size(&self) -> Result<MountedSize, ResizeError> {
        match *self {}
    }

    /// Makes it larger.
    pub fn grow(&self, _: u64) -> Result<(), ResizeError> {
        match *self {}
    }
}
