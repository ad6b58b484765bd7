//! `uext4 ln`.

use crate::diagnostics;
use crate::images::Images;
use crate::location::{InImage, Location};
use anyhow::{Result, bail};
use std::ffi::OsString;
use std::path::PathBuf;
use uext4::FileKind;

/// Give a file another name, or make a symbolic link.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 ln -s ../usr/bin disk.img:/bin")]
pub struct Args {
    /// Make a symbolic link, which holds TARGET unchanged
    #[arg(short)]
    symbolic: bool,
    /// The file: IMAGE:/path, or a path in the image of LINK
    target: OsString,
    /// The new name: IMAGE:/path
    link: OsString,
}

pub fn run(args: Args) -> Result<()> {
    let mut link = InImage::parse(args.link);
    let target = if args.symbolic {
        PathBuf::from(args.target)
    } else {
        match Location::parse(args.target) {
            Location::Image(at) if at.image != link.image => {
                bail!(
                    "{at}: is not in {}; only a symbolic link could lead there",
                    link.image.display()
                )
            }
            Location::Image(at) => at.path,
            Location::Host(path) => path,
        }
    };
    let mut images = Images::default();
    let image = images.get(&link.image, true)?;
    let fs = image.fs();
    if fs
        .metadata(&link.path)
        .is_ok_and(|a| a.kind == FileKind::Directory)
        && let Some(name) = target.file_name()
    {
        link.path.push(name);
    }
    let made = if args.symbolic {
        fs.symlink(&target, &link.path)
    } else {
        fs.hard_link(&target, &link.path)
    };
    made.map_err(|e| diagnostics::in_image(&link, e))?;
    images.close()
}
