//! `uext4 df`.

use crate::location::InImage;
use crate::size::Unit;
use crate::system::mounts;
use crate::{diagnostics, failures, images, show};
use anyhow::Result;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Show the free space of images, as df(1) does: in KiB.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
#[command(after_help = "Examples:
  uext4 df -h disk.img
  uext4 df -i *.img          inodes
  uext4 df --json disk.img | jq .[0].bytes_available")]
pub struct Args {
    /// Sizes such as 1.5K and 20M
    #[arg(short, long)]
    human_readable: bool,
    /// As -h, in powers of 1000
    #[arg(short = 'H', long)]
    si: bool,
    /// Inodes instead of space
    #[arg(short, long)]
    inodes: bool,
    /// The type of the file system too
    #[arg(short = 'T', long)]
    print_type: bool,
    /// In units of 1 KiB; so it is without another
    #[arg(short = 'k')]
    kibibytes: bool,
    /// In units of 1 MiB
    #[arg(short = 'm')]
    mebibytes: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// The images
    #[arg(required = true)]
    images: Vec<OsString>,
}

#[derive(Serialize)]
struct Json {
    image: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_bytes: Option<String>,
    block_size: u32,
    bytes: u64,
    bytes_used: u64,
    bytes_available: u64,
    inodes: u64,
    inodes_free: u64,
    /// Of one that is mounted here.
    #[serde(skip)]
    mounted_at: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<()> {
    let mut rows = Vec::new();
    for operand in &args.images {
        let image = InImage::parse(operand.clone()).image;
        match of(&image) {
            Ok(row) => rows.push(row),
            Err(e) => failures::report(e)?,
        }
    }
    if args.json {
        return show::json(&rows);
    }
    if rows.is_empty() {
        return Ok(());
    }
    Ok(std::io::stdout().write_all(table(args, &rows).as_bytes())?)
}

fn of(image: &Path) -> Result<Json> {
    let name = image.as_os_str().as_encoded_bytes();
    let row = |unit: u64, blocks: [u64; 3], inodes: [u64; 2], mounted_at| Json {
        image: image.display().to_string(),
        image_bytes: show::hex_unless_text(name),
        block_size: u32::try_from(unit).unwrap_or(u32::MAX),
        bytes: blocks[0] * unit,
        bytes_used: blocks[0].saturating_sub(blocks[1]) * unit,
        bytes_available: blocks[2] * unit,
        inodes: inodes[0],
        inodes_free: inodes[1],
        mounted_at,
    };
    if let Some(dir) = mounts::mounted_at(image)
        && let Some((unit, blocks, inodes)) = mounts::usage(&dir)
    {
        return Ok(row(unit, blocks, inodes, Some(dir)));
    }
    let fs = images::open(image, false)?;
    let s = fs.statfs().map_err(|e| diagnostics::opening(image, &e))?;
    let blocks = [s.blocks, s.blocks_free, s.blocks_available];
    Ok(row(
        s.block_size.into(),
        blocks,
        [s.inodes, s.inodes_free],
        None,
    ))
}

/// The table, with columns as wide as what they hold.
fn table(args: &Args, rows: &[Json]) -> String {
    let unit = match (args.human_readable, args.si, args.mebibytes) {
        (_, true, _) => Unit::Human(1000),
        (true, ..) => Unit::Human(1024),
        (.., true) => Unit::Bytes(1 << 20),
        _ => Unit::Bytes(1024),
    };
    let numbers = match (args.inodes, unit) {
        (true, _) => ["Inodes", "IUsed", "IFree", "IUse%"],
        (_, Unit::Human(_)) => ["Size", "Used", "Avail", "Use%"],
        (_, Unit::Bytes(1024)) => ["1K-blocks", "Used", "Available", "Use%"],
        (_, Unit::Bytes(_)) => ["1M-blocks", "Used", "Available", "Use%"],
    };
    let mut lines = vec![line(
        args,
        "Filesystem",
        "Type",
        numbers.map(str::to_owned),
        "Mounted on",
    )];
    for row in rows {
        let inodes_used = row.inodes.saturating_sub(row.inodes_free);
        let numbers = match (args.inodes, unit) {
            (true, Unit::Human(base)) => {
                [row.inodes, inodes_used, row.inodes_free].map(|n| Unit::Human(base).of(n))
            }
            (true, _) => [row.inodes, inodes_used, row.inodes_free].map(|n| n.to_string()),
            _ => [row.bytes, row.bytes_used, row.bytes_available].map(|n| unit.of(n)),
        };
        let share = match args.inodes {
            true => percent(inodes_used, row.inodes_free),
            false => percent(row.bytes_used, row.bytes_available),
        };
        let [all, used, free] = numbers;
        let dir = row
            .mounted_at
            .as_deref()
            .map_or_else(|| "-".to_owned(), show::image);
        let image = show::image(Path::new(&row.image));
        lines.push(line(args, &image, "ext4", [all, used, free, share], &dir));
    }
    let least = [14, 0, 5, 5, 5, 4, 0];
    let width = |column: usize| {
        let widest = lines.iter().map(|line| line[column].chars().count()).max();
        widest.unwrap_or(0).max(least[column])
    };
    let widths: Vec<usize> = (0..least.len()).map(width).collect();
    let mut text = String::new();
    for cells in &lines {
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            match column {
                0 => text += &format!("{cell:<width$}"),
                1 if args.print_type => text += &format!(" {cell:<width$}"),
                1 => {}
                6 => text += &format!(" {cell}\n"),
                _ => text += &format!(" {cell:>width$}"),
            }
        }
    }
    text
}

fn line(args: &Args, image: &str, kind: &str, numbers: [String; 4], dir: &str) -> [String; 7] {
    let kind = if args.print_type { kind } else { "" };
    let [all, used, free, share] = numbers;
    [
        image.to_owned(),
        kind.to_owned(),
        all,
        used,
        free,
        share,
        dir.to_owned(),
    ]
}

/// How much is used of what may be used, rounded up.
fn percent(used: u64, free: u64) -> String {
    match used.saturating_add(free) {
        0 => "-".to_owned(),
        all => format!("{}%", (u128::from(used) * 100).div_ceil(all.into())),
    }
}
