//! `uext4 cat`.

use crate::images;
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
    let mut out = std::io::stdout().lock();
    let mut buf = vec![0; 1 << 20];
    images::read_each(args.paths, |endpoint, at| {
        let file = endpoint.open(&at.path)?;
        let mut offset = 0;
        loop {
            let n = file.read_at(&mut buf, offset)?;
            if n == 0 {
                return Ok(out.flush()?);
            }
            out.write_all(&buf[..n])?;
            offset += n as u64;
        }
    })
}
