//! Images whose settings or size change: what is wrong with them afterwards, and with what a crash leaves.

use super::{all_of, contents::Contents, loss::losses, plan, repaired};
use crate::verifier::{e2fsck, run};
use uext4_check::Plan;
use uext4_ondisk::{Incompat, Superblock};
use uext4_repair::{RepairError, UndoPlace};
use uext4_testkit::device::{Cut, RecordDevice};
use uext4_testkit::prelude::*;

pub fn superblock(bytes: &[u8]) -> Superblock {
    Superblock::parse(&bytes[1024..2048]).expect("superblock")
}

/// Carries plans out, one after the other, with an undo file where the journal does not take one.
pub fn carried_out(bytes: &[u8], plans: &[Plan], undo: &Path) -> Vec<u8> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(bytes));
    for plan in plans {
        match uext4_repair::apply(&device, plan, None) {
            Err(RepairError::NeedsUndo { .. }) => {
                uext4_repair::apply(&device, plan, Some(&UndoPlace::new(undo))).expect("apply");
                fs::remove_file(undo).expect("remove");
            }
            done => done.expect("apply"),
        }
    }
    all_of(&*device)
}

/// What is wrong with an image that had these files: something is lost, or our check or e2fsck finds a fault.
pub fn problems(before: &Contents, after: &[u8], path: &Path) -> Vec<String> {
    let mut wrong = losses(before, before, &Contents::read(after));
    let ours = plan(after).expect("check");
    wrong.extend(ours.decisions.iter().map(|d| d.fault.to_string()));
    // With multi-mount protection e2fsck waits until it believes that no other host uses the image.
    if !superblock(after).incompat.contains(Incompat::MMP) {
        fs::write(path, after).expect("write");
        let (clean, said) = e2fsck(path);
        wrong.extend((!clean).then_some(said));
    }
    wrong.truncate(4);
    wrong
}

/// Changes that end at any write.
pub struct Crashes<'a> {
    /// Where images are written for e2fsck.
    pub path: &'a Path,
    /// Every so many of the states that a crash can leave are tried.
    pub share: usize,
    points: u64,
    failed: Vec<String>,
}

impl<'a> Crashes<'a> {
    /// None yet.
    pub fn new(path: &'a Path, share: u64) -> Self {
        let (share, points, failed) = (share as usize, 0, Vec::new());
        Crashes {
            path,
            share,
            points,
            failed,
        }
    }

    /// Carries a plan out, and tries what a crash leaves after each write and flush, and with any part of what was not flushed: our repair,
    /// and e2fsck, make of it a sound image with the files of `before`, and with a superblock that `fits`. Returns the image without a crash.
    pub fn of(
        &mut self,
        name: &str,
        before: &Contents,
        bytes: &[u8],
        planned: &Plan,
        fits: &dyn Fn(&Superblock) -> bool,
    ) -> Vec<u8> {
        // As a host does that starts again, without questions. Once the superblock does not name a journal, that its blocks are free
        // only a full check finds.
        let drops_journal = planned.first.units().any(|(at, _)| at == 1);
        let e2fsck = if drops_journal { "-fy" } else { "-p" };
        self.states(e2fsck, name, before, bytes, fits, &|device| {
            uext4_repair::apply(device, planned, None).expect("apply");
        })
    }

    /// The same of any work on the image. A mount puts the superblock that asks for recovery into the log first; e2fsck asks whether
    /// to run that.
    pub fn after(
        &mut self,
        name: &str,
        before: &Contents,
        bytes: &[u8],
        fits: &dyn Fn(&Superblock) -> bool,
        work: &dyn Fn(&Arc<dyn BlockDevice>),
    ) -> Vec<u8> {
        self.states("-fy", name, before, bytes, fits, work)
    }

    fn states(
        &mut self,
        e2fsck: &str,
        name: &str,
        before: &Contents,
        bytes: &[u8],
        fits: &dyn Fn(&Superblock) -> bool,
        work: &dyn Fn(&Arc<dyn BlockDevice>),
    ) -> Vec<u8> {
        let memory = MemoryDevice::from_bytes(bytes);
        let recorded = Arc::new(RecordDevice::new(memory).expect("record"));
        let device: Arc<dyn BlockDevice> = recorded.clone();
        work(&device);
        let log = recorded.log();
        let mut rng = Rng::with_seed(log.ops.len() as u64);
        let all = (0..=log.ops.len()).step_by(self.share).map(Cut::at);
        let cuts: Vec<Cut> = all.flat_map(|cut| [cut, cut.seeded(rng.u64(..))]).collect();
        for cut in cuts {
            self.points += 1;
            let left = all_of(&log.replay(&cut));
            let ours = match plan(&left) {
                Ok(again) if again.mends_all() => Ok(repaired(&left, &again)),
                Ok(again) => Err(format!("{:?}", again.after.faults.first())),
                Err(e) => Err(e.to_string()),
            };
            let mut ends = vec![("repaired", ours)];
            // A superblock that was torn only our repair finds in the log (docs/SEMANTICS.md).
            let there = Superblock::parse(&left[1024..2048]);
            if there.is_ok_and(|sb| !sb.incompat.contains(Incompat::MMP)) {
                ends.push(("by e2fsck", self.by_e2fsck(e2fsck, &left)));
            }
            for (how, end) in ends {
                let wrong = match &end {
                    Ok(end) if !fits(&superblock(end)) => {
                        vec!["neither the old nor the new superblock".to_owned()]
                    }
                    Ok(end) => problems(before, end, self.path),
                    Err(why) => vec![why.clone()],
                };
                let of = wrong.iter().map(|w| format!("{name} {cut:?} {how}: {w}"));
                self.failed.extend(of);
            }
        }
        all_of(&*device)
    }

    fn by_e2fsck(&self, option: &str, left: &[u8]) -> Result<Vec<u8>, String> {
        fs::write(self.path, left).expect("write");
        let done = run("e2fsck", &[option, self.path.to_str().expect("path")]);
        match done.status.code() {
            Some(0 | 1) => Ok(fs::read(self.path).expect("image")),
            _ => Err(String::from_utf8_lossy(&done.stdout).into_owned()),
        }
    }

    /// Fails if anything was wrong.
    pub fn end(self) {
        println!("{} points", self.points);
        assert!(
            self.points > 20 && self.failed.is_empty(),
            "{}",
            self.failed.join("\n")
        );
    }
}
