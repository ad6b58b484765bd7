//! Going through a tree.

use crate::endpoint::{Endpoint, Found};
use crate::system::paths;
use crate::{failures, interrupt};
use anyhow::{Result, bail};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use uext4::FileKind;
use uext4::unstable::Attr;

/// A file that was met.
#[derive(Clone, Debug)]
pub struct Met {
    /// Its path.
    pub path: PathBuf,
    /// Its attributes.
    pub attr: Attr,
    /// How far below the start.
    pub depth: usize,
}

/// Which symbolic links are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// None.
    Never,
    /// One at the start.
    Start,
    /// All; one that leads nowhere is visited itself.
    Always,
}

/// How a walk continues at a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// With the files in it.
    Descend,
    /// With the file after it.
    Skip,
    /// Not at all.
    Stop,
}

/// As [`walk_following`], where `follow` is for a symbolic link at `start`.
///
/// # Errors
/// One that ends the command.
pub fn walk(
    endpoint: &dyn Endpoint,
    start: &Path,
    follow: bool,
    visit: impl FnMut(&Met) -> Result<Next>,
) -> Result<()> {
    let follow = if follow { Follow::Start } else { Follow::Never };
    walk_following(endpoint, start, follow, visit)
}

/// Calls `visit` for the file at `start` and all below it, parents first, names in order. On a stack of its own, as trees may be deep.
/// A file that can't be read, and one that `visit` fails for, is reported, and the rest is done.
///
/// # Errors
/// One that ends the command.
pub fn walk_following(
    endpoint: &dyn Endpoint,
    start: &Path,
    follow: Follow,
    mut visit: impl FnMut(&Met) -> Result<Next>,
) -> Result<()> {
    let mut stack = vec![(start.to_owned(), 0)];
    let mut passed = Passed::default();
    while let Some((path, depth)) = stack.pop() {
        interrupt::check()?;
        let follows = match follow {
            Follow::Never => false,
            Follow::Start => depth == 0,
            Follow::Always => true,
        };
        let done = met(endpoint, path, follows).and_then(|(path, attr)| {
            let met = Met { path, attr, depth };
            let next = visit(&met)?;
            if next == Next::Stop {
                stack.clear();
            }
            if next != Next::Descend || attr.kind != FileKind::Directory {
                return Ok(());
            }
            passed.enter(endpoint, &met, follow)?;
            let names = endpoint.list(&met.path)?;
            for name in names.iter().rev() {
                let path = met.path.join(paths::path(name));
                stack.push((path, depth + 1));
            }
            Ok(())
        });
        done.or_else(failures::report)?;
    }
    Ok(())
}

/// The file at `path`; a link that is followed and leads nowhere itself.
fn met(endpoint: &dyn Endpoint, path: PathBuf, follows: bool) -> Result<(PathBuf, Attr)> {
    let target = match follows {
        true => endpoint.find(&path, true).ok().flatten(),
        false => None,
    };
    match target {
        Some(Found { attr, .. }) => Ok((path, attr)),
        None => {
            let attr = endpoint.get(&path, false)?.attr;
            Ok((path, attr))
        }
    }
}

/// The directories that a walk has entered.
#[derive(Default)]
struct Passed {
    all: HashSet<u64>,
    /// Those on the way to the current file.
    above: Vec<u64>,
}

impl Passed {
    fn enter(&mut self, endpoint: &dyn Endpoint, met: &Met, follow: Follow) -> Result<()> {
        let ino = met.attr.ino;
        self.above.truncate(met.depth);
        let name = || endpoint.display(&met.path);
        if follow == Follow::Always {
            // Links may lead to a directory on several ways, but not back to one above.
            if self.above.contains(&ino) {
                bail!("{}: leads back to a directory above it", name());
            }
        } else if !self.all.insert(ino) {
            // In a damaged image a directory may be below itself.
            bail!("{}: damaged: directory {ino} has two names", name());
        }
        self.above.push(ino);
        Ok(())
    }
}
