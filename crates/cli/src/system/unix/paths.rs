//! Names and paths as bytes, which they are.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

pub use uext4::unstable::host_names::{bytes, path};

/// The path that has these bytes, which nothing else needs.
pub fn path_buf(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// A word of a command line.
pub fn word(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}

/// Whether `IMAGE:/path` can't begin with so much, as its last byte belongs to a path of the host.
pub fn is_of_host(_: &[u8]) -> bool {
    false
}

/// The bytes of a name that nothing else needs.
pub fn into_bytes(name: OsString) -> Vec<u8> {
    name.into_vec()
}

/// A path in an image for a message.
pub fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}
