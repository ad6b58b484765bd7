//! Repairs of images: planned, then carried out.

use crate::CheckOptions;
use std::path::Path;
use std::sync::Arc;
use uext4_block::BlockDevice;
use uext4_check::{CheckError, Decide, Plan, Progress};
use uext4_repair::RepairError;

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
    undo: Option<&Path>,
) -> Result<(), RepairError> {
    uext4_repair::apply(device, plan, undo)
}

/// Puts back what an interrupted repair with this undo file has written. True if there was such a repair.
///
/// # Errors
/// The device's or the undo file's; the file is of a repair that is complete.
pub fn resume_repair(device: &dyn BlockDevice, undo: &Path) -> Result<bool, RepairError> {
    uext4_repair::resume(device, undo)
}

/// Puts back what a repair with this undo file has written.
///
/// # Errors
/// The device's or the undo file's.
pub fn undo_repair(device: &dyn BlockDevice, undo: &Path) -> Result<(), RepairError> {
    uext4_repair::undo(device, undo)
}
