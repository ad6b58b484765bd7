//! `uext4 touch`.

use crate::failure;
use crate::images::Images;
use crate::location::InImage;
use anyhow::Result;
use std::ffi::OsString;
use uext4::{OpenOptions, TimeSet, Timestamp};

/// Set the times of files to now or to --time, and make those that do not exist.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 touch --time 1767225600 disk.img:/etc/stamp")]
pub struct Args {
    /// Seconds since 1970
    #[arg(long, allow_negative_numbers = true)]
    time: Option<i64>,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    let mut images = Images::default();
    let time = match args.time {
        Some(sec) => TimeSet::At(Timestamp { sec, nsec: 0 }),
        None => TimeSet::Now,
    };
    for path in args.paths {
        let at = InImage::parse(path);
        let fail = |e| failure::in_image(&at, e);
        let fs = images.get(&at.image, true)?;
        if !fs.exists(&at.path).map_err(fail)? {
            OpenOptions::new()
                .write(true)
                .create(true)
                .open(&fs, &at.path)
                .map_err(fail)?;
        }
        fs.set_times(&at.path, Some(time), Some(time))
            .map_err(fail)?;
    }
    images.close()
}
