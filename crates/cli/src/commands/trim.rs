//! `uext4 trim`.

use crate::{diagnostics, images, show, size};
use anyhow::Result;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Return the free space of an image to its host
///
/// A sparse file gets smaller, a device discards it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 trim disk.img")]
pub struct Args {
    /// Leave shorter runs of free space alone
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "0")]
    minimum: u64,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// The image
    image: PathBuf,
}

#[derive(Serialize)]
struct Json {
    image: String,
    bytes_trimmed: u64,
}

pub fn run(args: &Args) -> Result<()> {
    let fs = images::open(&args.image, true)?;
    let failed = |e| diagnostics::opening(&args.image, &e);
    let bytes = fs.trim(args.minimum).map_err(failed)?;
    fs.unmount().map_err(failed)?;
    if args.json {
        return show::json(&Json {
            image: args.image.display().to_string(),
            bytes_trimmed: bytes,
        });
    }
    let image = args.image.display();
    writeln!(std::io::stdout(), "{image}: {} trimmed", show::bytes(bytes))?;
    Ok(())
}
