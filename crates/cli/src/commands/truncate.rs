//! `uext4 truncate`.

use super::reference;
use crate::system::paths;
use crate::{diagnostics, images, size};
use anyhow::{Result, bail};
use std::ffi::OsString;
use uext4::{Errno, OpenOptions};

/// Cut or grow files, and make those that do not exist
///
/// A size after + or - is added to what there is or taken from it; after < or > it is the most or the least;
/// after / or % the size is rounded down or up to a multiple of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 truncate -s 1G disk.img:/swapfile
  uext4 truncate -s +64M disk.img:/swapfile
  uext4 truncate -c -s 0 'disk.img:/var/log/*.log'")]
pub struct Args {
    /// Bytes, such as 1G, or a change, such as +1G
    #[arg(short, long, value_parser = change, allow_hyphen_values = true, required_unless_present = "reference")]
    size: Option<Change>,
    /// The size of this file, to which --size then is a change
    #[arg(short, long, value_name = "FILE")]
    reference: Option<OsString>,
    /// Make no files
    #[arg(short = 'c', long)]
    no_create: bool,
    /// --size is in blocks of the file system, not in bytes
    #[arg(short = 'o', long)]
    io_blocks: bool,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

/// What the size becomes; numbers of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    To(u64),
    By(u64),
    Less(u64),
    AtMost(u64),
    AtLeast(u64),
    RoundedDown(u64),
    RoundedUp(u64),
}

fn change(text: &str) -> Result<Change, String> {
    let change = match text.as_bytes().first() {
        Some(b'+') => Change::By,
        Some(b'-') => Change::Less,
        Some(b'<') => Change::AtMost,
        Some(b'>') => Change::AtLeast,
        Some(b'/') => Change::RoundedDown,
        Some(b'%') => Change::RoundedUp,
        _ => return size::parse(text).map(Change::To),
    };
    let bytes = &text[1..];
    // A number may have a sign of its own.
    if !bytes.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("`{text}` is not a change of a size, such as +64M"));
    }
    match change(size::parse(bytes)?) {
        Change::RoundedDown(0) | Change::RoundedUp(0) => {
            Err("a multiple of 0 is not a size".to_owned())
        }
        change => Ok(change),
    }
}

impl Change {
    /// The same in units of `unit` bytes.
    fn times(self, unit: u64) -> Option<Change> {
        let times = |n: u64| n.checked_mul(unit);
        Some(match self {
            Change::To(n) => Change::To(times(n)?),
            Change::By(n) => Change::By(times(n)?),
            Change::Less(n) => Change::Less(times(n)?),
            Change::AtMost(n) => Change::AtMost(times(n)?),
            Change::AtLeast(n) => Change::AtLeast(times(n)?),
            Change::RoundedDown(n) => Change::RoundedDown(times(n)?),
            Change::RoundedUp(n) => Change::RoundedUp(times(n)?),
        })
    }

    /// The size after it; `None` if that is more than any size.
    fn of(self, size: u64) -> Option<u64> {
        Some(match self {
            Change::To(bytes) => bytes,
            Change::By(bytes) => size.checked_add(bytes)?,
            Change::Less(bytes) => size.saturating_sub(bytes),
            Change::AtMost(bytes) => size.min(bytes),
            Change::AtLeast(bytes) => size.max(bytes),
            Change::RoundedDown(bytes) => size - size % bytes,
            Change::RoundedUp(bytes) => size.checked_next_multiple_of(bytes)?,
        })
    }
}

pub fn run(args: Args) -> Result<()> {
    let base = match args.reference.clone() {
        Some(file) => Some(reference::attr(file)?.size),
        None => None,
    };
    if base.is_some() && matches!(args.size, Some(Change::To(_))) {
        bail!(diagnostics::Usage(
            "truncate: with --reference, --size is a change, such as +64M".to_owned()
        ));
    }
    let create = !args.no_create;
    let options = OpenOptions::new().write(true).create(create).mode(0o666);
    images::change_each(args.paths, |fs, at| {
        let file = match options.open(fs, paths::bytes(&at.path)) {
            Ok(file) => file,
            Err(e) if e == Errno::ENOENT && args.no_create => return Ok(()),
            Err(e) => return Err(diagnostics::creating(fs, at, e)),
        };
        let found = file.metadata()?;
        let unit = if args.io_blocks {
            u64::from(found.block_size)
        } else {
            1
        };
        let before = base.unwrap_or(found.size);
        let size = match args.size {
            Some(change) => change.times(unit).and_then(|change| change.of(before)),
            None => Some(before),
        };
        let Some(size) = size else {
            bail!("{at}: its {before} bytes can't be that many more");
        };
        Ok(file.set_len(size)?)
    })
}

#[cfg(test)]
mod tests {
    use super::{Change, change};

    #[test]
    fn changes_are_read_as_truncate_reads_them() {
        assert_eq!(change("4K"), Ok(Change::To(4096)));
        assert_eq!(change("+1M").unwrap().of(3), Some((1 << 20) + 3));
        assert_eq!(change("-10").unwrap().of(3), Some(0));
        assert_eq!(change("<10").unwrap().of(30), Some(10));
        assert_eq!(change(">10").unwrap().of(3), Some(10));
        assert_eq!(change("/10").unwrap().of(39), Some(30));
        assert_eq!(change("%10").unwrap().of(31), Some(40));
        assert_eq!(change("+1").unwrap().of(u64::MAX), None);
        for wrong in ["", "+", "++1", "-+1", "/0", "%0K", "<"] {
            assert!(change(wrong).is_err(), "{wrong}");
        }
    }
}
