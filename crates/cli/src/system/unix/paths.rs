//! Names and paths as bytes, which they are.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The bytes of a path or a name.
pub fn bytes(path: &(impl AsRef<OsStr> + ?Sized)) -> Cow<'_, [u8]> {
    Cow::Borrowed(path.as_ref().as_bytes())
}

/// The path, or the name, that has these bytes.
pub fn path(bytes: &[u8]) -> Cow<'_, Path> {
    Cow::Borrowed(Path::new(OsStr::from_bytes(bytes)))
}

/// The same, of bytes that nothing else needs.
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
