//! Names that may have been meant by one that does not exist.

use std::fs;
use std::path::{Path, PathBuf};

/// Entries of a directory that are compared.
const ENTRIES_MAX: usize = 10_000;
/// Names that are less alike than this are others.
const ALIKE_MIN: f64 = 0.7;

/// The file whose name is nearest to that of `path`, in the same directory, if one is near: spelled nearly alike, or the same
/// without its extension.
pub fn of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let parent = path.parent()?;
    let dir = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    let entries = fs::read_dir(dir).ok()?.take(ENTRIES_MAX).flatten();
    let names = entries
        .filter(|entry| !entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok());
    Some(parent.join(nearest(name, names)?))
}

fn nearest(name: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let stem = |name: &str| Path::new(name).file_stem().map(|stem| stem.to_owned());
    let alike = |other: &str| match stem(other) == stem(name) {
        true => 1.0,
        false => strsim::normalized_damerau_levenshtein(name, other),
    };
    names
        .map(|other| (alike(&other), other))
        .filter(|(alike, _)| *alike >= ALIKE_MIN)
        .max_by(|(one, a), (other, b)| one.total_cmp(other).then(b.cmp(a)))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_is_nearly_the_same() {
        let near = |name: &str| {
            let names = ["disk.img", "root.ext4", "readme.txt"].map(str::to_owned);
            nearest(name, names.into_iter())
        };
        for (name, want) in [
            ("dsik.img", Some("disk.img")),
            ("disc.img", Some("disk.img")),
            ("disk", Some("disk.img")),
            ("root.img", Some("root.ext4")),
            ("new.img", None),
            ("x", None),
        ] {
            assert_eq!(near(name).as_deref(), want, "{name}");
        }
    }
}
