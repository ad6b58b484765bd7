//! The images that a command has open, each once.

use crate::diagnostics;
use crate::location::InImage;
use anyhow::Result;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use uext4::{Filesystem, ImageOptions};

/// Where the journal of images is that have it on another device.
static JOURNAL: OnceLock<PathBuf> = OnceLock::new();

/// Says where that is; at most once.
pub fn set_journal(device: PathBuf) {
    let _ = JOURNAL.set(device);
}

/// Where it is, if that was said.
pub fn journal() -> Option<&'static Path> {
    JOURNAL.get().map(PathBuf::as_path)
}

/// The images that a command has open.
#[derive(Default)]
pub struct Images {
    open: Vec<(PathBuf, Filesystem)>,
}

impl Images {
    /// The image in the file `image`, opened unless it is. Ask for those to be written first: one
    /// that was opened to read is not opened again.
    ///
    /// # Errors
    /// One that says what to do.
    pub fn get(&mut self, image: &Path, write: bool) -> Result<Filesystem> {
        // Where that fails, so does opening it, with the better message.
        let key = image.canonicalize().unwrap_or_else(|_| image.to_owned());
        if let Some((_, fs)) = self.open.iter().find(|(k, _)| *k == key) {
            return Ok(fs.clone());
        }
        let fs = open(image, write)?;
        self.open.push((key, fs.clone()));
        Ok(fs)
    }

    /// Closes all; what was written is on the device then.
    ///
    /// # Errors
    /// A device that failed.
    pub fn close(self) -> Result<()> {
        for (image, fs) in self.open {
            fs.unmount().map_err(|e| diagnostics::opening(&image, &e))?;
        }
        Ok(())
    }
}

/// Calls `work` for each of the files that `paths` name as `IMAGE:/path`, and closes their images. An error of an image is one
/// about that file.
///
/// # Errors
/// The first, which ends it.
pub fn each(
    paths: Vec<OsString>,
    write: bool,
    mut work: impl FnMut(&Filesystem, &InImage) -> Result<()>,
) -> Result<()> {
    let mut images = Images::default();
    for path in paths {
        let at = InImage::parse(path);
        let fs = images.get(&at.image, write)?;
        work(&fs, &at).map_err(|e| match e.downcast() {
            Ok(e) => diagnostics::in_image(&at, e),
            Err(e) => e,
        })?;
    }
    images.close()
}

/// Opens an image.
///
/// # Errors
/// One that says what to do.
pub fn open(image: &Path, write: bool) -> Result<Filesystem> {
    let mut options = if write {
        ImageOptions::read_write()
    } else {
        ImageOptions::read_only()
    };
    if let Some(device) = journal() {
        options = options.journal(device);
    }
    let fs = Filesystem::open(image, &options).map_err(|e| diagnostics::opening(image, &e))?;
    if write && fs.is_read_only() {
        anyhow::bail!(
            "{}: has features that can only be read; `uext4 info` lists them",
            image.display()
        );
    }
    Ok(fs)
}
