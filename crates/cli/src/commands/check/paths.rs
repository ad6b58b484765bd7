//! The names of inodes that a check found fault with.

use crate::system::paths;
use crate::{interrupt, superblock};
use anyhow::Result;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use uext4::{DeviceOptions, DirEntry, FileKind, Filesystem, ImageOptions};

/// The inode of the root directory.
const ROOT: u64 = 2;

/// A name in a directory.
struct Name {
    name: Vec<u8>,
    ino: u64,
    kind: Option<FileKind>,
}

/// A path of each of these inodes that one leads to, as far as directories can be read.
///
/// # Errors
/// A signal.
pub fn find(image: &Path, wanted: &HashSet<u64>) -> Result<HashMap<u64, PathBuf>> {
    let mut found = HashMap::new();
    found.extend(wanted.contains(&ROOT).then(|| (ROOT, PathBuf::from("/"))));
    let Some(fs) = open(image) else {
        return Ok(found);
    };
    let mut stack = vec![PathBuf::from("/")];
    // In a damaged image a directory may be below itself.
    let mut entered = HashSet::new();
    while let Some(dir) = stack.pop() {
        interrupt::check()?;
        for name in names(&fs, &dir) {
            let path = dir.join(paths::path(&name.name));
            if name.kind == Some(FileKind::Directory) && entered.insert(name.ino) {
                stack.push(path.clone());
            }
            if wanted.contains(&name.ino) {
                found.entry(name.ino).or_insert(path);
            }
        }
    }
    Ok(found)
}

/// What recovery would write stays in memory.
fn open(image: &Path) -> Option<Filesystem> {
    let device = superblock::open(image, &DeviceOptions::read_only().exclusive(false)).ok()?;
    Filesystem::open_device(device.device, &ImageOptions::read_only()).ok()
}

fn names(fs: &Filesystem, dir: &Path) -> Vec<Name> {
    let whole = fs.read_dir(paths::bytes(dir)).and_then(Iterator::collect);
    if let Ok(entries) = whole {
        let entries: Vec<DirEntry> = entries;
        let known = |entry: DirEntry| Name {
            ino: entry.ino(),
            kind: entry.kind().or_else(|| kind(fs, dir, entry.name())),
            name: entry.into_name(),
        };
        return entries.into_iter().map(known).collect();
    }
    let (names, _) = fs.list_readable(paths::bytes(dir)).unwrap_or_default();
    let known = |name: Vec<u8>| {
        let (ino, kind) = look_up(fs, dir, &name)?;
        let kind = Some(kind);
        Some(Name { name, ino, kind })
    };
    names.into_iter().filter_map(known).collect()
}

fn look_up(fs: &Filesystem, dir: &Path, name: &[u8]) -> Option<(u64, FileKind)> {
    let found = fs.symlink_metadata(paths::bytes(&dir.join(paths::path(name))));
    found.ok().map(|found| (found.ino, found.kind))
}

fn kind(fs: &Filesystem, dir: &Path, name: &[u8]) -> Option<FileKind> {
    look_up(fs, dir, name).map(|(_, kind)| kind)
}
