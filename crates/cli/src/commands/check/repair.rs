//! Repairs: planned, asked about, carried out.

use super::{Args, FAULTS, FaultJson, Paths, path_of, paths_of};
use crate::bar::Bar;
use crate::{ask, device, diagnostics, interrupt, show, superblock};
use anyhow::{Result, anyhow, bail};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use uext4::unstable::{
    DecideRepair, RepairDecision, RepairError, RepairPlan, RepairPolicy, RepairRemedy, UndoPlace,
    apply_repair, plan_repair, plan_rest, read_superblock, resume_repair,
};
use uext4::{BlockDevice, Fault, FaultKind};

/// The exit code when everything was repaired, as of e2fsck.
pub const REPAIRED: u8 = 1;

/// What is done without questions.
#[derive(Clone, Copy)]
pub enum Choice {
    /// Nothing: each fault is asked about.
    Ask,
    /// What a policy chooses.
    Without(RepairPolicy),
}

/// A repair that is done or was left.
#[derive(Serialize)]
pub struct RepairJson {
    #[serde(flatten)]
    fault: FaultJson,
    does: Option<&'static str>,
    loses: Option<&'static str>,
    repaired: bool,
}

/// Asks about each fault.
struct Asker<'a> {
    image: &'a Path,
    failure: Option<anyhow::Error>,
}

impl DecideRepair for Asker<'_> {
    fn repair(&mut self, fault: &Fault, remedy: &RepairRemedy) -> bool {
        if self.failure.is_some() {
            return false;
        }
        let name = show::image(self.image);
        let loses = remedy
            .loses
            .map_or(String::new(), |what| format!(", which may lose {what}"));
        let does = remedy.does;
        let question = format!("{name}: {fault}: a repair {does}{loses}; repair it");
        ask::ask(&question).unwrap_or_else(|e| {
            self.failure = Some(e);
            false
        })
    }
}

/// Plans a repair of an image and carries it out; returns the plan and the exit code.
///
/// # Errors
/// The image can't be opened, checked or written.
pub fn repair(
    args: &Args,
    image: &Path,
    choice: Choice,
    undo: Option<&UndoPlace>,
) -> Result<(RepairPlan, u8)> {
    if matches!(choice, Choice::Ask) && !std::io::stdin().is_terminal() {
        bail!(
            "{}: standard input is not a terminal to ask at; -y repairs everything, -p what loses nothing",
            image.display()
        );
    }
    let device = device::open(image, &args.device()).map_err(|e| diagnostics::device(image, e))?;
    if let Some(undo) = undo
        && resume_repair(&*device, undo)?
    {
        show::warn(format_args!(
            "{}: an interrupted repair was undone with {}",
            image.display(),
            undo.path().display()
        ));
    }
    let mut asker = Asker {
        image,
        failure: None,
    };
    let mut policy = match choice {
        Choice::Ask => RepairPolicy::All,
        Choice::Without(policy) => policy,
    };
    let decide: &mut dyn DecideRepair = match choice {
        Choice::Ask => &mut asker,
        Choice::Without(_) => &mut policy,
    };
    // A bar would be between the questions.
    let quiet = args.quiet || args.json || matches!(choice, Choice::Ask);
    let bar = Bar::unless(quiet);
    let planned = plan_repair(&*device, &args.options(), decide, &bar).and_then(|plan| {
        let rest = plan_rest(&*device, &plan, &args.options(), &bar)?;
        Ok((plan, rest))
    });
    drop(bar);
    interrupt::check()?;
    if let Some(e) = asker.failure {
        return Err(e);
    }
    let (plan, rest) = planned.map_err(|e| match superblock::remedy_of_repair(image) {
        // Which of several backups is right is a choice.
        Some(remedy) => anyhow!("{}: {remedy}", image.display()),
        None => diagnostics::checking(image, e),
    })?;
    let plan = carry_out(undo, &device, plan, rest)?;
    let removed = |d: &RepairDecision| d.repaired && d.fault.kind == FaultKind::JournalInode;
    if plan.decisions.iter().any(removed)
        && read_superblock(&*device).is_ok_and(|sb| sb.journal_ino().is_none())
    {
        let name = image.display();
        show::warn(format_args!(
            "{name}: has no journal any more, as there was no space for another; uext4 tune -O has_journal {name} makes one"
        ));
    }
    let code = match (plan.mends_all(), plan.is_empty()) {
        (true, true) => 0,
        (true, false) => REPAIRED,
        (false, _) => FAULTS,
    };
    Ok((plan, code))
}

/// Carries out a repair and what is to be done after it; returns what was planned.
fn carry_out(
    undo: Option<&UndoPlace>,
    device: &Arc<dyn BlockDevice>,
    plan: RepairPlan,
    rest: Vec<RepairPlan>,
) -> Result<RepairPlan> {
    if undo.is_some() {
        let plan = RepairPlan::join(std::iter::once(plan).chain(rest).collect());
        apply_repair(device, &plan, undo)?;
        return Ok(plan);
    }
    apply_repair(device, &plan, None)?;
    for step in &rest {
        match apply_repair(device, step, None) {
            Ok(()) => {}
            // Directories stay linear where there is no journal that takes their trees at once.
            Err(RepairError::NeedsUndo { .. }) => break,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(plan)
}

/// Prints what was done about each fault, and what is left.
///
/// # Errors
/// Standard output can't be written.
pub fn text(image: &Path, plan: &RepairPlan) -> Result<()> {
    let paths = paths_of(image, &plan.after)?;
    let mut out = std::io::stdout().lock();
    let name = show::image(image);
    for decision in &plan.decisions {
        let path =
            path_of(&decision.fault, &paths).map(|path| format!(":{}", show::path_inside(path)));
        writeln!(
            out,
            "{name}{}: {}",
            path.unwrap_or_default(),
            line(decision)
        )?;
    }
    Ok(())
}

fn line(decision: &RepairDecision) -> String {
    let fault = &decision.fault;
    match (decision.repaired, &decision.remedy) {
        (true, Some(remedy)) => {
            let loses = remedy.loses.map_or(String::new(), |what| {
                format!(", which may have lost {what}")
            });
            format!("repaired: {fault}: {}{loses}", remedy.does)
        }
        _ => format!("not repaired: {fault}"),
    }
}

/// The same as JSON.
pub fn json(plan: &RepairPlan, paths: &Paths) -> Vec<RepairJson> {
    let decisions = plan.decisions.iter();
    decisions
        .map(|d| RepairJson {
            fault: super::fault_json(&d.fault, paths),
            does: d.remedy.map(|r| r.does),
            loses: d.remedy.and_then(|r| r.loses),
            repaired: d.repaired,
        })
        .collect()
}
