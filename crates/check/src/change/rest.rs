//! What a repair leaves to be made again: the journal, and hash trees.

use super::{ChangeError, Tuning, plan_tune};
use crate::edits::EditedDevice;
use crate::prelude::*;
use crate::repair::plan::Plan;
use crate::repair::trees;
use crate::report::{CheckOptions, Progress};
use uext4_ondisk::{Feature, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE};

/// Plans what is to be done after a repair, which a plan of it does not hold: another journal in place of one that it removes, then hash trees
/// of the directories that lost theirs and work without, but slowly. They are carried out in order; the trees whole or not at all, as all
/// entries get other places. What there is not enough space for is left out.
///
/// # Errors
/// As of [`crate::check`].
pub fn plan_rest(
    device: &dyn BlockDevice,
    repair: &Plan,
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Vec<Plan>> {
    if !repair.mends_all() {
        return Ok(Vec::new());
    }
    let mut all = repair.edits.clone();
    let mut plans = Vec::new();
    let repaired = EditedDevice::new(device, &all);
    if has_journal(device)? && !has_journal(&repaired)? {
        let tuning = Tuning {
            features: vec![(Feature::Compat(Compat::HAS_JOURNAL), true)],
            ..Tuning::default()
        };
        match plan_tune(&repaired, &tuning, options, progress) {
            Ok(journal) => plans = journal,
            Err(ChangeError::Check(e)) => return Err(e),
            Err(_) => {}
        }
    }
    for plan in &plans {
        all.absorb(plan.edits.clone());
    }
    let log = plans.last().map_or(&repair.log, |plan| &plan.log);
    let repaired = repair.decisions.iter().filter(|d| d.repaired);
    let inodes = repaired.filter_map(|d| d.fault.ino).collect();
    let trees = trees::plan(device, &all, log.as_ref(), &inodes, options, progress)?;
    plans.extend(trees);
    Ok(plans)
}

/// Whether the image has, or had before it was damaged, a journal in itself.
fn has_journal(device: &dyn BlockDevice) -> Result<bool> {
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes)?;
    let raw = RawSuperblock::mut_from(&mut bytes);
    Ok(raw.is_some_and(|raw| {
        raw.compat().contains(Compat::HAS_JOURNAL) && raw.journal_dev.get() == 0
    }))
}
