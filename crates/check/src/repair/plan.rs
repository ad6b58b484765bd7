//! The rounds of a plan.

use super::remedy::{self, Remedy};
use super::{descs, restore, stages};
use crate::edits::{EDIT_UNIT, EditedDevice, Edits};
use crate::fault::Level;
use crate::layout::INODE_TABLE;
use crate::passes::{self, Examined, KnownFiles, Stage};
use crate::prelude::*;
use crate::report::{CheckOptions, CheckReport, Progress};
use std::collections::{HashMap, HashSet};

/// Rounds after which what is left stays.
const ROUNDS_MAX: usize = 200;
/// Faults that a round keeps at most, so that their number does not decide how many rounds there are.
const FAULTS_MAX: usize = 1 << 18;
/// How often a repair of the same fault is tried.
const TRIES_MAX: u32 = 12;

/// Chooses which faults are repaired.
pub trait Decide {
    /// Whether to repair this fault. It is asked once for each.
    fn repair(&mut self, fault: &Fault, remedy: &Remedy) -> bool;
}

/// A choice that needs no questions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Policy {
    /// Every fault that can be repaired.
    All,
    /// Those whose repair loses nothing and has one right outcome.
    Safe,
}

impl Decide for Policy {
    fn repair(&mut self, _fault: &Fault, remedy: &Remedy) -> bool {
        *self == Policy::All || remedy.safe
    }
}

/// A fault, and what is done about it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Decision {
    /// The fault.
    pub fault: Fault,
    /// What a repair does; `None` if nothing can be done.
    pub remedy: Option<Remedy>,
    /// Whether it is done.
    pub repaired: bool,
}

/// What a repair writes, and why.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Plan {
    /// The new bytes.
    pub edits: Edits,
    /// Every fault that was found, in the order of the rounds.
    pub decisions: Vec<Decision>,
    /// What the last check found: faults that stay, if the plan is carried out.
    pub after: CheckReport,
    /// The first check.
    pub before: CheckReport,
    /// Of the edits, those that recovery of the journal makes, if it does: they precede the others.
    pub replay: Edits,
    /// Of the edits, those that are durable before any other: with them alone the image is one that a repair completes.
    pub first: Edits,
    /// Bytes that are copied, durably, before any edit: from, to, how many. Nothing uses the places that they go to.
    pub copies: Vec<(u64, u64, u64)>,
    /// Where the journal lies after the repair, if there is one.
    pub log: Option<LogPlace>,
    /// The journal was sound at this place before the repair too.
    pub log_stays: bool,
    /// A part of the edits alone would leave a damaged image: they are written through the journal or with an undo file, or not at all.
    pub is_whole: bool,
}

/// Where a sound journal lies in an image, and what it needs to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogPlace {
    /// Runs of its blocks in order: the first block of the journal, the block of the image, how many.
    pub runs: Vec<(u32, Pblk, u32)>,
    /// Bytes of a block.
    pub block_size: u32,
    /// The image has `metadata_csum`.
    pub has_checksums: bool,
    /// The image has `64bit`.
    pub is_wide: bool,
    /// The image has `fast_commit`.
    pub has_fast_commits: bool,
}

impl LogPlace {
    /// `None` if the check found no sound journal.
    pub(crate) fn of(examined: &Examined<'_>) -> Option<LogPlace> {
        let cx = examined.cx.as_ref()?;
        let log = cx.log.as_ref()?;
        let mut end = 0;
        let mut runs = Vec::new();
        for run in &log.runs {
            // The log ends at a hole, which is more than a journal may have.
            if run.lblk != end {
                break;
            }
            runs.push((run.lblk, Pblk(run.pblk), run.len));
            end = end.saturating_add(run.len);
        }
        (end >= log.sb.raw.maxlen.get()).then_some(LogPlace {
            runs,
            block_size: cx.geo.block_size,
            has_checksums: cx.sb.has_metadata_csum(),
            is_wide: cx.sb.incompat.contains(Incompat::BIT64),
            has_fast_commits: cx.sb.compat.contains(Compat::FAST_COMMIT),
        })
    }
}

