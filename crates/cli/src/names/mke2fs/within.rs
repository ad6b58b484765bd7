//! A file system that is a part of a file: behind an offset, or shorter than the file. What is around it stays.

use crate::diagnostics;
use anyhow::Result;
use std::path::Path;
use std::sync::Arc;
use uext4::{BlockDevice, DeviceOptions, FileDevice, MkfsOptions, Progress, RangeDevice};

/// Makes it where it is to be.
///
/// # Errors
/// One that says what to do.
pub fn make(
    image: &Path,
    offset: u64,
    bytes: u64,
    options: &MkfsOptions,
    progress: &dyn Progress,
) -> Result<()> {
    let failed = |e| diagnostics::device(image, e);
    let end = offset.saturating_add(bytes);
    let device = match std::fs::exists(image).unwrap_or(false) {
        true => FileDevice::open(image, &DeviceOptions::read_write()),
        false => FileDevice::open(image, &DeviceOptions::create(end)),
    };
    let device: Arc<dyn BlockDevice> = Arc::new(device.map_err(failed)?);
    if device.len() < end {
        device.set_len(end).map_err(failed)?;
    }
    let part = RangeDevice::new(device, offset, Some(bytes)).map_err(failed)?;
    let made = uext4::mkfs_on(&part, options, progress);
    made.map(drop).map_err(|e| diagnostics::making(image, e))
}
