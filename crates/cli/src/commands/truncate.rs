//! `uext4 truncate`.

use crate::images::Images;
use crate::location::InImage;
use crate::{failure, size};
use anyhow::Result;
use std::ffi::OsString;
use uext4::FileOptions;

/// Cut or grow files, and make those that do not exist.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 truncate -s 1G disk.img:/swapfile")]
pub struct Args {
    /// Bytes, such as 1G
    #[arg(short, long, value_parser = size::parse)]
    size: u64,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    let mut images = Images::default();
    for path in args.paths {
        let at = InImage::parse(path);
        let fs = images.get(&at.image, true)?;
        let file = FileOptions::new()
            .write(true)
            .create(true)
            .open(&fs, &at.path);
        let cut = file.and_then(|file| file.set_len(args.size));
        cut.map_err(|e| failure::in_image(&at, e))?;
    }
    images.close()
}
