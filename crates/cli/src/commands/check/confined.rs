//! What a check by root gives up before it reads an image: every path, network, capability and user. Of a qcow2 image the header is read
//! before, as that names a backing file.
//!
//! So a host can check and repair images that are not trusted. Images whose clients open connections are checked without; so are names of
//! one file, which can't be open at once.

use super::Args;
use crate::system::confinement;
use crate::{device, diagnostics, show};
use anyhow::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use uext4::unstable::UndoPlace;
use uext4::{CheckOptions, DeviceId, DeviceOptions, ImageName};

/// The CPUs that the process may use.
fn cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// What a check has opened.
#[derive(Default)]
pub struct Opened {
    /// Where the undo file is.
    pub undo: Option<UndoPlace>,
    /// Why images were not opened.
    pub failures: Vec<(PathBuf, Error)>,
}

impl Opened {
    /// Why an image was not opened, if so.
    pub fn failure(&mut self, image: &Path) -> Option<Error> {
        let at = self.failures.iter().position(|(other, _)| other == image)?;
        Some(self.failures.swap_remove(at).1)
    }
}

/// Opens what the command needs and confines the process, if root runs it. The process must have one thread.
///
/// # Errors
/// The undo file can't be opened, or the host refuses a step.
pub fn enter(args: &Args) -> Result<Opened> {
    let mut opened = Opened::default();
    if !confinement::is_for_this_process() || args.no_sandbox || !can_all_be_open(&args.images) {
        opened.undo = args.undo.as_deref().map(UndoPlace::new);
        return Ok(opened);
    }
    confinement::raise_open_files_max();
    for image in &args.images {
        if let Err(e) = device::keep(image, &args.device()) {
            let failure = diagnostics::device(image, e);
            opened.failures.push((image.clone(), failure));
        }
    }
    // A part of the answer is in files.
    cpus();
    opened.undo = args.undo.as_deref().map(UndoPlace::open_now).transpose()?;
    confinement::enter()?;
    Ok(opened)
}

/// Whether images can be open at once, before the sandbox.
fn can_all_be_open(images: &[PathBuf]) -> bool {
    let mut seen: Vec<(DeviceId, &Path)> = Vec::new();
    for image in images {
        let name = ImageName::parse(image);
        if name.connects() {
            return false;
        }
        let Ok(id) = name.identity() else { continue };
        if let Some((_, other)) = seen
            .iter()
            .find(|(other, path)| *other == id && path != image)
        {
            show::warn(format_args!(
                "{} and {} are one file, so that they are checked without the sandbox",
                show::image(other),
                show::image(image)
            ));
            return false;
        }
        seen.push((id, image));
    }
    true
}

impl Args {
    /// How images are opened.
    pub fn device(&self) -> DeviceOptions {
        match self.repairs().is_some() {
            true => DeviceOptions::read_write(),
            false => DeviceOptions::read_only().exclusive(!self.force),
        }
    }

    /// How they are checked.
    pub fn options(&self) -> CheckOptions {
        let threads = match self.threads {
            0 => cpus(),
            threads => threads,
        };
        let options = CheckOptions::new().threads(threads);
        options.faults_max(self.faults)
    }
}
