//! Plans of changes of a sound file system: settings, features, its size. Nothing is written here.
//!
//! A change is made in memory, over an image that has passed every check; then it is completed as a repair is: rounds of checks compute
//! bitmaps, counters and quota again until the image passes with the change.
//!
//! | module | holds |
//! | --- | --- |
//! | `error` | why a change is refused |
//! | `tuning`, `fields` | settings; those that are fields of the superblock |
//! | `features`, `files` | features, and the files that some of them need |
//! | `checksums` | checksums of descriptors, for another UUID |
//! | `grow`, `shrink` | more blocks, and fewer |
//! | `resize_inode` | the resize inode of a file system whose size changes |

mod checksums;
mod error;
mod features;
mod fields;
mod files;
mod grow;
mod resize_inode;
mod shrink;
mod tuning;

pub use error::ChangeError;
pub use grow::plan_grow;
pub use shrink::plan_shrink;
pub use tuning::{Reserved, Tuning};

use crate::context::Context;
use crate::edits::{EditedDevice, Edits};
use crate::fault::{Fault, Faults, Level};
use crate::passes::{self, Examined, Stage};
use crate::prelude::{BlockDevice, Geometry, GroupNo, Incompat, Superblock};
use crate::repair::editor::Editor;
use crate::repair::plan::{LogPlace, Plan, complete};
use crate::report::{CheckOptions, CheckReport, Progress};
use uext4_ondisk::{RawSuperblock, SUPERBLOCK_SIZE};

type Result<T> = std::result::Result<T, ChangeError>;

/// Plans a change of settings; the plan is empty if nothing changes.
///
/// Without a change of a feature or of the UUID only the superblock is read and checked, else the whole image.
///
/// # Errors
/// As of [`crate::check`]; the image has faults, or was not unmounted; the change can't be made.
pub fn plan_tune(
    device: &dyn BlockDevice,
    tuning: &Tuning,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Plan> {
    let small = tuning.features.is_empty() && tuning.uuid.is_none();
    let last = if small {
        Stage::Superblock
    } else {
        Stage::Groups
    };
    let examined = examine_sound(device, last, options, progress)?;
    let cx = context(&examined)?;
    let mut raw = cx.sb.raw.clone();
    fields::change(tuning, &cx.sb, &mut raw)?;
    let mut ed = Editor::new(cx);
    let folding = examined.scanned.as_ref().map(|s| &s.folding[..]);
    features::change(tuning, folding.unwrap_or(&[]), &mut ed, &mut raw)?;
    let new = superblock(&raw)?;
    checksums::rewrite(&mut ed, &new)?;
    put_superblocks(&mut ed, &raw, &new.geometry)?;
    let mut patch = ed.into_patch();
    patch.drop_unchanged(device, &Edits::default())?;
    if patch.is_empty() {
        return Ok(Plan::default());
    }
    if small {
        return of_superblock(device, patch, &examined, options, progress);
    }
    // Once the superblock does not name the journal, nothing needs what it holds.
    let drops_journal = features::drops_journal(&cx.sb, &new);
    let first = drops_journal.then(|| patch.clone());
    let mut plan = completed(device, patch, &examined, options, progress)?;
    plan.first = first.unwrap_or_default();
    Ok(plan)
}

/// Checks an image up to a stage, and refuses one that is not sound.
fn examine_sound<'d>(
    device: &'d dyn BlockDevice,
    last: Stage,
    options: &CheckOptions,
    progress: &'d dyn Progress,
) -> Result<Examined<'d>> {
    let stop = |stage, faults: &Faults, report: &CheckReport| {
        report.needs_recovery || faults.iter().any(is_fault) || stage == last
    };
    let (examined, report) = examine(device, options, progress, stop)?;
    if report.needs_recovery || report.orphans > 0 {
        return Err(ChangeError::Pending);
    }
    if !report.is_clean() || report.errors_recorded {
        return Err(ChangeError::Faulty);
    }
    Ok(examined)
}

/// Checks an image with changes up to a stage, whatever faults it has.
fn examine_changed<'d>(
    edited: &'d EditedDevice<'_>,
    last: Stage,
    options: &CheckOptions,
    progress: &'d dyn Progress,
) -> Result<(Examined<'d>, CheckReport)> {
    examine(edited, options, progress, |stage, _, _| stage == last)
}

/// Checks an image until `stop`.
fn examine<'d>(
    device: &'d dyn BlockDevice,
    options: &CheckOptions,
    progress: &'d dyn Progress,
    mut stop: impl FnMut(Stage, &Faults, &CheckReport) -> bool,
) -> Result<(Examined<'d>, CheckReport)> {
    let mut report = CheckReport::default();
    let mut faults = Faults::new(options.faults_max);
    let examined = passes::examine(
        device,
        options,
        progress,
        &mut report,
        &mut faults,
        &mut stop,
    )?;
    report.take(faults);
    Ok((examined, report))
}

/// What a check of a sound image knows.
fn context<'e, 'd>(examined: &'e Examined<'d>) -> Result<&'e Context<'d>> {
    examined.cx.as_ref().ok_or(ChangeError::Faulty)
}

fn is_fault(fault: &Fault) -> bool {
    fault.level == Level::Fault
}

fn superblock(raw: &RawSuperblock) -> Result<Superblock> {
    Superblock::from_raw(raw.clone()).map_err(|e| ChangeError::refused(e.to_string()))
}

/// The plan of a change: with bitmaps, counters and quota that follow from it.
fn completed(
    device: &dyn BlockDevice,
    patch: Edits,
    before: &Examined<'_>,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Plan> {
    let mut plan = complete(device, patch, options, progress)?;
    if !plan.mends_all() {
        let fault = plan.after.faults.first();
        let why = fault.map_or(String::new(), ToString::to_string);
        return Err(ChangeError::refused(format!(
            "the changed image has a fault: {why}"
        )));
    }
    plan.log_stays = plan.log.is_some() && plan.log == LogPlace::of(before);
    Ok(plan)
}

/// The plan of a change of the superblock's fields, which has passed the checks of the superblock.
fn of_superblock(
    device: &dyn BlockDevice,
    edits: Edits,
    examined: &Examined<'_>,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Plan> {
    let edited = EditedDevice::new(device, &edits);
    let (_, report) = examine_changed(&edited, Stage::Superblock, options, progress)?;
    if let Some(fault) = report.faults.first() {
        return Err(ChangeError::refused(fault.to_string()));
    }
    let log = LogPlace::of(examined);
    Ok(Plan {
        edits,
        after: report,
        log_stays: log.is_some(),
        log,
        ..Plan::default()
    })
}

/// Writes the superblock, and its backups in the places that `geo` has for them.
fn put_superblocks(ed: &mut Editor<'_, '_>, new: &RawSuperblock, geo: &Geometry) -> Result<()> {
    ed.change_super(|raw| *raw = new.clone())?;
    let mut copy = new.clone();
    let kept = Incompat::RECOVER | Incompat::JOURNAL_DEV;
    copy.feature_incompat = (new.incompat() & !kept).bits().into();
    for g in (1..geo.groups_count).map(GroupNo) {
        if !geo.has_super(g) {
            continue;
        }
        let at = geo.group_first_block(g);
        let mut block = ed.block(at)?;
        let bytes = block.get_mut(..SUPERBLOCK_SIZE);
        if let Some(raw) = bytes.and_then(RawSuperblock::mut_from) {
            *raw = copy.clone();
            raw.block_group_nr = (g.0 as u16).into();
            raw.update_checksum();
            ed.put_block(at, &block);
        }
    }
    Ok(())
}
