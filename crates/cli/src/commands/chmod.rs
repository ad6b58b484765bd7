//! `uext4 chmod`.

use super::walk::{Next, walk};
use crate::endpoint::Image;
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
    images::change_each(args.paths, |fs, at| {
        if !args.recursive {
            return Ok(fs.set_permissions(&at.path, args.mode)?);
        }
        let endpoint = Image::new(1, at.image.clone(), fs.clone());
        walk(&endpoint, &at.path, true, |met| {
            if met.attr.kind != FileKind::Symlink {
                fs.set_permissions(&met.path, args.mode)
                    .map_err(|e| endpoint.fail(&met.path, e))?;
            }
            Ok(Next::Descend)
        })
    })
}
