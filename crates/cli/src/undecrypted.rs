//! Why a file of an encrypted directory is not found: its name is not shown without the key, nor with another.

use crate::location::InImage;
use crate::system::paths;
use std::path::{Path, PathBuf};
use uext4::unstable::ondisk::NoKeyName;
use uext4::{Filesystem, InodeFlags};

/// Entries of a directory whose names are read.
const ENTRIES_MAX: usize = 100;

/// What the key of the directory has to do with it that a path names nothing, and what to do; none if the names of the directory are those that were made.
pub fn why(fs: &Filesystem, at: &InImage) -> Option<String> {
    let dir = nearest_dir(fs, &at.path)?;
    let flags = fs.flags(paths::bytes(&dir)).ok()?;
    if !flags.contains(InodeFlags::ENCRYPT) {
        return None;
    }
    let entries = fs
        .read_dir(paths::bytes(&dir))
        .ok()?
        .take(ENTRIES_MAX)
        .flatten();
    let names: Vec<Vec<u8>> = entries.map(|entry| entry.into_name()).collect();
    let dir = at.beside(&dir);
    if names.is_empty() {
        return None;
    }
    let is_undecrypted = |name: &[u8]| NoKeyName::decode(name).is_some();
    if names.iter().all(|name| is_undecrypted(name)) {
        return Some(format!(
            "{dir} is encrypted, and its key is not there: --encryption-key FILE gives it, or DESCRIPTOR:FILE for a policy of version 1"
        ));
    }
    // Random bytes may end early, at a NUL, or be none that a name may have.
    let garbled = names
        .iter()
        .filter(|name| is_garbled(name) || is_undecrypted(name));
    (garbled.count() * 2 > names.len()).then(|| {
        format!("the names in {dir} do not decrypt under the key that is given with its descriptor")
    })
}

/// The directory where the path leads nowhere.
fn nearest_dir(fs: &Filesystem, path: &Path) -> Option<PathBuf> {
    let above = path.ancestors().skip(1);
    above
        .map(Path::to_owned)
        .find(|dir| fs.metadata(paths::bytes(dir)).is_ok())
}

/// Whether a name is as random bytes are.
fn is_garbled(name: &[u8]) -> bool {
    std::str::from_utf8(name).map_or(true, |name| name.contains(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_clear_text_is_not_garbled() {
        for clear in ["a.txt", "N\u{c4}me", " "] {
            assert!(!is_garbled(clear.as_bytes()), "{clear}");
        }
        for garbled in [&b"\xff\x80"[..], b"a\x01b"] {
            assert!(is_garbled(garbled), "{garbled:?}");
        }
    }
}
