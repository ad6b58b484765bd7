//! `uext4 mknod` and `uext4 mkfifo`.

use crate::mode::{self, ModeChange};
use crate::system::paths;
use crate::{diagnostics, images};
use anyhow::{Result, bail};
use clap::ValueEnum;
use std::ffi::OsString;
use uext4::{FileKind, NewKind};

/// The largest numbers of a device, as Linux has them.
const MAJOR_MAX: u32 = (1 << 12) - 1;
const MINOR_MAX: u32 = (1 << 20) - 1;

/// Make a device, a pipe or a socket.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 mknod -m 666 disk.img:/dev/null c 1 3
  uext4 mknod disk.img:/dev/sda b 8 0
  uext4 mknod disk.img:/run/initctl p")]
pub struct Args {
    /// Permission bits, as chmod takes them
    #[arg(short, long, value_parser = ModeChange::parse, allow_hyphen_values = true)]
    mode: Option<ModeChange>,
    /// IMAGE:/path
    path: OsString,
    /// What it is
    #[arg(value_name = "TYPE")]
    kind: Kind,
    /// The major number of a device
    #[arg(value_parser = number)]
    major: Option<u32>,
    /// Its minor number
    #[arg(value_parser = number)]
    minor: Option<u32>,
}

/// Make pipes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 mkfifo disk.img:/run/initctl
  uext4 mkfifo -m 600 disk.img:/run/log disk.img:/run/control")]
pub struct FifoArgs {
    /// Permission bits, as chmod takes them
    #[arg(short, long, value_parser = ModeChange::parse, allow_hyphen_values = true)]
    mode: Option<ModeChange>,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

/// What mknod makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A block device
    #[value(name = "b")]
    Block,
    /// A character device
    #[value(name = "c", alias = "u")]
    Char,
    /// A pipe
    #[value(name = "p")]
    Fifo,
    /// A socket
    #[value(name = "s")]
    Socket,
}

/// A device number in decimal, octal (010) or hexadecimal (0x10).
fn number(text: &str) -> Result<u32, String> {
    let parsed = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(hex), _) => u32::from_str_radix(hex, 16),
        (None, Some(octal)) if !octal.is_empty() => u32::from_str_radix(octal, 8),
        _ => text.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is not the number of a device"))
}

pub fn run(args: Args) -> Result<()> {
    let usage = |text: &str| bail!(diagnostics::Usage(format!("mknod: {text}")));
    let device = |kind| match (args.major, args.minor) {
        (Some(major), Some(minor)) if major > MAJOR_MAX || minor > MINOR_MAX => {
            usage("the largest numbers of a device are 4095 and 1048575")
        }
        (Some(major), Some(minor)) => Ok(NewKind::Device { kind, major, minor }),
        _ => usage("a device has a major and a minor number, as in `c 1 3`"),
    };
    let kind = match args.kind {
        Kind::Block => device(FileKind::BlockDevice)?,
        Kind::Char => device(FileKind::CharDevice)?,
        _ if args.major.is_some() => return usage("only devices have numbers").map(drop),
        Kind::Fifo => NewKind::Fifo,
        Kind::Socket => NewKind::Socket,
    };
    make(vec![args.path], kind, args.mode.as_ref())
}

pub fn run_fifo(args: FifoArgs) -> Result<()> {
    make(args.paths, NewKind::Fifo, args.mode.as_ref())
}

fn make(paths: Vec<OsString>, kind: NewKind<'_>, change: Option<&ModeChange>) -> Result<()> {
    let umask = mode::umask();
    images::change_each(paths, |fs, at| {
        let made = fs.mknod(paths::bytes(&at.path), 0o666, kind);
        made.map_err(|e| diagnostics::creating(fs, at, e))?;
        match change {
            Some(change) => Ok(fs.set_permissions(
                paths::bytes(&at.path),
                change.apply(0o666, false, umask) & 0o777,
            )?),
            None => Ok(()),
        }
    })
}
