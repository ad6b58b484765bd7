//! `uext4 mv`.

use crate::diagnostics;
use crate::images::Images;
use crate::location::InImage;
use anyhow::{Result, bail};
use std::ffi::OsString;
use uext4::FileKind;

/// Move or rename files within an image.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 mv disk.img:/etc/hosts disk.img:/etc/hosts.old")]
pub struct Args {
    /// IMAGE:/path of each file, then of what it becomes or of the directory it is moved to
    #[arg(required = true, num_args = 2..)]
    paths: Vec<OsString>,
}

pub fn run(args: Args) -> Result<()> {
    let mut all: Vec<InImage> = args.paths.into_iter().map(InImage::parse).collect();
    let Some(to) = all.pop() else {
        return Ok(());
    };
    if let Some(other) = all.iter().find(|at| at.image != to.image) {
        bail!(
            "{other}: is not in {}; copy it with `uext4 cp -a`",
            to.image.display()
        );
    }
    let mut images = Images::default();
    let image = images.get(&to.image, true)?;
    let fs = image.fs();
    let into = fs
        .metadata(&to.path)
        .is_ok_and(|a| a.kind == FileKind::Directory);
    if all.len() > 1 && !into {
        bail!("{to}: not a directory; several files can only be moved to one");
    }
    for from in all {
        let target = match from.path.file_name() {
            Some(name) if into => to.path.join(name),
            _ => to.path.clone(),
        };
        fs.rename(&from.path, &target)
            .map_err(|e| diagnostics::in_image(&from, e))?;
    }
    images.close()
}
