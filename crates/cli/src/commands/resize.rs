//! `uext4 resize`: a pointer, as this version can't.

use crate::quoted;
use anyhow::{Result, bail};
use std::path::PathBuf;

/// Grow or shrink an image, which resize2fs does
#[derive(Debug, clap::Args)]
#[command(
    aliases = ["grow", "shrink", "resize2fs"],
    after_help = "Example: truncate -s 4G disk.img && e2fsck -f disk.img && resize2fs disk.img"
)]
pub struct Args {
    /// The image
    image: PathBuf,
    /// The new size
    size: Option<String>,
    /// As small as it can be
    #[arg(short = 'M', long)]
    minimum: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let name = quoted::path(&args.image);
    let size = match (&args.size, args.minimum) {
        (Some(size), _) => format!(" {size}"),
        (None, true) => " -M".to_owned(),
        (None, false) => String::new(),
    };
    bail!(
        "{}: this version can't resize; `e2fsck -f {name} && resize2fs {name}{size}` does it, after \
         `truncate -s SIZE {name}` where a file is to grow",
        args.image.display()
    )
}
