//! `uext4 trim`.

use crate::bar::Bar;
use crate::{diagnostics, failures, images, interrupt, show, size};
use anyhow::Result;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use uext4::Filesystem;
use uext4::unstable::ondisk::GroupNo;

/// Parts that the groups of an image are divided into, for the progress.
const PARTS: u32 = 256;

/// Return the free space of images to their host
///
/// A sparse file gets smaller, a device discards it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    uext4 trim disk.img\n  \
    uext4 trim --minimum 1M *.img   leaves short runs alone, which is faster")]
pub struct Args {
    /// Leave shorter runs of free space alone
    #[arg(long, short, value_name = "SIZE", value_parser = size::parse, default_value = "0")]
    minimum: u64,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Print nothing, and no progress
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// Say how much it was, as always
    #[arg(short = 'v', hide = true)]
    verbose: bool,
    /// The images
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Json {
    image: String,
    bytes_trimmed: u64,
}

pub fn run(args: &Args) -> Result<()> {
    interrupt::catch()?;
    let mut documents = Vec::new();
    for image in &args.images {
        let bytes = match trim(args, image) {
            Ok(bytes) => bytes,
            Err(e) => {
                failures::report(e)?;
                continue;
            }
        };
        if args.json {
            documents.push(Json {
                image: image.display().to_string(),
                bytes_trimmed: bytes,
            });
        } else if !args.quiet {
            let name = show::image(image);
            writeln!(std::io::stdout(), "{name}: {} trimmed", show::bytes(bytes))?;
        }
    }
    match args.json {
        true => show::json_of(&args.images, documents),
        false => Ok(()),
    }
}

fn trim(args: &Args, image: &Path) -> Result<u64> {
    let fs = images::open(image, true)?;
    let bar = Bar::unless(args.quiet || args.json);
    let trimmed = trim_parts(&fs, args.minimum, &bar);
    drop(bar);
    let failed = |e| diagnostics::opening(image, &e);
    let closed = fs.unmount().map_err(failed);
    let bytes = trimmed.map_err(failed)?;
    closed?;
    interrupt::check()?;
    Ok(bytes)
}

/// Trims some groups after the others, until a signal comes.
fn trim_parts(fs: &Filesystem, least: u64, bar: &Bar) -> uext4::Result<u64> {
    let (volume, blocks) = (&fs.engine().volume, &fs.engine().blocks);
    let geometry = volume.geometry();
    let unit = u64::from(geometry.block_size);
    let groups = geometry.groups_count.div_ceil(PARTS).max(1);
    let len = u64::from(groups) * u64::from(geometry.blocks_per_group) * unit;
    uext4::Progress::phase(bar, "trim", geometry.groups_count.into());
    let mut bytes = 0;
    for first in (0..geometry.groups_count).step_by(groups as usize) {
        let start = geometry.group_first_block(GroupNo(first)).0 * unit;
        bytes += volume.report(blocks.trim(start, len, least))?;
        uext4::Progress::advance(bar, groups.into());
        if uext4::Progress::is_cancelled(bar) {
            break;
        }
    }
    Ok(bytes)
}
