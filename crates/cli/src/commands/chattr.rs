//! `uext4 chattr`.

use super::walk::{Next, walk};
use crate::chattr_flags::Change;
use crate::endpoint::Image;
use crate::location::InImage;
use crate::{diagnostics, images, interrupt};
use anyhow::{Result, anyhow, bail};
use std::ffi::OsString;
use std::path::Path;
use uext4::{Errno, Error, FileKind, Filesystem};

/// Change the flags of files, or their project.
///
/// Flags are given as in chattr(1): +LETTERS adds some, -LETTERS takes some away, =LETTERS sets these and no
/// others. Letters: a append-only, A no atime, d no dump, D synchronous directory, i immutable, j data through
/// the journal, P project inherited, S synchronous, T top directory; c, s, t and u are kept and mean nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 chattr +i -d disk.img:/etc/passwd")]
pub struct Args {
    /// The project
    #[arg(short)]
    project: Option<u32>,
    /// All below directories too
    #[arg(short = 'R')]
    recursive: bool,
    /// Flags as +LETTERS, -LETTERS or =LETTERS, then IMAGE:/path
    #[arg(
        required = true,
        allow_hyphen_values = true,
        value_name = "FLAGS> <PATHS"
    )]
    words: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    let (changes, paths) = split(args.words)?;
    if paths.is_empty() {
        bail!("chattr: no file is named; give IMAGE:/path after the flags");
    }
    if changes.is_empty() && args.project.is_none() {
        bail!("chattr: nothing to change; give flags as +i or -i, or a project as -p 7");
    }
    interrupt::catch()?;
    images::change_each(paths, |fs, at| {
        if !args.recursive {
            return change(fs, at, &at.path, &changes, args.project);
        }
        let endpoint = Image::new(1, at.image.clone(), fs.clone());
        walk(&endpoint, &at.path, true, |met| {
            if matches!(met.attr.kind, FileKind::Regular | FileKind::Directory) {
                change(fs, at, &met.path, &changes, args.project)?;
            }
            Ok(Next::Descend)
        })
    })
}

/// The changes, followed by the paths.
fn split(words: Vec<OsString>) -> Result<(Vec<Change>, Vec<OsString>)> {
    let (mut changes, mut paths) = (Vec::new(), Vec::new());
    for word in words {
        match word
            .to_str()
            .filter(|_| paths.is_empty())
            .and_then(Change::parse)
        {
            Some(change) => changes.push(change.map_err(|why| anyhow!("chattr: {why}"))?),
            None => paths.push(word),
        }
    }
    Ok((changes, paths))
}

fn change(
    fs: &Filesystem,
    at: &InImage,
    path: &Path,
    changes: &[Change],
    project: Option<u32>,
) -> Result<()> {
    let here = InImage {
        image: at.image.clone(),
        path: path.to_path_buf(),
    };
    let before = fs.flags(path).map_err(|e| fail(&here, e))?;
    let after = changes.iter().fold(before, |flags, c| c.apply(flags));
    if after != before {
        fs.set_flags(path, after).map_err(|e| fail(&here, e))?;
    }
    match project {
        Some(project) => fs.set_project(path, project).map_err(|e| fail(&here, e)),
        None => Ok(()),
    }
}

/// An error, and what to do about it.
fn fail(at: &InImage, e: Error) -> anyhow::Error {
    let hint = match e.errno() {
        Errno::ENOTTY => "; only files and directories have flags that can be changed".to_owned(),
        Errno::EPERM => format!("; is it immutable? `uext4 chattr -i {at}` first"),
        Errno::EOPNOTSUPP if e.to_string().contains("project") => {
            "; `tune2fs -O project` adds the feature".to_owned()
        }
        Errno::EOPNOTSUPP => "; D, P and T are for directories, and e, F, j and x stay".to_owned(),
        _ => return diagnostics::in_image(at, e),
    };
    anyhow!("{at}: {e}{hint}")
}
