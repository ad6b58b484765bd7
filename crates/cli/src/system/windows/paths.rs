//! Names and paths as bytes. A path in an image is held as a path of the host, too: [`uext4::unstable::host_names`] says how.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use uext4::unstable::host_names::{bytes, path};

/// The path that has these bytes, which nothing else needs.
pub fn path_buf(bytes: Vec<u8>) -> PathBuf {
    path(&bytes).into_owned()
}

/// A word of a command line, which is text.
pub fn word(bytes: Vec<u8>) -> OsString {
    let text = String::from_utf8(bytes);
    text.unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
        .into()
}

/// Whether `IMAGE:/path` can't begin with so much, as its last byte belongs to a path of the host: the letter of a drive.
pub fn is_of_host(begin: &[u8]) -> bool {
    matches!(begin, [letter] if letter.is_ascii_alphabetic())
}

/// The bytes of a name that nothing else needs.
pub fn into_bytes(name: OsString) -> Vec<u8> {
    bytes(&name).into_owned()
}

/// A path in an image for a message.
pub fn shown(path: &Path) -> String {
    String::from_utf8_lossy(&bytes(path)).into_owned()
}
