//! Images whose superblock is damaged: they are read with a backup of it.

use crate::{device, show};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use uext4::unstable::ondisk::{
    FormatError, Incompat, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock,
};
use uext4::unstable::{BackupSuperblock, Ext4Error, read_superblock};
use uext4::{BlockDevice, BlockError, DeviceOptions, Filesystem, ImageOptions};

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

/// The same, unless that is the block of the superblock itself, which is sound.
pub fn backup_asked_for(device: &dyn BlockDevice) -> Option<u64> {
    let is_first = |block: &u64| {
        let sb = read_superblock(device);
        sb.is_ok_and(|sb| u64::from(sb.geometry.first_data_block) == *block)
    };
    asked_for().filter(|block| !is_first(block))
}

/// The device of an image.
pub struct Opened {
    /// The device, with a backup in place of its superblock if that is damaged or another was asked for.
    pub device: Arc<dyn BlockDevice>,
    /// The superblock is damaged, and there is a backup.
    pub is_damaged: bool,
}

/// Why a device was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// The device's own reason.
    Device(BlockError),
    /// The block that was asked for holds no backup.
    NoBackup(u64),
}

/// Opens the device of an image; a warning names the backup that is used.
///
/// # Errors
/// The device's, or the block that was asked for holds no backup.
pub fn open(image: &Path, options: &DeviceOptions) -> Result<Opened, OpenError> {
    open_unless(image, options, |_| false)
}

/// The same to check an image: a superblock that a crash tore, so that only its checksum is wrong, may be whole in the
/// journal, which a check reads itself.
///
/// # Errors
/// As [`open`].
pub fn open_to_check(image: &Path, options: &DeviceOptions) -> Result<Opened, OpenError> {
    open_unless(image, options, may_be_in_journal)
}

fn open_unless(
    image: &Path,
    options: &DeviceOptions,
    is_left_alone: impl Fn(&dyn BlockDevice) -> bool,
) -> Result<Opened, OpenError> {
    let device = device::open(image, options).map_err(OpenError::Device)?;
    let at = backup_asked_for(&*device);
    let is_damaged = read_superblock(&*device).is_err() && !is_left_alone(&*device);
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
        (None, Some(block)) => Err(OpenError::NoBackup(block)),
        (None, None) => Ok(Opened {
            device,
            is_damaged: false,
        }),
    }
}

fn may_be_in_journal(device: &dyn BlockDevice) -> bool {
    let mut bytes = [0; SUPERBLOCK_SIZE];
    if device.read_at(SUPERBLOCK_OFFSET, &mut bytes).is_err() {
        return false;
    }
    let is_torn = matches!(Superblock::parse(&bytes), Err(FormatError::Checksum { .. }));
    let raw = RawSuperblock::mut_from(&mut bytes);
    let asks = |raw: &mut RawSuperblock| {
        raw.incompat().contains(Incompat::RECOVER) || raw.torn_request().is_some()
    };
    is_torn && raw.is_some_and(asks)
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
            repair(image)
        )),
        false => show::warn(format_args!(
            "{name}: read with its superblock in block {block}"
        )),
    }
}

fn repair(image: &Path) -> String {
    format!("`uext4 check -y {}` repairs it", device::as_argument(image))
}

/// The block of the backup that an image can be read with, if its superblock is damaged; a warning names it.
#[cfg(target_os = "linux")]
pub fn backup_to_mount(image: &Path) -> Option<u64> {
    let (_, found) = damaged(image)?;
    warn(image, &found, true);
    Some(found.block)
}

/// What to do about an image that can't be mounted because its superblock is damaged, if that is why.
pub fn remedy(image: &Path) -> Option<String> {
    let (why, found) = damaged(image)?;
    Some(format!(
        "superblock is damaged ({why}), and it can only be read (mount: -r), with its backup in block {}; {}",
        found.block,
        repair(image)
    ))
}

/// The same of an image that is to be repaired without a choice of backups.
pub fn remedy_of_repair(image: &Path) -> Option<String> {
    let (why, found) = damaged(image)?;
    Some(format!(
        "superblock is damaged ({why}); {} with its backup in block {}",
        repair(image),
        found.block
    ))
}

/// The block of a backup with which an image can be read that has lost its descriptors of groups; `None` if one was asked for.
pub fn backup_that_reads(image: &Path) -> Option<u64> {
    if asked_for().is_some() {
        return None;
    }
    let options = DeviceOptions::read_only().exclusive(false);
    let device = device::open(image, &options).ok()?;
    let found = BackupSuperblock::find(device, None)?;
    let opened = Filesystem::open_device(found.device, &ImageOptions::read_only());
    opened.is_ok().then_some(found.block)
}

/// Why the superblock of an image can't be read, and the backup of it.
fn damaged(image: &Path) -> Option<(Ext4Error, BackupSuperblock)> {
    let options = DeviceOptions::read_only().exclusive(false);
    let device = device::open(image, &options).ok()?;
    let why = read_superblock(&*device).err()?;
    Some((why, BackupSuperblock::find(device, None)?))
}
