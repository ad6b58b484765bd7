//! The devices of images: what their name says, or what of it `--offset` names.

use crate::quoted;
use std::path::Path;
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

/// An image as e2fsprogs take it, for a command line.
pub fn name_for_e2fsprogs(image: &Path) -> String {
    let mut name = image.as_os_str().to_owned();
    if offset() > 0 {
        name.push(format!("?offset={}", offset()));
    }
    quoted::path(Path::new(&name))
}

/// Opens the device of an image.
///
/// # Errors
/// Those of [`ImageFiles`], or it ends before the image begins.
pub fn open(image: &Path, options: &DeviceOptions) -> Result<Arc<dyn BlockDevice>, BlockError> {
    ImageFiles::open(image, options)?.device(offset(), None)
}
