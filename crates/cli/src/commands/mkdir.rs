//! `uext4 mkdir`.

use crate::location::InImage;
use crate::mode::{self, ModeChange};
use crate::system::paths;
use crate::{diagnostics, images, quoted};
use anyhow::{Result, bail};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use uext4::{Errno, FileKind, Filesystem, NewKind};

/// Make directories.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 mkdir -p disk.img:/srv/www
  uext4 mkdir -m 700 disk.img:/root disk.img:/secret")]
pub struct Args {
    /// Those above too; one that exists is not an error
    #[arg(short, long)]
    parents: bool,
    /// Permission bits, as chmod takes them
    #[arg(short, long, value_parser = ModeChange::parse, allow_hyphen_values = true)]
    mode: Option<ModeChange>,
    /// Name each directory that is made
    #[arg(short, long)]
    verbose: bool,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    let umask = mode::umask();
    images::change_each(args.paths.clone(), |fs, at| {
        if args.parents {
            for above in above(&at.path) {
                make_unless_there(&args, fs, at, &above)?;
            }
            if !make_unless_there(&args, fs, at, &at.path)? {
                return Ok(());
            }
        } else {
            make(&args, fs, at, &at.path)?;
        }
        if let Some(change) = &args.mode {
            // What is not named stays as the umask and the directory above made it.
            let made = fs.symlink_metadata(paths::bytes(&at.path))?.mode;
            let bits = change.apply(made, true, umask);
            fs.set_permissions(paths::bytes(&at.path), bits)?;
        }
        Ok(())
    })
}

/// The directories above a path, the uppermost first, without the root.
fn above(path: &Path) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1);
    let mut above: Vec<PathBuf> = above
        .filter(|path| path.parent().is_some())
        .map(Path::to_owned)
        .collect();
    above.reverse();
    above
}

/// Makes a directory; false if it was there.
fn make_unless_there(args: &Args, fs: &Filesystem, at: &InImage, path: &Path) -> Result<bool> {
    match fs.metadata(paths::bytes(path)) {
        Ok(found) if found.kind == FileKind::Directory => Ok(false),
        Ok(found) => {
            let (name, kind) = (at.beside(path), crate::show::kind(found.kind));
            bail!("{name}: is a {kind}, not a directory")
        }
        Err(e) if e == Errno::ENOENT => make(args, fs, at, path).map(|()| true),
        Err(e) => Err(e.into()),
    }
}

fn make(args: &Args, fs: &Filesystem, at: &InImage, path: &Path) -> Result<()> {
    let name = at.beside(path);
    let made = fs.mknod(paths::bytes(path), 0o777, NewKind::Directory);
    made.map_err(|e| diagnostics::creating(fs, &name, e))?;
    if args.verbose {
        let name = quoted::always(name.to_string());
        writeln!(std::io::stdout(), "mkdir: created directory {name}")?;
    }
    Ok(())
}
