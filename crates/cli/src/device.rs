//! The devices of images: what their name says, or what of it `--offset` names.

use crate::quoted;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use uext4::{BlockDevice, BlockError, DeviceOptions, ImageFiles};

/// Where images begin, in bytes.
static OFFSET: OnceLock<u64> = OnceLock::new();

/// Says where; at most once.
pub fn set_offset(bytes: u64) {
    let _ = OFFSET.set(bytes);
}

/// Where images begin; 0 unless that was said.
pub fn offset() -> u64 {
    OFFSET.get().copied().unwrap_or(0)
}

/// An image as a command line of uext4 names it.
pub fn as_argument(image: &Path) -> String {
    let name = quoted::path(image);
    match offset() {
        0 => name,
        bytes => format!("--offset {bytes} {name}"),
    }
}

thread_local! {
    /// The files of images that this thread has opened beforehand.
    static KEPT: RefCell<Vec<(PathBuf, Rc<ImageFiles>)>> = const { RefCell::new(Vec::new()) };
}

/// Opens the files of an image, for [`files`] to find in this thread when paths lead nowhere any more. It is not read.
///
/// # Errors
/// Those of [`ImageFiles`].
pub fn keep(image: &Path, options: &DeviceOptions) -> Result<(), BlockError> {
    if !is_kept(image) {
        let files = Rc::new(ImageFiles::open(image, options)?);
        KEPT.with_borrow_mut(|kept| kept.push((image.to_owned(), files)));
    }
    Ok(())
}

/// Whether [`keep`] has opened the files of an image.
pub fn is_kept(image: &Path) -> bool {
    kept(image).is_some()
}

fn kept(image: &Path) -> Option<Rc<ImageFiles>> {
    KEPT.with_borrow(|kept| {
        let (_, files) = kept.iter().find(|(other, _)| other == image)?;
        Some(Rc::clone(files))
    })
}

/// Opens the files of an image.
///
/// # Errors
/// Those of [`ImageFiles`].
pub fn files(image: &Path, options: &DeviceOptions) -> Result<Rc<ImageFiles>, BlockError> {
    match kept(image) {
        Some(files) => Ok(files),
        None => Ok(Rc::new(ImageFiles::open(image, options)?)),
    }
}

/// Opens the device of an image.
///
/// # Errors
/// As [`files`], or it ends before the image begins.
pub fn open(image: &Path, options: &DeviceOptions) -> Result<Arc<dyn BlockDevice>, BlockError> {
    files(image, options)?.device(offset(), None)
}
