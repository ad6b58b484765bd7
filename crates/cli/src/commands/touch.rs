//! `uext4 touch`.

use crate::images;
use anyhow::Result;
use std::ffi::OsString;
use uext4::{OpenOptions, TimeSet, Timestamp};

/// Set the times of files, and make those that do not exist
///
/// To now, unless a time is given.
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
    let time = match args.time {
        Some(sec) => TimeSet::At(Timestamp { sec, nsec: 0 }),
        None => TimeSet::Now,
    };
    let options = OpenOptions::new().write(true).create(true);
    images::change_each(args.paths, |fs, at| {
        if !fs.exists(&at.path)? {
            options.open(fs, &at.path)?;
        }
        Ok(fs.set_times(&at.path, Some(time), Some(time))?)
    })
}
