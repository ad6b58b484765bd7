//! `uext4 mkdir`.

use crate::failure;
use crate::images::Images;
use crate::location::InImage;
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
    let mut images = Images::default();
    for path in args.paths {
        let at = InImage::parse(path);
        let fs = images.get(&at.image, true)?;
        let made = if args.parents {
            fs.create_dir_all(&at.path)
        } else {
            fs.create_dir(&at.path)
        };
        made.map_err(|e| failure::in_image(&at, e))?;
    }
    images.close()
}
