//! Repairs of images, and changes of their settings: planned, then carried out.

use crate::{CheckOptions, DeviceOptions, open_image};
use std::path::Path;
use std::sync::Arc;
use uext4_block::BlockDevice;
use uext4_check::{ChangeError, CheckError, Decide, Plan, Progress, Tuning};
use uext4_repair::{RepairError, UndoPlace};

/// Plans a repair of the image on a device: what to write so that it passes every check. Nothing is written.
///
/// # Errors
/// Only what makes a check impossible, as [`check_on`](crate::check_on).
pub fn plan_repair(
    device: &dyn BlockDevice,
    options: &CheckOptions,
    decide: &mut dyn Decide,
    progress: &dyn Progress,
) -> Result<Plan, CheckError> {
    uext4_check::plan(device, options.check(), decide, progress)
}

/// Plans what is to be done after a repair, which a plan of it does not hold: another journal in place of one that it removes, then hash
/// trees of the directories that lost theirs and work without, but slowly. What there is not enough space for is left out. Nothing is written.
///
/// # Errors
/// As [`plan_repair`].
pub fn plan_rest(
    device: &dyn BlockDevice,
    repair: &Plan,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Vec<Plan>, CheckError> {
    uext4_check::plan_rest(device, repair, options.check(), progress)
}

/// Plans a repair of an image of the host and carries it out, with what is to be done after it; first it puts back what `undo` holds of one that
/// was cut short. `is_wanted` is called once before anything is written. The plan says what was found and what was repaired.
///
/// # Errors
/// As [`open_image`], [`plan_repair`] and [`apply_repair`].
pub fn repair_image(
    path: &Path,
    decide: &mut dyn Decide,
    undo: Option<&UndoPlace>,
    options: &CheckOptions,
    progress: &dyn Progress,
    is_wanted: impl FnOnce() -> bool,
) -> Result<Plan, Box<dyn std::error::Error + Send + Sync>> {
    let device: Arc<dyn BlockDevice> = open_image(path, &DeviceOptions::read_write())?;
    if let Some(undo) = undo.filter(|undo| undo.path().exists()) {
        resume_repair(&*device, undo)?;
    }
    let plan = plan_repair(&*device, options, decide, progress)?;
    let rest = plan_rest(&*device, &plan, options, progress)?;
    if !is_wanted() || (plan.is_empty() && rest.is_empty()) {
        return Ok(plan);
    }
    if undo.is_some() {
        let plan = Plan::join(std::iter::once(plan).chain(rest).collect());
        apply_repair(&device, &plan, undo)?;
        return Ok(plan);
    }
    apply_repair(&device, &plan, None)?;
    for step in &rest {
        match apply_repair(&device, step, None) {
            Ok(()) => {}
            // Directories stay linear where there is no journal that takes their trees at once.
            Err(RepairError::NeedsUndo { .. }) => break,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(plan)
}

/// Plans a change of settings, in steps that are carried out one after the other; there are none if nothing changes. Nothing is written.
///
/// # Errors
/// As [`check_on`](crate::check_on); the image has faults, or was not unmounted; the change can't be made.
pub fn plan_tune(
    device: &dyn BlockDevice,
    tuning: &Tuning,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Vec<Plan>, ChangeError> {
    uext4_check::plan_tune(device, tuning, options.check(), progress)
}

/// Plans to make an image larger: so many blocks, which the device has to have when the plans are carried out, one after the other. There
/// are none if the image has as many. Nothing is written.
///
/// # Errors
/// As [`plan_tune`].
pub fn plan_grow(
    device: &dyn BlockDevice,
    blocks: u64,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Vec<Plan>, ChangeError> {
    uext4_check::plan_grow(device, blocks, options.check(), progress)
}

/// Plans to make an image smaller: to so many blocks, or to as few as it may have. As [`plan_grow`].
///
/// # Errors
/// As [`plan_tune`]; what is in use needs more blocks or inodes.
pub fn plan_shrink(
    device: &dyn BlockDevice,
    blocks: Option<u64>,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Vec<Plan>, ChangeError> {
    uext4_check::plan_shrink(device, blocks, options.check(), progress)
}

/// Plans to write runs of units of 1024 bytes, each with its offset, which may damage the file system. Nothing is written.
///
/// # Errors
/// As [`plan_tune`].
pub fn plan_writes(device: &dyn BlockDevice, runs: &[(u64, Vec<u8>)]) -> Result<Plan, ChangeError> {
    uext4_check::plan_writes(device, runs)
}

/// Carries out a plan: as one transaction of the image's journal, where it has a sound one that is large enough. With `undo`, in place,
/// once the bytes that it replaces are durable in that file.
///
/// # Errors
/// The device's, the journal's or the undo file's.
///
/// # Crash
/// Through the journal, all of the plan was carried out or nothing. With an undo file, [`resume_repair`] or [`undo_repair`] put the old
/// bytes back. With neither, any part of it was carried out, and another repair starts from there.
pub fn apply_repair(
    device: &Arc<dyn BlockDevice>,
    plan: &Plan,
    undo: Option<&UndoPlace>,
) -> Result<(), RepairError> {
    uext4_repair::apply(device, plan, undo)
}

/// Puts back what an interrupted repair with this undo file has written. True if there was such a repair.
///
/// # Errors
/// The device's or the undo file's; the file is of a repair that is complete.
pub fn resume_repair(device: &dyn BlockDevice, undo: &UndoPlace) -> Result<bool, RepairError> {
    uext4_repair::resume(device, undo)
}

/// Puts back what a repair with this undo file has written.
///
/// # Errors
/// The device's or the undo file's.
pub fn undo_repair(device: &dyn BlockDevice, undo: &Path) -> Result<(), RepairError> {
    uext4_repair::undo(device, undo)
}
