//! Making and checking the image in a file.

use crate::check_options::CheckOptions;
use crate::filesystem::Filesystem;
use crate::image_options::ImageOptions;
use crate::mkfs_options::MkfsOptions;
use crate::replace;
use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use uext4_block::{BlockDevice, DeviceId, FileDevice, OpenOptions as DeviceOptions};
use uext4_build::MkfsOptions as BuildOptions;
use uext4_build::{FeatureSet, InputKind, MkfsError, MkfsReport, NamedTree, Plan, Progress, Scan};
use uext4_check::{CheckError, CheckReport, Progress as CheckProgress};
use uext4_ondisk::{EXT4_MAGIC, Incompat, SUPERBLOCK_OFFSET};

/// Features that an image can be made with, but with which it can't be opened.
const UNOPENED: Incompat = Incompat::MMP
    .union(Incompat::ENCRYPT)
    .union(Incompat::CASEFOLD);

/// Where the magic number is in the superblock.
const MAGIC_OFFSET: u64 = 56;

/// Names of the features that [`mkfs()`] makes images with.
pub fn feature_names() -> impl Iterator<Item = &'static str> {
    let unopened = |name: &&str| UNOPENED.names().any(|other| other == *name);
    FeatureSet::names().filter(move |name| !unopened(name))
}

/// The options, with the images among the sources open.
pub(crate) fn prepared(options: &BuildOptions) -> Result<BuildOptions, MkfsError> {
    let refused = options.features.incompat.intersection(UNOPENED);
    if !refused.is_empty() {
        return Err(MkfsError::UnsupportedFeature(refused.describe()));
    }
    let mut options = options.clone();
    for input in &mut options.from {
        if let InputKind::Path(path) = &input.kind
            && is_image(path)
        {
            let image = Filesystem::open(path, &ImageOptions::read_only());
            let image = image.map_err(|e| MkfsError::Tree {
                op: "open",
                path: path.clone(),
                source: e.into(),
            })?;
            input.kind = InputKind::Tree(NamedTree::new(path, Arc::new(image)));
        }
    }
    Ok(options)
}

/// Refuses an image as its own source.
fn refuse_itself(path: &Path, options: &BuildOptions) -> Result<(), MkfsError> {
    let Ok(image) = DeviceId::of_path(path) else {
        return Ok(());
    };
    let is_itself = |from: &&Path| DeviceId::of_path(from).is_ok_and(|id| id == image);
    let mut sources = options.from.iter().map(|input| input.kind.path());
    match sources.find(is_itself).filter(|from| is_image(from)) {
        None => Ok(()),
        Some(from) => Err(MkfsError::Unfit {
            path: from.to_owned(),
            what: "is the image to be made".to_owned(),
        }),
    }
}

/// Whether a file or block device has the magic number of an image.
fn is_image(path: &Path) -> bool {
    // A pipe is neither, and opening it would wait.
    let Ok(there) = std::fs::metadata(path) else {
        return false;
    };
    if !(there.is_file() || is_block_device(&there)) {
        return false;
    }
    let read = || -> std::io::Result<[u8; 2]> {
        let (mut file, mut magic) = (File::open(path)?, [0; 2]);
        file.seek(SeekFrom::Start(SUPERBLOCK_OFFSET + MAGIC_OFFSET))?;
        file.read_exact(&mut magic)?;
        Ok(magic)
    };
    read().is_ok_and(|magic| u16::from_le_bytes(magic) == EXT4_MAGIC)
}

#[cfg(unix)]
fn is_block_device(there: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_block_device(&there.file_type())
}

#[cfg(not(unix))]
fn is_block_device(_: &Metadata) -> bool {
    false
}

/// Makes the image `path`, a file of just the size that `options` ask for, or a block device. Without a
/// size and a tree the image is as large as what is there.
///
/// A file that holds data is replaced once its successor is complete: until then, and if that fails, it stays as it
/// was, and the host needs room for both. A file without data is written where it is, so that it keeps what is
/// allocated to it.
///
/// # Crash
/// A file that held data is the old one or the new one; a temporary `.uext4-mkfs.*` may be left beside it. Anywhere
/// else the superblock is written last: before that, there is no file system. What a block device held is lost with
/// the first write.
///
/// # Errors
/// Options that can't be, a tree that can't be read, or the device's: busy, full, or failing.
/// [`MkfsError::HostLimit`]: files of the host can't be that large. A file that was made is removed.
pub fn mkfs(
    path: impl AsRef<Path>,
    options: &MkfsOptions,
    progress: &dyn Progress,
) -> Result<MkfsReport, MkfsError> {
    let path = path.as_ref();
    let start = std::time::Instant::now();
    refuse_itself(path, options.build())?;
    let mut options = prepared(options.build())?;
    let there = std::fs::metadata(path).ok();
    let is_file = there.as_ref().is_none_or(Metadata::is_file);
    if options.spool.is_none() {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        options.spool = Some(dir.unwrap_or(Path::new(".")).to_owned());
    }
    let mut len_min = 0;
    if options.size.is_none() && options.from.is_empty() {
        match &there {
            None => return Err(MkfsError::NoSize),
            Some(there) if is_file => {
                len_min = there.len();
                options.size = Some(len_min);
            }
            Some(_) => {
                let device = FileDevice::open(path, &DeviceOptions::read_write())?;
                return uext4_build::mkfs(&device, &options, progress);
            }
        }
    }
    let scan = Scan::of(&options, progress)?;
    let plan = Plan::new(&options, scan)?;
    let mut report = if is_file {
        let len = plan.device_bytes().max(len_min);
        replace::write(path, len, |device| plan.write(device, progress))?
    } else {
        let device = FileDevice::open(path, &DeviceOptions::read_write())?;
        plan.write(&device, progress)?
    };
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// Makes an image on a device. Without a size and a tree it fills the device.
///
/// # Errors
/// As [`mkfs()`].
pub fn mkfs_on(
    device: &dyn BlockDevice,
    options: &MkfsOptions,
    progress: &dyn Progress,
) -> Result<MkfsReport, MkfsError> {
    uext4_build::mkfs(device, &prepared(options.build())?, progress)
}

/// Checks everything of the image `path`, and changes nothing.
///
/// # Errors
/// Only what makes a check impossible: the image is busy or can't be read, or is not ext4.
pub fn check(
    path: impl AsRef<Path>,
    options: &CheckOptions,
    progress: &dyn CheckProgress,
) -> Result<CheckReport, CheckError> {
    let device = FileDevice::open(path, &DeviceOptions::read_only())?;
    check_on(&device, options, progress)
}

/// Checks everything of the image on a device, and changes nothing.
///
/// # Errors
/// As [`check()`].
pub fn check_on(
    device: &dyn BlockDevice,
    options: &CheckOptions,
    progress: &dyn CheckProgress,
) -> Result<CheckReport, CheckError> {
    uext4_check::check(device, options.check(), progress)
}
