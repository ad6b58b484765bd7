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
//! | `checksums`, `metadata_csum` | checksums of descriptors, and of all else |
//! | `wide`, `inode_size` | larger descriptors and inodes |
//! | `grow`, `shrink` | more blocks, and fewer |
//! | `writes` | bytes that a caller has chosen |
//! | `rest` | what a repair leaves to be made again |

mod checksums;
mod error;
mod features;
mod fields;
mod files;
mod grow;
mod inode_size;
mod metadata_csum;
mod rest;
mod shrink;
mod tuning;
mod wide;
mod writes;

pub use error::ChangeError;
pub use grow::plan_grow;
pub use rest::plan_rest;
pub use shrink::plan_shrink;
pub use tuning::{Reserved, Tuning};
pub use writes::plan_writes;

use crate::context::Context;
use crate::edits::{EditedDevice, Edits};
use crate::fault::{Fault, Faults, Level};
use crate::passes::{self, Examined, Stage};
use crate::prelude::{BlockDevice, Compat, Geometry, GroupNo, Incompat, Ino, Superblock};
use crate::repair::editor::Editor;
use crate::repair::plan::{LogPlace, Plan, complete};
use crate::report::{CheckOptions, CheckReport, Progress};
use uext4_ondisk::{Feature, RawSuperblock, SUPERBLOCK_SIZE};

type Result<T> = std::result::Result<T, ChangeError>;

