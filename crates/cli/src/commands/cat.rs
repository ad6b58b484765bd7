//! `uext4 cat`.

use crate::images::Images;
use crate::location::InImage;
use crate::{expand, failures, interrupt};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};

/// Write files to standard output, one after the other.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  uext4 cat disk.img:/etc/passwd
  uext4 cat 'disk.img:/var/log/*.log' | grep error
  echo header | uext4 cat - disk.img:/etc/fstab")]
pub struct Args {
    /// Accepted for cat(1): nothing is kept back
    #[arg(short)]
    unbuffered: bool,
    /// IMAGE:/path, or - for standard input
    #[arg(required = true)]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut buf = vec![0; 1 << 20];
    let mut images = Images::default();
    for path in args.paths {
        let done = match path == "-" {
            true => copy_input(&mut buf, &mut out),
            false => copy(&mut images, path, &mut buf, &mut out),
        };
        done.or_else(failures::report)?;
    }
    images.close()
}

fn copy_input(buf: &mut [u8], out: &mut impl Write) -> Result<()> {
    let mut input = std::io::stdin().lock();
    loop {
        interrupt::check()?;
        match input.read(buf) {
            Ok(0) => return Ok(out.flush()?),
            Ok(n) => out.write_all(&buf[..n])?,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e).context("standard input"),
        }
    }
}

fn copy(images: &mut Images, path: OsString, buf: &mut [u8], out: &mut impl Write) -> Result<()> {
    let at = InImage::parse(path);
    let endpoint = images.source(&at.image)?;
    for at in expand::expand(&*endpoint, &at)? {
        let mut copy_one = || {
            let file = endpoint.open(&at.path)?;
            let mut offset = 0;
            loop {
                let n = file.read_at(buf, offset)?;
                if n == 0 {
                    return Ok(out.flush()?);
                }
                out.write_all(&buf[..n])?;
                offset += n as u64;
            }
        };
        copy_one().or_else(failures::report)?;
    }
    Ok(())
}
