//! `uext4 undo`.

use crate::{device, diagnostics};
use anyhow::Result;
use std::path::PathBuf;
use uext4::DeviceOptions;

/// Put back what a repair has replaced
///
/// `uext4 check --repair --undo FILE` keeps in FILE what the image held before.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    uext4 check -y --undo disk.undo disk.img\n  \
    uext4 undo disk.undo disk.img")]
pub struct Args {
    /// The file that `check --undo` has written
    #[arg(value_name = "FILE")]
    undo: PathBuf,
    /// The image
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    let device = device::open(&args.image, &DeviceOptions::read_write())
        .map_err(|e| diagnostics::device(&args.image, e))?;
    uext4::unstable::undo_repair(&*device, &args.undo)?;
    Ok(())
}