/// Plans a change of settings, in steps that are carried out one after the other; there are none if nothing changes.
///
/// Without a change of a feature, of the UUID or of the size of inodes only the superblock is read and checked, else the whole image.
///
/// # Errors
/// As of [`crate::check`]; the image has faults, or was not unmounted; the change can't be made.
pub fn plan_tune(
    device: &dyn BlockDevice,
    tuning: &Tuning,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Vec<Plan>> {
    let small = tuning.features.is_empty()
        && tuning.quotas.is_empty()
        && tuning.uuid.is_none()
        && tuning.inode_size.is_none();
    let last = if small {
        Stage::Superblock
    } else {
        Stage::Groups
    };
    let examined = examine_sound(device, last, options, progress)?;
    let folding = examined.scanned.as_ref().map(|s| s.folding.clone());
    let folding = folding.unwrap_or_default();
    if small {
        let change = settings(context(&examined)?, tuning, &folding)?;
        let plan = change.map(|c| of_superblock(device, c.patch, &examined, options, progress));
        return plan.into_iter().collect();
    }
    let wide = tuning.sets(Feature::Incompat(Incompat::BIT64));
    let is_other = |cx: &Context<'_>, wide: bool| cx.incompat(Incompat::BIT64) != wide;
    let reserve = reserved_descs(context(&examined)?);
    chain(
        device,
        &examined,
        &mut [
            &mut |cx| settings(cx, tuning, &folding),
            &mut |cx| match wide {
                Some(wide) if is_other(cx, wide) => without_resize_inode(cx),
                _ => Ok(None),
            },
            &mut |cx| match wide {
                Some(wide) if is_other(cx, wide) => wide::change(cx, wide, reserve).map(Some),
                _ => Ok(None),
            },
            &mut |cx| match tuning.inode_size {
                Some(bytes) if bytes != cx.geo.inode_size => {
                    inode_size::change(cx, bytes).map(Some)
                }
                _ => Ok(None),
            },
        ],
        options,
        progress,
    )
}

/// Changes of the superblock, and of what follows from it. `folding` are directories that ignore case.
fn settings(cx: &Context<'_>, tuning: &Tuning, folding: &[Ino]) -> Result<Option<Change>> {
    let mut raw = cx.sb.raw.clone();
    fields::change(tuning, &cx.sb, &mut raw)?;
    let mut ed = Editor::new(cx);
    features::change(tuning, folding, &mut ed, &mut raw)?;
    let new = superblock(&raw)?;
    let sums = metadata_csum::changes(&cx.sb, &new);
    if sums {
        metadata_csum::rewrite(&mut ed, &new)?;
    }
    checksums::rewrite(&mut ed, &new)?;
    put_superblocks(&mut ed, &raw, &new.geometry)?;
    let mut patch = ed.into_patch();
    patch.drop_unchanged(cx.view.device(), &Edits::default())?;
    // Once the superblock does not name the journal, nothing needs what it holds.
    let drops_journal = features::drops_journal(&cx.sb, &new);
    let first = match drops_journal {
        true => patch.clone(),
        false => Edits::default(),
    };
    Ok((!patch.is_empty()).then_some(Change {
        patch,
        first,
        is_whole: sums,
        moves_journal: sums,
        ..Change::default()
    }))
}

/// Blocks that the resize inode reserves in each group with descriptors.
fn reserved_descs(cx: &Context<'_>) -> u16 {
    u16::try_from(cx.geo.reserved_gdt_blocks).unwrap_or(u16::MAX)
}

/// Removes the resize inode, if the image has one.
fn without_resize_inode(cx: &Context<'_>) -> Result<Option<Change>> {
    if !cx.sb.compat.contains(Compat::RESIZE_INODE) {
        return Ok(None);
    }
    let tuning = Tuning {
        features: vec![(Feature::Compat(Compat::RESIZE_INODE), false)],
        ..Tuning::default()
    };
    settings(cx, &tuning, &[])
}

/// A step: what it changes in an image that is sound, if anything.
type Step<'s> = &'s mut dyn FnMut(&Context<'_>) -> Result<Option<Change>>;

/// Plans of steps, each of an image as the steps before leave it. The check that completes one is that which the next starts from.
fn chain(
    device: &dyn BlockDevice,
    examined: &Examined<'_>,
    steps: &mut [Step<'_>],
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Vec<Plan>> {
    let (mut plans, mut all) = (Vec::new(), Edits::default());
    let mut log = LogPlace::of(examined);
    let mut steps = steps.iter_mut();
    let mut next = |examined: &Examined<'_>| {
        let cx = context(examined)?;
        let mut changes = steps.by_ref().map(|step| step(cx));
        changes.find_map(Result::transpose).transpose()
    };
    let mut change = next(examined)?;
    while let Some(now) = change {
        let mut then = Ok(None);
        let edited = EditedDevice::new(device, &all);
        let mut seen = |examined: &Examined<'_>| then = next(examined);
        let plan = completed(&edited, now, log, &mut seen, options, progress)?;
        log = plan.log.clone();
        all.absorb(plan.edits.clone());
        plans.push(plan);
        change = then?;
    }
    Ok(plans)
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
        None,
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

/// Copies of data: from, to, bytes.
type Copies = Vec<(u64, u64, u64)>;

/// A change, without the bitmaps, counters and quota that follow from it. Fields are as of [`Plan`].
#[derive(Default)]
struct Change {
    patch: Edits,
    first: Edits,
    copies: Copies,
    is_whole: bool,
    /// Between the writes of the superblock and of other blocks the journal could not be found.
    moves_journal: bool,
}

/// The plan of a change: with bitmaps, counters and quota that follow from it. `log` is where the journal is before it, and `next` gets what
/// the check of the changed image has found.
fn completed(
    device: &dyn BlockDevice,
    change: Change,
    log: Option<LogPlace>,
    next: &mut dyn FnMut(&Examined<'_>),
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Plan> {
    let mut plan = complete(device, change.patch, next, options, progress)?;
    if !plan.mends_all() {
        let fault = plan.after.faults.first();
        let why = fault.map_or(String::new(), ToString::to_string);
        return Err(ChangeError::refused(format!(
            "the changed image has a fault: {why}"
        )));
    }
    plan.log_stays = plan.log.is_some() && plan.log == log && !change.moves_journal;
    plan.first = change.first;
    plan.copies = change.copies;
    plan.is_whole = change.is_whole;
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
    let (_, report) = examine(&edited, options, progress, |_, _, _| true)?;
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
    for g in (1..geo.groups_count).map(GroupNo) {
        if !geo.has_super(g) {
            continue;
        }
        let at = geo.group_first_block(g);
        let mut block = ed.block(at)?;
        let bytes = block.get_mut(..SUPERBLOCK_SIZE);
        if let Some(raw) = bytes.and_then(RawSuperblock::mut_from) {
            *raw = new.backup_in(g);
            ed.put_block(at, &block);
        }
    }
    Ok(())
}