impl Plan {
    /// One plan of several that follow each other, to be carried out with an undo file: in between the image may be damaged.
    pub fn join(plans: Vec<Plan>) -> Plan {
        let mut plans = plans.into_iter();
        let mut joined = plans.next().unwrap_or_default();
        for plan in plans {
            joined.edits.absorb(plan.edits);
            joined.copies.extend(plan.copies);
            joined.after = plan.after;
        }
        Plan {
            is_whole: true,
            log: None,
            ..joined
        }
    }

    /// True if it is carried out with an undo file only.
    pub fn needs_undo(&self) -> bool {
        self.is_whole && !self.log_stays && !self.is_empty()
    }

    /// True if nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// True if the image has no fault once the plan is carried out.
    pub fn mends_all(&self) -> bool {
        self.after.is_clean() && !self.after.incomplete
    }
}

/// What makes a fault the same one in another round.
type Key = (FaultKind, Option<Ino>, Option<Pblk>, Option<GroupNo>);

fn key(f: &Fault) -> Key {
    (f.kind, f.ino, f.pblk, f.group)
}

/// What was decided of a fault.
#[derive(Clone, Copy)]
struct Known {
    repair: bool,
    tries: u32,
    /// The round of the last try; a round may find the same fault several times.
    round: usize,
    /// Which of the plan's decisions is this.
    decision: usize,
}

struct Planner<'p> {
    decide: &'p mut dyn Decide,
    /// Gets the last check, if the image has no fault then.
    next: &'p mut dyn FnMut(&Examined<'_>),
    known: HashMap<Key, Known>,
    /// What it was decided to leave, though it could be repaired.
    declined: HashSet<Key>,
    plan: Plan,
    round: usize,
    /// Whether the repairs of this round are what recovery writes.
    replays: bool,
    /// Whether this round found a journal that can be replayed.
    log_is_sound: bool,
    /// Whether this round, and an earlier one that changed something, knew what the inodes map.
    scanned: bool,
    was_scanned: bool,
    /// The image had no fault before what is completed.
    was_sound: bool,
    /// What the last round found out about files, if it changed only bitmaps and counters.
    files: Option<KnownFiles>,
}

/// Notes that a repair settles too: what e2fsck would write, though it finds the image clean.
fn is_mended(fault: &Fault) -> bool {
    fault.level == Level::Fault
        || matches!(
            fault.kind,
            FaultKind::JournalPending
                | FaultKind::OrphanPending
                | FaultKind::OrphanIno
                | FaultKind::OrphanLoop
                | FaultKind::SuperblockFreeBlocks
                | FaultKind::SuperblockFreeInodes
                | FaultKind::BackupSuperblock
                | FaultKind::QuotaInode
                | FaultKind::QuotaTree
                | FaultKind::InodeReserved
        )
}

/// Faults whose repair writes to blocks that a file may claim: they wait until every file has its own blocks.
fn is_late(fault: &Fault) -> bool {
    fault.kind == FaultKind::BackupSuperblock
        || matches!(fault.kind, FaultKind::Structure(k) if format!("{k:?}").starts_with("Journal"))
}

/// Makes a plan that repairs what `decide` chooses. Nothing is written.
///
/// # Errors
/// As of [`crate::check`].
pub fn plan(
    device: &dyn BlockDevice,
    options: &CheckOptions,
    decide: &mut dyn Decide,
    progress: &dyn Progress,
) -> Result<Plan> {
    Planner::new(decide, &mut |_| {}).run(device, options, progress)
}

/// Repairs that a change of settings leaves to be done.
struct Bookkeeping;

impl Decide for Bookkeeping {
    fn repair(&mut self, fault: &Fault, remedy: &Remedy) -> bool {
        // The inode of a journal that was removed; usage, which was not known before.
        let of_change = [FaultKind::InodeReserved, FaultKind::QuotaFile];
        remedy.safe || of_change.contains(&fault.kind)
    }
}

