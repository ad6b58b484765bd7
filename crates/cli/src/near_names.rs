//! Names that may have been meant by one that does not exist.

use crate::system::paths;
use std::fs;
use std::path::{Path, PathBuf};
use uext4::Filesystem;

/// Entries of a directory that are compared.
const ENTRIES_MAX: usize = 10_000;
/// Names whose files are read.
const CANDIDATES_MAX: usize = 8;
/// Names that are less alike than this are others.
const ALIKE_MIN: f64 = 0.66;

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

/// The file of an image that may have been meant by a path that names none: that with the nearest name where the first one is wrong.
pub fn in_image(fs: &Filesystem, path: &Path) -> Option<PathBuf> {
    let mut names = path.components();
    let mut dir = PathBuf::from("/");
    while let Some(name) = names.next() {
        let next = dir.join(name);
        if fs.exists(paths::bytes(&next)).ok()? {
            dir = next;
            continue;
        }
        let entries = fs
            .read_dir(paths::bytes(&dir))
            .ok()?
            .take(ENTRIES_MAX)
            .flatten();
        let entries = entries.filter_map(|entry| String::from_utf8(entry.into_name()).ok());
        let near = nearest(name.as_os_str().to_str()?, entries).into_iter();
        // The rest may be misspelt too, but then both would be guesses.
        return near
            .take(CANDIDATES_MAX)
            .map(|near| dir.join(near).components().chain(names.clone()).collect())
            .find(|path: &PathBuf| fs.exists(paths::bytes(path)).unwrap_or(false));
    }
    None
}

/// Whether one may have been meant by the other.
pub fn are_alike(name: &str, other: &str) -> bool {
    alikeness(name, other) >= ALIKE_MIN
}

/// From 0 to 1.
fn alikeness(name: &str, other: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(name, other)
}

/// The names that are near, the nearest first.
fn nearest(name: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let stem = |name: &str| Path::new(name).file_stem().map(|stem| stem.to_owned());
    let extension = |name: &str| Path::new(name).extension().map(|ext| ext.to_owned());
    // The same extension makes no names alike.
    let own = |name: &str| {
        stem(name)
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let alike = |other: &str| {
        if extension(other) != extension(name) && stem(other) != stem(name) {
            return alikeness(name, other);
        }
        let (name, other) = (own(name), own(other));
        match strsim::damerau_levenshtein(&name, &other) {
            // Of one letter, one is all.
            1 => alikeness(&name, &other).max(ALIKE_MIN),
            _ => alikeness(&name, &other),
        }
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
            let names = ["disk.img", "root.ext4", "readme.txt", "etc"].map(str::to_owned);
            nearest(name, names.into_iter()).into_iter().next()
        };
        for (name, want) in [
            ("dsik.img", Some("disk.img")),
            ("disc.img", Some("disk.img")),
            ("ect", Some("etc")),
            ("disk", Some("disk.img")),
            ("root.img", Some("root.ext4")),
            ("new.img", None),
            ("e.ext4", None),
            ("x", None),
        ] {
            assert_eq!(near(name).as_deref(), want, "{name}");
        }
    }
}
