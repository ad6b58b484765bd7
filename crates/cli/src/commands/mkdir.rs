//! `uext4 mkdir`.

use crate::images;
use anyhow::Result;
use std::ffi::OsString;

/// Make directories.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 mkdir -p disk.img:/srv/www")]
pub struct Args {
    /// Those above too; one that exists is not an error
    #[arg(short)]
    parents: bool,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    images::change_each(args.paths, |fs, at| {
        let made = match args.parents {
            true => fs.create_dir_all(&at.path),
            false => fs.create_dir(&at.path),
        };
        Ok(made?)
    })
}
