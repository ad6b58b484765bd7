//! `uext4 truncate`.

use crate::{images, size};
use anyhow::{Result, bail};
use std::ffi::OsString;
use uext4::OpenOptions;

/// Cut or grow files, and make those that do not exist.
///
/// A size after + or - is added to what there is or taken from it; after < or > it is the most or the least;
/// after / or % the size is rounded down or up to a multiple of it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: uext4 truncate -s 1G disk.img:/swapfile\n         uext4 truncate -s +64M disk.img:/swapfile"
)]
pub struct Args {
    /// Bytes, such as 1G, or a change, such as +1G
    #[arg(short, long, value_parser = change, allow_hyphen_values = true)]
    size: Change,
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
    let options = OpenOptions::new().write(true).create(true);
    images::change_each(args.paths, |fs, at| {
        let file = options.open(fs, &at.path)?;
        let size = file.metadata()?.size;
        let Some(size) = args.size.of(size) else {
            bail!("{at}: its {size} bytes can't be that many more");
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
