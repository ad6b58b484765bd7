//! `uext4 touch`.

use super::reference;
use crate::system::paths;
use crate::{diagnostics, images, timestamp};
use anyhow::Result;
use std::ffi::OsString;
use uext4::unstable::SetAttr;
use uext4::{Errno, OpenOptions, TimeSet, Timestamp};

/// Set the times of files, and make those that do not exist
///
/// To now, unless a time is given. A time without a zone is in UTC.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  uext4 touch disk.img:/etc/.pwd.lock
  uext4 touch -d '2026-01-31 23:59' disk.img:/etc/stamp
  uext4 touch -c -r rootfs/etc/hosts disk.img:/etc/hosts"
)]
pub struct Args {
    /// Only the time of the last access
    #[arg(short)]
    access: bool,
    /// Only the time of the last change
    #[arg(short)]
    modification: bool,
    /// Make no files
    #[arg(short = 'c', long)]
    no_create: bool,
    /// Of a symbolic link the link itself, not what it leads to
    #[arg(short = 'h', long)]
    no_dereference: bool,
    /// This time: 2026-01-31 23:59:59, @SECONDS, yesterday, 2 days ago
    #[arg(short, long, value_parser = timestamp::parse, allow_hyphen_values = true, value_name = "TIME")]
    date: Option<Timestamp>,
    /// This time, as [[CC]YY]MMDDhhmm[.ss]
    #[arg(short = 't', value_parser = timestamp::parse_stamp, value_name = "STAMP", conflicts_with_all = ["date", "time"])]
    stamp: Option<Timestamp>,
    /// The times that this file has: IMAGE:/path, or a path of the host
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["date", "stamp", "time"])]
    reference: Option<OsString>,
    /// Seconds since 1970; or which time is set: atime, access, use, mtime, modify
    #[arg(long, allow_hyphen_values = true, value_parser = which)]
    time: Option<Which>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

/// What `--time` says.
#[derive(Clone, Copy, Debug)]
enum Which {
    At(Timestamp),
    Access,
    Modification,
}

fn which(text: &str) -> Result<Which, String> {
    match text {
        "atime" | "access" | "use" => Ok(Which::Access),
        "mtime" | "modify" => Ok(Which::Modification),
        seconds => match seconds.parse() {
            Ok(sec) => Ok(Which::At(Timestamp { sec, nsec: 0 })),
            Err(_) => Err(format!(
                "`{seconds}` is neither a number of seconds nor atime or mtime"
            )),
        },
    }
}

pub fn run(args: Args) -> Result<()> {
    let times = times(&args)?;
    let options = OpenOptions::new().write(true).create(true).mode(0o666);
    images::change_each(args.paths.clone(), |fs, at| {
        let follow = !args.no_dereference;
        let there = match follow {
            true => fs.metadata(paths::bytes(&at.path)),
            false => fs.symlink_metadata(paths::bytes(&at.path)),
        };
        match there {
            Err(e) if e == Errno::ENOENT && args.no_create => return Ok(()),
            // A link itself is not made.
            Err(e) if e == Errno::ENOENT && follow => {
                let made = options.open(fs, paths::bytes(&at.path));
                made.map_err(|e| diagnostics::creating(fs, at, e))?;
            }
            Err(e) => return Err(e.into()),
            Ok(_) => {}
        }
        match follow {
            true => Ok(fs.set_times(paths::bytes(&at.path), times.atime, times.mtime)?),
            false => Ok(fs.set_attr(paths::bytes(&at.path), &times)?),
        }
    })
}

/// The times to set.
fn times(args: &Args) -> Result<SetAttr> {
    let (mut atime, mut mtime) = (Some(TimeSet::Now), Some(TimeSet::Now));
    if let Some(file) = args.reference.clone() {
        let attr = reference::attr(file)?;
        (atime, mtime) = (Some(TimeSet::At(attr.atime)), Some(TimeSet::At(attr.mtime)));
    }
    let (mut access, mut modification) = (args.access, args.modification);
    let given = match args.time {
        Some(Which::At(time)) => Some(time),
        Some(Which::Access) => {
            access = true;
            None
        }
        Some(Which::Modification) => {
            modification = true;
            None
        }
        None => None,
    };
    if let Some(time) = args.date.or(args.stamp).or(given) {
        (atime, mtime) = (Some(TimeSet::At(time)), Some(TimeSet::At(time)));
    }
    // Both, unless one is named.
    let both = access == modification;
    Ok(SetAttr {
        atime: atime.filter(|_| both || access),
        mtime: mtime.filter(|_| both || modification),
        ..SetAttr::default()
    })
}
