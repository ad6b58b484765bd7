//! `uext4 chmod`.

use super::walk::walk;
use crate::images::Images;
use crate::location::InImage;
use crate::{failure, interrupt};
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
    let mut images = Images::default();
    for path in args.paths {
        let at = InImage::parse(path);
        let fs = images.get(&at.image, true)?;
        let set = |path: &std::path::Path| {
            fs.set_permissions(path, args.mode)
                .map_err(|e| failure::in_image(&at, e))
        };
        if !args.recursive {
            set(&at.path)?;
            continue;
        }
        walk(&fs, &at, |met| match met.attr.kind {
            FileKind::Symlink => Ok(()),
            _ => set(&met.path),
        })?;
    }
    images.close()
}
