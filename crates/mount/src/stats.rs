//! What a server tells of itself: one JSON document, the value of an attribute of the mounted directory.

use serde_json::Value;
use std::io;
use std::path::Path;

/// The attribute. No file has it; the server answers for its mount.
pub const ATTRIBUTE: &str = "uext4.stats";

/// The most that an attribute can be.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// Statistics can't be had.
#[derive(Debug, thiserror::Error)]
pub enum StatsError {
    /// Something else is mounted there, or nothing.
    #[error("not a mount of uext4")]
    NotOurs,
    /// The mount does not answer.
    #[error("{0}")]
    Host(#[from] io::Error),
    /// What it says can't be read.
    #[error("the server's statistics can't be read: {0}; is it another version?")]
    Document(#[from] serde_json::Error),
}

/// The statistics of the mount at `dir`. Nothing of it is open when this returns.
///
/// # Errors
/// It is not ours, or does not answer.
pub fn read(dir: &Path) -> Result<Value, StatsError> {
    let mut value = vec![0; VALUE_BYTES_MAX];
    match rustix::fs::getxattr(dir, ATTRIBUTE, &mut value[..]) {
        Ok(len) => Ok(serde_json::from_slice(&value[..len])?),
        Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP) => Err(StatsError::NotOurs),
        Err(errno) => Err(StatsError::Host(errno.into())),
    }
}
