//! Names and paths of the host as bytes, which they are in images.

#[cfg(unix)]
use std::{borrow::Cow, ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

#[cfg(not(unix))]
pub use crate::windows_names::{bytes, path};

/// The bytes of a path or a name.
#[cfg(unix)]
pub fn bytes(path: &(impl AsRef<OsStr> + ?Sized)) -> Cow<'_, [u8]> {
    Cow::Borrowed(path.as_ref().as_bytes())
}

/// The path, or the name, that has these bytes.
#[cfg(unix)]
pub fn path(bytes: &[u8]) -> Cow<'_, Path> {
    Cow::Borrowed(Path::new(OsStr::from_bytes(bytes)))
}
