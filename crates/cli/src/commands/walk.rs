//! Going through a tree of an image.

use crate::location::InImage;
use crate::{diagnostics, interrupt};
use anyhow::Result;
use std::collections::HashSet;
use std::path::PathBuf;
use uext4::unstable::Attr;
use uext4::{Errno, Error, FileKind, Filesystem};

/// A file that was met.
pub struct Met {
    /// Its path in the image.
    pub path: PathBuf,
    /// Its attributes.
    pub attr: Attr,
    /// How far below the start.
    pub depth: usize,
    /// The last of its directory.
    pub is_last: bool,
}

/// Calls `visit` for the file at `at` and all below it, parents first, names in order. On a stack of its
/// own, as trees may be deep.
///
/// # Errors
/// A file that can't be read, or what `visit` gives.
pub fn walk(
    fs: &Filesystem,
    at: &InImage,
    mut visit: impl FnMut(&Met) -> Result<()>,
) -> Result<()> {
    let mut stack = vec![(at.path.clone(), 0, true)];
    // In a damaged image a directory may be below itself.
    let mut directories = HashSet::new();
    while let Some((path, depth, is_last)) = stack.pop() {
        interrupt::check()?;
        let here = InImage {
            image: at.image.clone(),
            path: path.clone(),
        };
        let fail = |e| diagnostics::in_image(&here, e);
        let attr = if depth == 0 {
            fs.metadata(&path).map_err(fail)?
        } else {
            fs.symlink_metadata(&path).map_err(fail)?
        };
        let met = Met {
            path,
            attr: *attr,
            depth,
            is_last,
        };
        visit(&met)?;
        if attr.kind != FileKind::Directory {
            continue;
        }
        if !directories.insert(attr.ino) {
            let what = format!("directory {} has two names", attr.ino);
            return Err(fail(Error::new(Errno::EUCLEAN).context(what)));
        }
        let entries: uext4::Result<Vec<_>> = fs.read_dir(&met.path).map_err(fail)?.collect();
        let mut entries = entries.map_err(fail)?;
        entries.sort_by(|a, b| b.name().cmp(a.name()));
        for (i, entry) in entries.iter().enumerate() {
            stack.push((met.path.join(entry.file_name()), depth + 1, i == 0));
        }
    }
    Ok(())
}
