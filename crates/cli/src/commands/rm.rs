//! `uext4 rm`.

use crate::images;
use anyhow::{Result, bail};
use std::ffi::OsString;
use uext4::{Errno, FileKind};

/// Remove files, and with -r directories.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 rm -r disk.img:/var/cache")]
pub struct Args {
    /// Directories and all in them too
    #[arg(short, visible_short_alias = 'R')]
    recursive: bool,
    /// What does not exist is not an error
    #[arg(short)]
    force: bool,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    images::change_each(args.paths, |fs, at| {
        if at.path.file_name().is_none() {
            bail!("{at}: the root can't be removed; name what is in it");
        }
        let attr = match fs.symlink_metadata(&at.path) {
            Ok(attr) => attr,
            Err(e) if e == Errno::ENOENT && args.force => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        let removed = match attr.kind {
            FileKind::Directory if args.recursive => fs.remove_dir_all(&at.path),
            FileKind::Directory => bail!("{at}: is a directory; -r removes it with all in it"),
            _ => fs.remove_file(&at.path),
        };
        Ok(removed?)
    })
}
