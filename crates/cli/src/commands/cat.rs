//! `uext4 cat`.

use crate::failure;
use crate::images::Images;
use crate::location::InImage;
use anyhow::Result;
use std::ffi::OsString;
use std::io::Write;

/// Write files to standard output.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 cat disk.img:/etc/passwd")]
pub struct Args {
    /// IMAGE:/path
    #[arg(required = true)]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    let mut images = Images::default();
    let mut out = std::io::stdout().lock();
    let mut buf = vec![0; 1 << 20];
    for path in args.paths {
        let at = InImage::parse(path);
        let fail = |e| failure::in_image(&at, e);
        let file = images
            .get(&at.image, false)?
            .open_file(&at.path)
            .map_err(fail)?;
        let mut offset = 0;
        loop {
            let n = file.read_at(&mut buf, offset).map_err(fail)?;
            if n == 0 {
                break;
            }
            out.write_all(&buf[..n])?;
            offset += n as u64;
        }
    }
    out.flush()?;
    images.close()
}
