//! Why a check could not run.

use uext4_block::BlockError;
use uext4_ondisk::FormatError;

/// The check could not be done; says nothing about the image's health. `uext4 check` exits with 8.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] BlockError),
    /// There is no ext4 file system, or one with unknown features.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A feature that can't be checked, by name.
    #[error("can't check a file system with {0}")]
    Unsupported(String),
}

/// The result of everything that reads the device.
pub(crate) type Result<T> = std::result::Result<T, CheckError>;
