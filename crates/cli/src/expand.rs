//! Patterns in the paths of operands: `IMAGE:/var/cache/*`, which a shell cannot expand.

use crate::endpoint::Endpoint;
use crate::glob;
use crate::location::InImage;
use crate::system::paths;
use anyhow::Result;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use uext4::FileKind;

/// Names are as they are.
static OFF: AtomicBool = AtomicBool::new(false);

/// From now on nothing in a name is a pattern.
pub fn turn_off() {
    OFF.store(true, Ordering::Relaxed);
}

/// The files that an operand names, in order of their names. As a shell does it: a name matches `*`, `?` and `[a-z]`, one that starts
/// with a dot only a pattern that does; `\` takes their meaning away, `**` is any number of directories; a pattern that nothing matches is a name. If a file
/// has the pattern itself as its name, it alone is meant.
///
/// # Errors
/// A directory that cannot be read.
pub fn expand(endpoint: &dyn Endpoint, at: &InImage) -> Result<Vec<InImage>> {
    let is_pattern = !OFF.load(Ordering::Relaxed) && glob::is_pattern(&paths::bytes(&at.path));
    if !is_pattern || endpoint.find(&at.path, false)?.is_some() {
        return Ok(vec![at.clone()]);
    }
    let mut found = vec![PathBuf::from("/")];
    for component in at.path.components() {
        if let Component::Normal(pattern) = component {
            found = below(endpoint, &found, pattern)?;
        } else if component == Component::ParentDir {
            found.iter_mut().for_each(|path| path.push(".."));
        }
    }
    // A slash at the end asks for directories.
    if paths::bytes(&at.path).ends_with(b"/") {
        found.retain(|path| is_directory(endpoint, path));
        found.iter_mut().for_each(|path| path.push(""));
    }
    if found.is_empty() {
        let path = paths::path_buf(glob::unescaped(&paths::bytes(&at.path)));
        found.push(path);
    }
    let named = |path| InImage {
        image: at.image.clone(),
        path,
    };
    Ok(found.into_iter().map(named).collect())
}

/// What is in these directories and matches.
fn below(endpoint: &dyn Endpoint, dirs: &[PathBuf], pattern: &OsStr) -> Result<Vec<PathBuf>> {
    let pattern = &*paths::bytes(pattern);
    let mut found = Vec::new();
    for dir in dirs {
        if pattern == b"**" {
            add_directories(endpoint, dir, &mut found)?;
        } else if !glob::is_pattern(pattern) {
            let path = dir.join(paths::path(pattern));
            // A name below something else than a directory names nothing.
            if is_directory(endpoint, dir) && endpoint.find(&path, false)?.is_some() {
                found.push(path);
            }
        } else if is_directory(endpoint, dir) {
            let mut names = endpoint.list(dir)?;
            names.retain(|name| glob::matches_file_name(pattern, name));
            found.extend(names.iter().map(|name| dir.join(paths::path(name))));
        }
    }
    Ok(found)
}

/// Adds a directory and all below it, without links and names that start with a dot.
fn add_directories(endpoint: &dyn Endpoint, dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let mut stack = vec![dir.to_owned()];
    let mut visited = HashSet::new();
    while let Some(dir) = stack.pop() {
        let there = endpoint.get(&dir, false)?.attr;
        // In a damaged image a directory may be below itself.
        if there.kind != FileKind::Directory || !visited.insert(there.ino) {
            continue;
        }
        let mut names = endpoint.list(&dir)?;
        names.retain(|name| !name.starts_with(b"."));
        stack.extend(names.iter().rev().map(|name| dir.join(paths::path(name))));
        found.push(dir);
    }
    Ok(())
}

fn is_directory(endpoint: &dyn Endpoint, path: &Path) -> bool {
    let found = endpoint.find(path, true);
    found.is_ok_and(|found| found.is_some_and(|found| found.attr.kind == FileKind::Directory))
}
