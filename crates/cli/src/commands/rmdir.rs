//! `uext4 rmdir`.

use crate::location::InImage;
use crate::system::paths;
use crate::{images, quoted};
use anyhow::{Result, bail};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use uext4::{Errno, Filesystem};

/// Remove empty directories.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 rmdir disk.img:/mnt
  uext4 rmdir -p disk.img:/srv/www/old")]
pub struct Args {
    /// Then those above it too, as far as they are empty
    #[arg(short, long)]
    parents: bool,
    /// One that is not empty stays, which is not an error
    #[arg(long)]
    ignore_fail_on_non_empty: bool,
    /// Name each directory that is removed
    #[arg(short, long)]
    verbose: bool,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    images::change_each(args.paths.clone(), |fs, at| {
        if at.path.parent().is_none() {
            bail!("{at}: the root can't be removed");
        }
        let count = if args.parents { usize::MAX } else { 1 };
        for path in at.path.ancestors().take(count) {
            // The root stays.
            if path.parent().is_some() && !remove(&args, fs, at, path)? {
                break;
            }
        }
        Ok(())
    })
}

/// Removes a directory; false if it stays, and may.
fn remove(args: &Args, fs: &Filesystem, at: &InImage, path: &Path) -> Result<bool> {
    let name = at.beside(path);
    if args.verbose {
        let name = quoted::always(name.to_string());
        writeln!(std::io::stdout(), "rmdir: removing directory, {name}")?;
    }
    match fs.remove_dir(paths::bytes(path)) {
        Ok(()) => Ok(true),
        Err(e) if e == Errno::ENOTEMPTY && args.ignore_fail_on_non_empty => Ok(false),
        Err(e) if e == Errno::ENOTEMPTY => {
            bail!(
                "{name}: {e}; `uext4 rm -r {}` removes it with all in it",
                quoted::quoted(name.to_string())
            )
        }
        Err(e) => Err(crate::diagnostics::changing(fs, &name, e)),
    }
}
