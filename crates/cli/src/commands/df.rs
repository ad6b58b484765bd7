//! `uext4 df`.

use crate::{diagnostics, images, show};
use anyhow::Result;
use comfy_table::{Table, presets};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Show the free space of images.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 df disk.img")]
pub struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// The images
    #[arg(required = true)]
    images: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Json {
    image: String,
    block_size: u32,
    bytes: u64,
    bytes_used: u64,
    bytes_available: u64,
    inodes: u64,
    inodes_free: u64,
}

pub fn run(args: &Args) -> Result<()> {
    let mut rows = Vec::new();
    for image in &args.images {
        let fs = images::open(image, false)?;
        let s = fs.statfs().map_err(|e| diagnostics::opening(image, &e))?;
        let unit = u64::from(s.block_size);
        rows.push(Json {
            image: image.display().to_string(),
            block_size: s.block_size,
            bytes: s.blocks * unit,
            bytes_used: s.blocks.saturating_sub(s.blocks_free) * unit,
            bytes_available: s.blocks_available * unit,
            inodes: s.inodes,
            inodes_free: s.inodes_free,
        });
    }
    if args.json {
        return show::json(&rows);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "image",
        "size",
        "used",
        "available",
        "inodes",
        "free inodes",
    ]);
    for row in &rows {
        table.add_row([
            show::image(Path::new(&row.image)),
            show::bytes(row.bytes),
            show::bytes(row.bytes_used),
            show::bytes(row.bytes_available),
            row.inodes.to_string(),
            row.inodes_free.to_string(),
        ]);
    }
    writeln!(std::io::stdout(), "{table}")?;
    Ok(())
}
