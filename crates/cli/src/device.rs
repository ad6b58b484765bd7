//! The devices of images: a file or a block device, or what of it `--offset` names.

use crate::quoted;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use uext4::{BlockDevice, BlockError, DeviceOptions, FileDevice, RangeDevice};

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
/// That of the file, or it ends before the image begins.
pub fn open(image: &Path, options: &DeviceOptions) -> Result<Arc<dyn BlockDevice>, BlockError> {
    let device = FileDevice::open(image, options)?;
    Ok(match offset() {
        0 => Arc::new(device),
        start => Arc::new(RangeDevice::new(Arc::new(device), start, None)?),
    })
}
