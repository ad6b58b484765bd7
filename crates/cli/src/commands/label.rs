//! `uext4 label`.

use super::tune;
use crate::{diagnostics, failures, show, superblock};
use anyhow::Result;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use uext4::unstable::Tuning;
use uext4::{CheckOptions, DeviceOptions};

/// Show or change the label of an image, as e2label does
#[derive(Debug, clap::Args)]
#[command(
    alias = "e2label",
    after_help = "Examples:\n  \
    uext4 label disk.img         shows it\n  \
    uext4 label disk.img data    changes it; `uext4 tune` changes more"
)]
pub struct Args {
    /// The image
    image: PathBuf,
    /// The new label, at most 16 bytes
    label: Option<String>,
    /// As JSON
    #[arg(long, conflicts_with = "label")]
    json: bool,
}

/// A label as JSON has it.
#[derive(Serialize)]
struct Json {
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_bytes: Option<String>,
}

pub fn run(args: &Args) -> Result<()> {
    let Some(label) = &args.label else {
        let shown = show_label(&args.image, args.json);
        return shown.or_else(failures::report);
    };
    let tuning = Tuning {
        label: Some(label.clone().into_bytes()),
        ..Tuning::default()
    };
    tune::change(&args.image, &tuning, &CheckOptions::new(), None, true)?;
    Ok(())
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
