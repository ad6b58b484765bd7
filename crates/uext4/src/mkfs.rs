//! Making and checking the image in a file.

use crate::check_options::CheckOptions;
use crate::digest;
use crate::mkfs_options::{ImageFormat, MkfsOptions};
use crate::mkfs_sources::{prepared, refuse_itself};
use crate::replace;
use std::fs::Metadata;
use std::path::Path;
use std::sync::Arc;
use uext4_block::{
    BlockDevice, FileDevice, ImageName, OpenOptions as DeviceOptions, Qcow2Device, RemoteAddress,
    open_image,
};
use uext4_build::{MkfsError, MkfsOptions as BuildOptions, MkfsReport, Plan, Progress, Scan};
use uext4_check::{CheckError, CheckReport, Progress as CheckProgress};
use uext4_ext4::{Exclusion, Ext4Error, MmpHold, read_superblock};
use uext4_ondisk::Incompat;
use uuid::Uuid;

/// Makes the image `path`, a file of just the size that `options` ask for, or a block device, an existing partition
/// (`PATH?partition=N`), or what a server has. Without a size and a tree the image is as large as what is there.
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
/// On a server, `.features("mmp")` keeps a second host out: the command turns it on, this function does not.
///
/// # Errors
/// Options that can't be, a tree that can't be read, or the device's: busy, full, or failing. [`MkfsError::InUse`]: another host has what
/// is there open (`mmp`), or may have.
/// [`MkfsError::HostLimit`]: files of the host can't be that large. A file that was made is removed.
pub fn mkfs(
    path: impl AsRef<Path>,
    options: &MkfsOptions,
    progress: &dyn Progress,
) -> Result<MkfsReport, MkfsError> {
    let path = path.as_ref();
    let start = std::time::Instant::now();
    refuse_itself(path, options.build())?;
    let name = ImageName::parse(path);
    let mut plan_options = options.for_plan()?;
    if plan_options.spool.is_none() {
        let dir = name.path().parent().filter(|_| !name.is_remote());
        let dir = dir.filter(|dir| !dir.as_os_str().is_empty());
        plan_options.spool = Some(match name.is_remote() {
            true => std::env::temp_dir(),
            false => dir.unwrap_or(Path::new(".")).to_owned(),
        });
    }
    let there = std::fs::metadata(name.path()).ok();
    let is_file = there.as_ref().is_none_or(Metadata::is_file);
    if name.is_within() || !is_file {
        options.check_for_device(name.partition().is_some())?;
        return fill(path, options, &plan_options, progress);
    }
    let mut len_min = 0;
    if options.build().size.is_none() && plan_options.from.is_empty() {
        match &there {
            // A container of an image has not the size of the image.
            Some(there)
                if options.format == ImageFormat::Raw
                    && !open_image(path, &DeviceOptions::read_only().exclusive(false))
                        .is_ok_and(|device| device.len() != there.len()) =>
            {
                len_min = there.len();
                plan_options.size = Some(options.inside(len_min));
            }
            _ => return Err(MkfsError::NoSize),
        }
    }
    let scan = Scan::of(&plan_options, progress)?;
    let plan = Plan::new(&plan_options, scan)?;
    let uuid = Uuid::from_bytes(plan.superblock().uuid);
    let len = options.around(plan.device_bytes()).max(len_min);
    let file_len = match options.format {
        ImageFormat::Raw => len,
        ImageFormat::Qcow2 => 0,
    };
    let mut report = replace::write(name.path(), file_len, |file| {
        let device: Arc<dyn BlockDevice> = match options.format {
            ImageFormat::Raw => file,
            ImageFormat::Qcow2 => Arc::new(Qcow2Device::create(name.path(), file, len)?),
        };
        let laid_out = options.lay_out(Arc::clone(&device), Some(uuid))?;
        let mut report = plan.write(&*laid_out, progress)?;
        if options.digest {
            report.digest = Some(digest::of_device(&*device, device.len(), progress)?);
        }
        Ok(report)
    })?;
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// Makes an image on a device, or on a server. One that was not there is removed if that fails.
fn fill(
    path: &Path,
    options: &MkfsOptions,
    plan_options: &BuildOptions,
    progress: &dyn Progress,
) -> Result<MkfsReport, MkfsError> {
    let (device, is_new) = open_to_fill(path, plan_options.size)?;
    let filled = fill_device(device, options, plan_options, progress);
    if filled.is_err()
        && is_new
        && let Some(Ok(address)) = path.to_str().map(RemoteAddress::parse)
    {
        let _ = address.remove();
    }
    filled
}

fn fill_device(
    device: Arc<dyn BlockDevice>,
    options: &MkfsOptions,
    plan_options: &BuildOptions,
    progress: &dyn Progress,
) -> Result<MkfsReport, MkfsError> {
    let hold = hold(&device, options.exclusion)?;
    let device = options.lay_out(device, plan_options.uuid)?;
    let report = uext4_build::mkfs(&*device, plan_options, progress)?;
    if let Some(hold) = hold {
        // The new file system is free.
        hold.abandon();
    }
    with_digest(report, &*device, options, progress)
}

/// Makes sure that no other host has the file system open that is on a device, if its multi-mount protection says so. It stays taken while
/// it is overwritten.
fn hold(device: &Arc<dyn BlockDevice>, exclusion: Exclusion) -> Result<Option<MmpHold>, MkfsError> {
    let there = read_superblock(&**device).ok();
    let Some(there) = there.filter(|sb| sb.incompat.contains(Incompat::MMP)) else {
        return Ok(None);
    };
    match MmpHold::acquire(device, &there, exclusion) {
        Ok(Some(mut hold)) => {
            hold.stop_renewing();
            Ok(Some(hold))
        }
        Ok(None) => Ok(None),
        // What is damaged is not open anywhere.
        Err(Ext4Error::Corrupt(_)) => Ok(None),
        Err(e) => Err(MkfsError::InUse(e.to_string())),
    }
}

/// What is to be filled as it is: a block device, a partition, or what a server has; a store makes an image of the size that it has not.
/// True if it did.
fn open_to_fill(name: &Path, size: Option<u64>) -> Result<(Arc<dyn BlockDevice>, bool), MkfsError> {
    let options = DeviceOptions::read_write();
    let image = ImageName::parse(name);
    if !image.is_within() {
        return Ok((Arc::new(FileDevice::open(image.path(), &options)?), false));
    }
    match (open_image(name, &options), size) {
        (Err(e), Some(size)) if e.is_missing() && image.is_remote() => {
            Ok((open_image(name, &DeviceOptions::create(size))?, true))
        }
        (opened, _) => Ok((opened?, false)),
    }
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
    let report = uext4_build::mkfs(device, &prepared(options.build(), &options.keys)?, progress)?;
    with_digest(report, device, options, progress)
}

/// The report with the digest of the image on a device, if it was asked for.
fn with_digest(
    mut report: MkfsReport,
    device: &dyn BlockDevice,
    options: &MkfsOptions,
    progress: &dyn Progress,
) -> Result<MkfsReport, MkfsError> {
    if options.digest {
        let len = digest::len_of(&report);
        report.digest = Some(digest::of_device(device, len, progress)?);
    }
    Ok(report)
}

/// Checks everything of the image with this name, and changes nothing.
///
/// # Errors
/// Only what makes a check impossible: the image is busy or can't be read, or is not ext4.
pub fn check(
    path: impl AsRef<Path>,
    options: &CheckOptions,
    progress: &dyn CheckProgress,
) -> Result<CheckReport, CheckError> {
    let device = open_image(path.as_ref(), &DeviceOptions::read_only())?;
    check_on(&*device, options, progress)
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
