//! Names that may have been meant by one that does not exist.

use std::fs;
use std::path::{Path, PathBuf};

/// Entries of a directory that are compared.
const ENTRIES_MAX: usize = 10_000;
/// Names whose files are read.
const CANDIDATES_MAX: usize = 8;
/// Names that are less alike than this are others.
const ALIKE_MIN: f64 = 0.7;

/// The file whose name is nearest to that of `path`, in the same directory and accepted by `is_meant`, if one is near: spelled
/// nearly alike, or the same without its extension.
pub fn of(path: &Path, is_meant: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let parent = path.parent()?;
    let dir = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    let entries = fs::read_dir(dir).ok()?.take(ENTRIES_MAX).flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let near = nearest(name, names).into_iter().take(CANDIDATES_MAX);
    near.map(|name| parent.join(name))
        .find(|path| is_meant(path))
}

/// The names that are near, the nearest first.
fn nearest(name: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let stem = |name: &str| Path::new(name).file_stem().map(|stem| stem.to_owned());
    let alike = |other: &str| match stem(other) == stem(name) {
        true => 1.0,
        false => strsim::normalized_damerau_levenshtein(name, other),
    };
    let mut near: Vec<(f64, String)> = names
        .map(|other| (alike(&other), other))
        .filter(|(alike, _)| *alike >= ALIKE_MIN)
        .collect();
    near.sort_by(|(one, a), (other, b)| other.total_cmp(one).then(a.cmp(b)));
    near.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_is_nearly_the_same() {
        let near = |name: &str| {
            let names = ["disk.img", "root.ext4", "readme.txt"].map(str::to_owned);
            nearest(name, names.into_iter()).into_iter().next()
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
