//! e2label: `e2label DEVICE [LABEL]`.

use super::{Program, exit, image, tune2fs};
use crate::{commands, show};
use anyhow::Result;
use std::io::Write;
use std::path::Path;
use uext4::CheckOptions;
use uext4::unstable::Tuning;

pub fn run(program: &Program) -> Result<u8> {
    let (device, label) = match program.words.as_slice() {
        [device] => (Path::new(device), None),
        [device, label] => (Path::new(device), Some(label)),
        _ => return Err(exit(1, "Usage: e2label device [newlabel]")),
    };
    let opened = image::look_at(device).map_err(|e| e.report(program, device, 1))?;
    let Some(label) = label else {
        let mut out = std::io::stdout().lock();
        out.write_all(&show::name(opened.sb.raw.label()))?;
        writeln!(out)?;
        return Ok(0);
    };
    drop(opened);
    let tuning = Tuning {
        label: Some(tune2fs::label(label.as_encoded_bytes())),
        ..Tuning::default()
    };
    commands::tune::change(device, &tuning, &CheckOptions::new(), None, true)?;
    Ok(0)
}
