//! `uext4 chattr`.

use super::change::{Scope, change_each};
use crate::chattr_flags::{self, Change as FlagChange};
use crate::endpoint::{Endpoint, Image};
use crate::system::paths;
use anyhow::{Result, anyhow, bail};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use uext4::{Errno, Error, FileKind};

/// Change the flags of files, or their project
///
/// Flags are given as in chattr(1): +LETTERS adds some, -LETTERS takes some away, =LETTERS sets these and no
/// others. Letters: a append-only, A no atime, d no dump, D synchronous directory, F ignore case (an empty directory),
/// i immutable, j data through the journal, P project inherited, S synchronous, T top directory; c, s, t and u are kept and mean nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 chattr +i -d disk.img:/etc/passwd
  uext4 chattr -R -ai disk.img:/var/log
  uext4 chattr -p 7 disk.img:/srv")]
pub struct Args {
    /// The project
    #[arg(short)]
    project: Option<u32>,
    /// All below directories too
    #[arg(short = 'R')]
    recursive: bool,
    /// Name each file with its flags
    #[arg(short = 'V')]
    verbose: bool,
    /// The generation of the files
    #[arg(short = 'v', value_name = "VERSION")]
    generation: Option<u32>,
    /// Flags as +LETTERS, -LETTERS or =LETTERS, then IMAGE:/path
    #[arg(
        required = true,
        allow_hyphen_values = true,
        value_name = "FLAGS> <PATHS"
    )]
    words: Vec<OsString>,
}

impl Args {
    /// What chattr(1) asks for.
    pub fn of(
        words: Vec<OsString>,
        project: Option<u32>,
        generation: Option<u32>,
        recursive: bool,
        verbose: bool,
    ) -> Args {
        Args {
            project,
            recursive,
            verbose,
            generation,
            words,
        }
    }
}

pub fn run(args: Args) -> Result<()> {
    let (changes, paths) = split(args.words)?;
    if paths.is_empty() {
        bail!("chattr: no file is named; give IMAGE:/path after the flags");
    }
    let change = Change {
        flags: changes,
        project: args.project,
        generation: args.generation,
        verbose: args.verbose,
    };
    if change.flags.is_empty() && change.project.is_none() && change.generation.is_none() {
        bail!("chattr: nothing to change; give flags as +i or -i, or a project as -p 7");
    }
    let scope = Scope {
        recursive: args.recursive,
        follow: false,
    };
    change_each(paths, scope, |image, met| {
        let has_flags = matches!(met.attr.kind, FileKind::Regular | FileKind::Directory);
        match has_flags || met.depth == 0 {
            true => change.apply(image, &met.path),
            false => Ok(()),
        }
    })
}

/// The changes, followed by the paths.
fn split(words: Vec<OsString>) -> Result<(Vec<FlagChange>, Vec<OsString>)> {
    let (mut changes, mut paths) = (Vec::new(), Vec::new());
    for word in words {
        match word
            .to_str()
            .filter(|_| paths.is_empty())
            .and_then(FlagChange::parse)
        {
            Some(change) => changes.push(change.map_err(|why| anyhow!("chattr: {why}"))?),
            None => paths.push(word),
        }
    }
    Ok((changes, paths))
}

/// What becomes of each file.
struct Change {
    flags: Vec<FlagChange>,
    project: Option<u32>,
    generation: Option<u32>,
    verbose: bool,
}

impl Change {
    fn apply(&self, image: &Image, path: &Path) -> Result<()> {
        let fs = image.fs();
        let fail = |e| fail(image, path, e);
        let before = fs.flags(paths::bytes(path)).map_err(fail)?;
        let after = self.flags.iter().fold(before, |flags, c| c.apply(flags));
        if after != before {
            fs.set_flags(paths::bytes(path), after).map_err(fail)?;
        }
        if self.verbose {
            let (name, flags) = (image.display(path), chattr_flags::column(after));
            writeln!(std::io::stdout(), "Flags of {name} set as {flags}")?;
        }
        if let Some(generation) = self.generation {
            let file = fs.open_file(paths::bytes(path)).map_err(fail)?;
            file.set_generation(generation).map_err(fail)?;
        }
        match self.project {
            Some(project) => fs.set_project(paths::bytes(path), project).map_err(fail),
            None => Ok(()),
        }
    }
}

/// An error, and what to do about it.
fn fail(image: &Image, path: &Path, e: Error) -> anyhow::Error {
    let at = image.display(path);
    let hint = match e.errno() {
        Errno::ENOTTY => "; only files and directories have flags that can be changed".to_owned(),
        Errno::EOPNOTSUPP if e.to_string().contains("project") => {
            "; `uext4 tune -O project` adds the feature".to_owned()
        }
        Errno::EOPNOTSUPP if e.to_string().contains("ignores case") => {
            "; `uext4 tune -O casefold` adds the feature".to_owned()
        }
        Errno::EOPNOTSUPP => {
            "; D, P and T are for directories only, and e and x stay as they are".to_owned()
        }
        Errno::ENOTDIR => "; F is for directories only".to_owned(),
        Errno::ENOTEMPTY => "; F changes only while a directory is empty".to_owned(),
        _ => return image.fail(path, e),
    };
    anyhow!("{at}: {e}{hint}")
}