/// Completes changes of an image that had no fault: bitmaps, counters and quota follow from them. What the last check found is for the
/// next change, if the image has no fault then.
///
/// # Errors
/// As of [`crate::check`].
pub(crate) fn complete(
    device: &dyn BlockDevice,
    changes: Edits,
    next: &mut dyn FnMut(&Examined<'_>),
    options: &CheckOptions,
    progress: &dyn Progress,
) -> Result<Plan> {
    let mut decide = Bookkeeping;
    let mut planner = Planner::new(&mut decide, next);
    planner.plan.edits = changes;
    planner.was_scanned = true;
    planner.was_sound = true;
    planner.run(device, options, progress)
}

impl<'p> Planner<'p> {
    fn new(decide: &'p mut dyn Decide, next: &'p mut dyn FnMut(&Examined<'_>)) -> Planner<'p> {
        Planner {
            decide,
            next,
            known: HashMap::new(),
            declined: HashSet::new(),
            plan: Plan::default(),
            round: 0,
            replays: false,
            log_is_sound: false,
            scanned: false,
            was_scanned: false,
            was_sound: false,
            files: None,
        }
    }

    /// All rounds.
    fn run(
        mut self,
        device: &dyn BlockDevice,
        options: &CheckOptions,
        progress: &dyn Progress,
    ) -> Result<Plan> {
        let of_round = CheckOptions {
            faults_max: options.faults_max.max(FAULTS_MAX),
            ..*options
        };
        for round in 0..ROUNDS_MAX {
            self.round = round;
            (self.replays, self.scanned) = (false, false);
            if !self.round(device, &of_round, progress)? {
                break;
            }
        }
        let plan = &mut self.plan;
        plan.edits.drop_unchanged(device, &plan.replay)?;
        for report in [&mut plan.before, &mut plan.after] {
            report.faults.truncate(options.faults_max);
            report.notes.truncate(options.faults_max);
        }
        Ok(self.plan)
    }
}

impl Planner<'_> {
    /// One round; false if there is nothing more to do.
    fn round(
        &mut self,
        device: &dyn BlockDevice,
        options: &CheckOptions,
        progress: &dyn Progress,
    ) -> Result<bool> {
        let edits = std::mem::take(&mut self.plan.edits);
        let edited = EditedDevice::new(device, &edits);
        let found = self.examine_and_repair(&edited, options, progress);
        let is_first = edits.is_empty();
        self.plan.edits = edits;
        let (mut patch, more) = found?;
        if is_first && self.replays {
            self.plan.replay = patch.clone();
        }
        if self.was_scanned {
            patch.forget_fresh();
        }
        self.was_scanned |= self.scanned;
        self.plan.edits.absorb(patch);
        Ok(more)
    }

    fn examine_and_repair(
        &mut self,
        device: &dyn BlockDevice,
        options: &CheckOptions,
        progress: &dyn Progress,
    ) -> Result<(Edits, bool)> {
        let mut report = CheckReport::default();
        let mut faults = Faults::new(options.faults_max);
        let (mut pending, mut files_are_sound) = (false, true);
        let files = self.files.take();
        let examined = {
            let known = &self.known;
            let mut stop = |stage, faults: &Faults, report: &CheckReport| {
                let last = stage == Stage::Groups;
                let open = |f: &Fault| is_pending(known, f) && (last || !is_late(f));
                // What recovery would write precedes repairs, as it would overwrite them.
                pending = report.needs_recovery || faults.iter().any(open);
                files_are_sound &= last || faults.iter().all(|f| f.level != Level::Fault);
                pending
            };
            passes::examine(
                device,
                options,
                progress,
                &mut report,
                &mut faults,
                files,
                &mut stop,
            )
        };
        let examined = match examined {
            Ok(examined) => examined,
            Err(e) => return Ok((self.without_check(device, faults, e)?, true)),
        };
        self.note_log(&examined);
        pending |= examined.cx.is_none() && faults.iter().any(|f| is_pending(&self.known, f));
        let found = self.to_mend(&faults, &examined, &report);
        report.incomplete = examined.cx.is_none();
        report.take(faults);
        if self.round == 0 {
            self.plan.before = report.clone();
        }
        self.plan.after = report;
        if !pending {
            return self.finish(&examined);
        }
        let accepted = self.decide(found);
        let recovery = accepted.iter().any(|f| f.kind == FaultKind::JournalPending);
        let waits = !self.log_is_sound && accepted.iter().any(descs::names_no_place);
        self.replays = recovery && self.log_is_sound && examined.stage == Stage::Superblock;
        self.scanned = examined.scanned.is_some();
        if self.plan.after.needs_recovery && !recovery && !waits {
            return Ok((Edits::default(), false));
        }
        if accepted.is_empty() {
            return Ok((Edits::default(), true));
        }
        let mut patch = self.repair(device, &examined, &accepted)?;
        patch.drop_unchanged(device, &Edits::default())?;
        if patch.is_empty() {
            self.give_up(&accepted);
        }
        if self.was_sound && files_are_sound && is_of_groups(&examined, &patch) {
            self.files = KnownFiles::of(examined, &self.plan.after);
        }
        Ok((patch, true))
    }

    /// The faults that this round may repair.
    fn to_mend(
        &self,
        faults: &Faults,
        examined: &Examined<'_>,
        report: &CheckReport,
    ) -> Vec<Fault> {
        let mut found: Vec<Fault> = faults.iter().filter(|f| is_mended(f)).cloned().collect();
        found.retain(|f| is_pending(&self.known, f));
        if examined.stage != Stage::Groups || found.iter().any(|f| !is_late(f)) {
            found.retain(|f| !is_late(f));
        }
        if !self.log_is_sound && found.iter().any(descs::names_no_place) {
            // The journal is an inode: what is wrong with it may be where inodes are.
            found.retain(|f| f.kind != FaultKind::JournalInode);
        } else if report.needs_recovery {
            found.push(Fault::new(FaultKind::JournalPending).note());
        }
        found
    }

    /// Notes where this round found the journal.
    fn note_log(&mut self, examined: &Examined<'_>) {
        let log = LogPlace::of(examined);
        let stays = self.round == 0 || self.plan.log_stays && self.plan.log == log;
        self.plan.log_stays = stays && log.is_some();
        self.plan.log = log;
        self.log_is_sound = examined.cx.as_ref().is_some_and(|cx| cx.log.is_some());
    }

    /// What can be done where not even a check can run.
    fn without_check(
        &mut self,
        device: &dyn BlockDevice,
        mut faults: Faults,
        e: CheckError,
    ) -> Result<Edits> {
        self.plan.log_stays = false;
        let patch = match &e {
            CheckError::Format(format) if restore::is_damage(format) => {
                faults.push(Fault::new(FaultKind::SuperblockGeometry).detail(format));
                self.restore(device, &faults)?
            }
            // Names are not folded without an encoding, so the feature was never there.
            CheckError::Unsupported(_) => {
                Some(restore::without_folding(device)?).filter(|patch| !patch.is_empty())
            }
            _ => None,
        };
        patch.ok_or(e)
    }

    /// The image has no fault but those that stay: it is marked as clean, if it is not.
    fn finish(&mut self, examined: &Examined<'_>) -> Result<(Edits, bool)> {
        let marked = match &examined.cx {
            Some(cx) if self.plan.after.is_clean() => stages::mark_clean(cx)?,
            _ => None,
        };
        let more = marked.is_some();
        if !more && self.plan.mends_all() {
            (self.next)(examined);
        }
        Ok((marked.unwrap_or_default(), more))
    }

    fn repair(
        &self,
        device: &dyn BlockDevice,
        examined: &Examined<'_>,
        accepted: &[Fault],
    ) -> Result<Edits> {
        let Some(cx) = &examined.cx else {
            return Ok(restore::from_backup(device)?.unwrap_or_default());
        };
        stages::repair(cx, examined, accepted, &self.plan.after)
    }

    /// A superblock that does not even name a file system.
    fn restore(&mut self, device: &dyn BlockDevice, faults: &Faults) -> Result<Option<Edits>> {
        let found: Vec<Fault> = faults.iter().cloned().collect();
        let found = found
            .into_iter()
            .filter(|f| is_pending(&self.known, f))
            .collect();
        match self.decide(found).is_empty() {
            true => Ok(None),
            false => restore::from_backup(device),
        }
    }

    /// Asks about the faults, and returns those to repair.
    fn decide(&mut self, found: Vec<Fault>) -> Vec<Fault> {
        let (mut accepted, mut left) = (Vec::new(), HashSet::new());
        for fault in found {
            let remedy = match fault.kind {
                FaultKind::JournalPending if !self.log_is_sound => Some(remedy::LOST_JOURNAL),
                kind => remedy::of(kind),
            };
            let known = self.known.get(&key(&fault)).copied();
            let repair = match (known, &remedy) {
                (Some(known), _) => known.repair,
                (None, Some(remedy)) => {
                    let repair = self.decide.repair(&fault, remedy);
                    if !repair {
                        self.declined.insert(key(&fault));
                    }
                    repair
                }
                (None, None) => false,
            };
            let again = known.is_some_and(|k| k.round == self.round);
            let tries = known.map_or(0, |k| k.tries) + u32::from(!again);
            let repair = repair && tries <= TRIES_MAX;
            let decision = known.map_or(self.plan.decisions.len(), |k| k.decision);
            let new = Known {
                repair,
                tries,
                round: self.round,
                decision,
            };
            self.known.insert(key(&fault), new);
            if known.is_none() {
                self.plan.decisions.push(Decision {
                    fault: fault.clone(),
                    remedy,
                    repaired: repair,
                });
            }
            if repair {
                accepted.push(fault);
            } else {
                self.mark_left(&fault);
                left.extend(fault.ino.filter(|_| self.declined.contains(&key(&fault))));
            }
        }
        // A repair writes the whole map, directory or set of attributes of an inode: also what it was decided to leave.
        let (refused, accepted): (Vec<Fault>, Vec<Fault>) = accepted
            .into_iter()
            .partition(|f: &Fault| f.ino.is_some_and(|ino| left.contains(&ino)));
        self.give_up(&refused);
        accepted
    }

    /// Notes that a fault stays, about which was decided.
    fn mark_left(&mut self, fault: &Fault) {
        let known = self.known.get(&key(fault));
        let decision = known.and_then(|known| self.plan.decisions.get_mut(known.decision));
        if let Some(decision) = decision {
            decision.repaired = false;
        }
    }

    /// Notes faults that no repair changes.
    fn give_up(&mut self, faults: &[Fault]) {
        for fault in faults {
            if let Some(known) = self.known.get_mut(&key(fault)) {
                (known.repair, known.tries, known.round) = (false, TRIES_MAX, self.round);
            }
            self.mark_left(fault);
        }
    }
}

/// True unless it was decided to leave the fault.
fn is_pending(known: &HashMap<Key, Known>, fault: &Fault) -> bool {
    is_mended(fault) && known.get(&key(fault)).is_none_or(|k| k.repair)
}

/// True if edits are of superblocks, descriptors and bitmaps alone.
fn is_of_groups(examined: &Examined<'_>, edits: &Edits) -> bool {
    let Some(cx) = &examined.cx else {
        return false;
    };
    let in_block = u64::from(cx.geo.block_size) / EDIT_UNIT as u64;
    edits.units().all(|(unit, _)| {
        let place = cx.metadata_at(Pblk(unit / in_block));
        place.is_some_and(|place| place.what != INODE_TABLE)
    })
}
