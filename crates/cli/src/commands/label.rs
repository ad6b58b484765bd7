//! `uext4 label`.

use crate::{device, diagnostics, failures, quoted, show, superblock};
use anyhow::{Result, bail};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use uext4::DeviceOptions;
use uext4_mountd::second_mount;

/// Show the label of an image, as e2label does
///
/// It is given when the image is made; this version can't change it.
#[derive(Debug, clap::Args)]
#[command(
    alias = "e2label",
    after_help = "Examples:\n  \
    uext4 label disk.img\n  \
    uext4 mkfs disk.img 1G --label data   makes one with a label"
)]
pub struct Args {
    /// The image
    image: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// A new label, which e2label can set
    #[arg(hide = true)]
    label: Option<String>,
}

/// A label as JSON has it.
#[derive(Serialize)]
struct Json {
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_bytes: Option<String>,
}

pub fn run(args: &Args) -> Result<()> {
    let name = quoted::path(&args.image);
    if let Some(label) = &args.label {
        let label = quoted::quoted(label);
        let device = device::name_for_e2fsprogs(&args.image);
        if let Some(dir) = second_mount::mounted_at(&args.image) {
            bail!(
                "{}: is mounted on {}; after `uext4 umount {name}`, `e2label {device} {label}` changes its label",
                args.image.display(),
                dir.display()
            );
        }
        bail!(
            "{}: its label can't be changed here; `e2label {device} {label}` does it",
            args.image.display()
        );
    }
    let shown = show_label(&args.image, args.json);
    shown.or_else(failures::report)
}

fn show_label(image: &Path, as_json: bool) -> Result<()> {
    let options = DeviceOptions::read_only().exclusive(false);
    let device = superblock::open(image, &options)
        .map_err(|e| diagnostics::opening_device(image, e))?
        .device;
    let sb = uext4::unstable::read_superblock(&*device)
        .map_err(|e| diagnostics::opening(image, &e.of_mount()))?;
    let name = sb.raw.volume_name;
    let label = name.split(|b| *b == 0).next().unwrap_or_default();
    if as_json {
        return show::json(&Json {
            label: String::from_utf8_lossy(label).into_owned(),
            label_bytes: show::hex_unless_text(label),
        });
    }
    let mut out = std::io::stdout().lock();
    out.write_all(&show::name(label))?;
    writeln!(out)?;
    Ok(())
}
