//! Going through a tree.

use crate::endpoint::{Endpoint, Found};
use crate::{failures, interrupt};
use anyhow::{Result, bail};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4::FileKind;
use uext4::unstable::Attr;

/// A file that was met.
pub struct Met {
    /// Its path.
    pub path: PathBuf,
    /// Its attributes.
    pub attr: Attr,
    /// How far below the start.
    pub depth: usize,
    /// The last of its directory.
    pub is_last: bool,
}

/// What is visited after a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// What is in it.
    Descend,
    /// What follows it.
    Skip,
}

/// Calls `visit` for the file at `start` and all below it, parents first, names in order. `follow` is for a symbolic link at `start`.
/// On a stack of its own, as trees may be deep. What can't be read, and what `visit` fails for, is reported, and the rest is done.
///
/// # Errors
/// One that ends the command.
pub fn walk(
    endpoint: &dyn Endpoint,
    start: &Path,
    follow: bool,
    mut visit: impl FnMut(&Met) -> Result<Next>,
) -> Result<()> {
    let mut stack = vec![(start.to_owned(), 0, true)];
    // In a damaged image a directory may be below itself.
    let mut directories = HashSet::new();
    while let Some((path, depth, is_last)) = stack.pop() {
        interrupt::check()?;
        let found = endpoint.get(&path, follow && depth == 0);
        let done = found.and_then(|Found { attr, .. }| {
            let met = Met {
                path,
                attr,
                depth,
                is_last,
            };
            if visit(&met)? == Next::Skip || attr.kind != FileKind::Directory {
                return Ok(());
            }
            if !directories.insert(attr.ino) {
                let name = endpoint.display(&met.path);
                bail!("{name}: damaged: directory {} has two names", attr.ino);
            }
            let names = endpoint.list(&met.path)?;
            for (i, name) in names.iter().rev().enumerate() {
                let path = met.path.join(OsStr::from_bytes(name));
                stack.push((path, depth + 1, i == 0));
            }
            Ok(())
        });
        done.or_else(failures::report)?;
    }
    Ok(())
}
