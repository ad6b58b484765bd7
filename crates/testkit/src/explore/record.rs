//! A sequence, run on a recorded device.

use super::alphabet::Step;
use super::base::{BLOCK, Base, TOP};
use super::bug::Bug;
use crate::device::{CrashPoint, Cut, ForkDevice, Image, RecordDevice, RecordLog, RecordOp};
use crate::external::*;
use crate::model::Model;
use crate::operation::{Op, apply_to_ext4};
use crate::verdict::{Guarantee, History, guarantee_of};

/// The marker before the first step.
pub const START: u64 = u64::MAX;

/// What was done to a device, and what was guaranteed meanwhile.
#[derive(Debug)]
pub struct Recording {
    /// What the device held at the start.
    pub image: Image,
    /// What changed it; its base is not that image, but empty.
    pub log: RecordLog,
    /// What each worker did.
    pub histories: Vec<History>,
    /// The guarantees by number of their mark: worker and guarantee.
    pub guarantees: Vec<(usize, Guarantee)>,
}

impl Recording {
    /// The first operation after the start.
    pub fn start(&self) -> usize {
        let is_start = |op: &RecordOp| matches!(op, RecordOp::Mark(START));
        self.log.ops.iter().position(is_start).unwrap_or(0)
    }

    /// What was guaranteed to each worker before a point.
    pub fn guarantees_before(&self, point: &CrashPoint) -> Vec<Vec<Guarantee>> {
        let mut guarantees = vec![Vec::new(); self.histories.len()];
        for mark in self.log.marks_before(&Cut::at(point.at_op)) {
            let made = usize::try_from(mark.value)
                .ok()
                .and_then(|n| self.guarantees.get(n));
            if let Some((worker, guarantee)) = made {
                guarantees[*worker].push(*guarantee);
            }
        }
        guarantees
    }
}

/// Whether the steps after the first few begin with something that works, so that the sequence is not a duplicate.
pub fn is_its_own(base: &Base, steps: &[Step]) -> bool {
    let mut model = base.model.clone();
    steps.iter().all(|step| model.apply(&step.op).is_ok())
}

/// A run of one sequence.
struct Run<'b> {
    base: &'b Base,
    device: Arc<RecordDevice<Arc<ForkDevice>>>,
    model: Model,
    states: Vec<Model>,
    changes: Vec<Op>,
    guarantees: Vec<(usize, Guarantee)>,
}

/// Runs a sequence; `variant` chooses where in its log the file system is at the start.
pub fn record(base: &Base, steps: &[Step], variant: u64) -> Result<Recording> {
    let device = Arc::new(ForkDevice::new(base.image.clone()));
    let device = Arc::new(RecordDevice::over(device, MemoryDevice::new(0)));
    let fs = base.mount(Arc::clone(&device) as Arc<_>)?;
    let mut run = Run {
        base,
        device,
        model: base.model.clone(),
        states: Vec::new(),
        changes: Vec::new(),
        guarantees: Vec::new(),
    };
    run.fill_log(&fs, variant)?;
    run.device.mark(START);
    run.states.push(run.model.clone());
    let mut open = Vec::new();
    for step in steps {
        open.extend(run.change(&fs, &step.op)?);
        if let Some(sync) = step.sync_op(&run.model) {
            run.sync(&fs, &sync)?;
        }
    }
    // As the commit interval does.
    fs.volume.journal().sync()?;
    drop(open);
    fs.unmount()?;
    drop(fs);
    Ok(Recording {
        image: base.image.clone(),
        log: run.device.log(),
        histories: vec![History {
            name: TOP.to_owned(),
            states: run.states,
            changes: run.changes,
        }],
        guarantees: run.guarantees,
    })
}

impl Run<'_> {
    /// Commits so many blocks that a log that is to wrap does so in the steps, sooner or later.
    fn fill_log(&mut self, fs: &Arc<Ext4>, variant: u64) -> Result<()> {
        if !self.base.config.wraps {
            return Ok(());
        }
        let path = format!("{TOP}/j").into_bytes();
        let blocks = self.base.log.end - self.base.log.start;
        let mut left = blocks - 20 - variant % 40;
        for byte in 0x80.. {
            // A commit takes some blocks besides.
            let Some(now) = left.min(220).checked_sub(12).filter(|now| *now > 0) else {
                break;
            };
            let write = Op::Write {
                path: path.clone(),
                at: 0,
                data: vec![byte; now as usize * BLOCK],
                direct: false,
            };
            self.change(fs, &write)?;
            fs.sync()?;
            left -= left.min(220);
        }
        self.change(fs, &Op::Truncate { path, size: 3000 })?;
        fs.sync()?;
        self.states.clear();
        self.changes.clear();
        Ok(())
    }

    fn change(&mut self, fs: &Arc<Ext4>, op: &Op) -> Result<Option<uext4_ext4::InodeRef>> {
        let expected = self.model.apply(op);
        match (apply_to_ext4(fs, op), expected) {
            (Ok(node), Ok(())) => {
                self.states.push(self.model.clone());
                self.changes.push(op.clone());
                Ok(node)
            }
            (Err(e), Err(errno)) if e == errno => Ok(None),
            (done, expected) => {
                let done = done.map(|_| ());
                bail!("{op:?}: {done:?} instead of {expected:?}")
            }
        }
    }

    fn sync(&mut self, fs: &Arc<Ext4>, op: &Op) -> Result<()> {
        if self.base.bug != Some(Bug::SyncForgotten) {
            apply_to_ext4(fs, op).with_context(|| format!("{op:?}"))?;
        }
        if let Some(guarantee) = guarantee_of(&self.model, op) {
            self.guarantees.push((0, guarantee));
            self.device.mark(self.guarantees.len() as u64 - 1);
        }
        Ok(())
    }
}
