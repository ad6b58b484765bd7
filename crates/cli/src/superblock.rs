//! Images whose superblock is damaged: they are read with a backup of it.

use crate::{diagnostics, quoted, show};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use uext4::unstable::{BackupSuperblock, read_superblock};
use uext4::{BlockDevice, DeviceOptions, FileDevice};

/// The block of the backup that is to be used.
static BLOCK: OnceLock<u64> = OnceLock::new();

/// Says which that is; at most once.
pub fn set(block: u64) {
    let _ = BLOCK.set(block);
}

/// The block of the backup to use, if that was said.
pub fn asked_for() -> Option<u64> {
    BLOCK.get().copied()
}

/// The device of an image.
pub struct Opened {
    /// The device, with a backup in place of its superblock if that is damaged or another was asked for.
    pub device: Arc<dyn BlockDevice>,
    /// The superblock is damaged, and there is a backup.
    pub is_damaged: bool,
}

/// Opens the device of an image; a warning names the backup that is used.
///
/// # Errors
/// One that says what to do.
pub fn open(image: &Path, options: &DeviceOptions) -> Result<Opened> {
    let device = FileDevice::open(image, options).map_err(|e| diagnostics::device(image, e))?;
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let (at, is_damaged) = (asked_for(), read_superblock(&*device).is_err());
    let found = match is_damaged || at.is_some() {
        true => BackupSuperblock::find(Arc::clone(&device), at),
        false => None,
    };
    match (found, at) {
        (Some(found), _) => {
            warn(image, &found, is_damaged);
            Ok(Opened {
                device: found.device,
                is_damaged,
            })
        }
        (None, Some(block)) => bail!(
            "{}: block {block} holds no backup of its superblock; `uext4 mkfs -n` with the size and options that made it lists them",
            image.display()
        ),
        (None, None) => Ok(Opened {
            device,
            is_damaged: false,
        }),
    }
}

/// Names the backup, once.
fn warn(image: &Path, found: &BackupSuperblock, is_damaged: bool) {
    static NAMED: OnceLock<PathBuf> = OnceLock::new();
    if NAMED.get().is_some_and(|named| named == image) {
        return;
    }
    let _ = NAMED.set(image.to_owned());
    let (name, block) = (image.display(), found.block);
    match is_damaged {
        true => show::warn(format_args!(
            "{name}: superblock is damaged; read with its backup in block {block}; {}",
            repair(image, found)
        )),
        false => show::warn(format_args!(
            "{name}: read with its superblock in block {block}"
        )),
    }
}

fn repair(image: &Path, found: &BackupSuperblock) -> String {
    let name = quoted::path(image);
    format!(
        "`e2fsck -b {} -B {} {name}` repairs it",
        found.block, found.block_size
    )
}

/// What to do about an image that can't be opened to be written because its superblock is damaged, if that is why.
pub fn remedy(image: &Path) -> Option<String> {
    let options = DeviceOptions::read_only().exclusive(false);
    let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(image, &options).ok()?);
    let why = read_superblock(&*device).err()?;
    let found = BackupSuperblock::find(device, None)?;
    Some(format!(
        "superblock is damaged ({why}), and it can only be read, with its backup in block {}; {}",
        found.block,
        repair(image, &found)
    ))
}
