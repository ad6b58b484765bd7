//! `uext4 chmod`.

use super::walk::walk;
use crate::{images, interrupt};
use anyhow::Result;
use std::ffi::OsString;
use uext4::FileKind;

/// Set permission bits.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 chmod 4755 disk.img:/bin/su")]
pub struct Args {
    /// All below directories too
    #[arg(short = 'R')]
    recursive: bool,
    /// The bits, in octal
    #[arg(value_parser = mode)]
    mode: u16,
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

fn mode(text: &str) -> Result<u16, String> {
    match u16::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o7777 => Ok(mode),
        _ => Err("give the bits in octal, 0 to 7777".to_owned()),
    }
}

pub fn run(args: Args) -> Result<()> {
    interrupt::catch()?;
    images::each(args.paths, true, |fs, at| {
        if !args.recursive {
            return Ok(fs.set_permissions(&at.path, args.mode)?);
        }
        walk(fs, at, |met| match met.attr.kind {
            FileKind::Symlink => Ok(()),
            _ => Ok(fs.set_permissions(&met.path, args.mode)?),
        })
    })
}
