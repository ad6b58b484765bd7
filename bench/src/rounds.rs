//! Rounds: every arm takes its turn in each, so that what the machine does meanwhile meets all of them.
//!
//! # Invariants
//! The order turns by one from turn to turn, so that no arm always goes first. Each arm has an image of
//! its own, made the same way. It stays mounted for all rounds if it lies in memory and all of them fit, unless the
//! workload wants it anew; otherwise it is made, or the one that is there mounted, in each round.

use crate::arms::Arm;
use crate::bed::Bed;
use crate::device::{DeviceSpec, ImageSpec};
use crate::memory;
use crate::progress::Progress;
use crate::setup::SetupArgs;
use anyhow::Context as _;
use std::sync::Arc;
use uext4_ext4::Ext4;

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The arm by its place in the list; the peers come after the last arm.
    pub lane: usize,
    /// Which of the counts of threads.
    pub case: usize,
    /// The round.
    pub round: usize,
}

/// What is measured.
pub trait Workload {
    /// What it keeps for a mount.
    type State;

    /// Makes directories and runs once to warm up.
    fn prepare(&self, fs: &Arc<Ext4>) -> anyhow::Result<Self::State>;

    /// Runs once.
    fn run(&mut self, turn: Turn, bed: &Bed, state: &Self::State) -> anyhow::Result<()>;

    /// Runs a peer once.
    fn run_peer(&mut self, _turn: Turn) -> anyhow::Result<()> {
        Ok(())
    }

    /// Removes what it made from an image that stays.
    fn clean(&self, fs: &Arc<Ext4>, state: Self::State) -> anyhow::Result<()>;
}

/// What is run how often.
pub struct Rounds<'a> {
    /// Of the command line.
    pub setup: &'a SetupArgs,
    /// The arms.
    pub arms: &'a [Arm],
    /// The image of each.
    pub image: ImageSpec,
    /// How often.
    pub rounds: usize,
    /// Runs of an arm in a round, each with another count of threads.
    pub cases: usize,
    /// Images and mounts are made for each round: how fast two CPUs are together depends on where the structures of a
    /// mount lie in memory, for as long as it is mounted.
    pub anew: bool,
    /// The names of the peers, which have no image.
    pub peers: &'a [&'static str],
    /// Adds what a case is to the progress shown.
    pub label: &'a dyn Fn(usize) -> String,
}

impl Rounds<'_> {
    /// Runs them all, and checks every image.
    pub fn run<W: Workload>(&self, workload: &mut W) -> anyhow::Result<()> {
        if let DeviceSpec::File(path) = &self.image.device
            && self.image.found
        {
            eprintln!("uses the image {} as it is", path.display());
        }
        let steps = self.rounds * self.cases * self.lanes();
        let mut progress = Progress::new(steps as u64);
        if !self.anew && self.all_at_once() {
            self.run_mounted(workload, &mut progress)
        } else {
            self.run_apart(workload, &mut progress)
        }
    }

    fn lanes(&self) -> usize {
        self.arms.len() + self.peers.len()
    }

    fn all_at_once(&self) -> bool {
        let together = self.image.memory_bytes() * self.arms.len() as u64;
        let in_memory = self.image.device == DeviceSpec::Mem;
        self.arms.len() == 1 || (in_memory && together < memory::available_bytes() / 2)
    }

    fn run_mounted<W: Workload>(
        &self,
        workload: &mut W,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let mut beds = Vec::new();
        for arm in self.arms {
            progress.begin(format!("warm-up, {}", arm.name));
            beds.push(self.make(workload, arm)?);
        }
        for round in 0..self.rounds {
            for case in 0..self.cases {
                for lane in turned(self.lanes(), round + case) {
                    let turn = Turn { lane, case, round };
                    self.take(workload, turn, beds.get(lane), progress)?;
                }
            }
        }
        beds.into_iter()
            .try_for_each(|bed| self.finish(workload, bed))
    }

    fn run_apart<W: Workload>(
        &self,
        workload: &mut W,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        for round in 0..self.rounds {
            for lane in turned(self.lanes(), round) {
                let bed = match self.arms.get(lane) {
                    Some(arm) => Some(self.make(workload, arm)?),
                    None => None,
                };
                for case in 0..self.cases {
                    let turn = Turn { lane, case, round };
                    self.take(workload, turn, bed.as_ref(), progress)?;
                }
                if let Some(bed) = bed {
                    self.finish(workload, bed)?;
                }
            }
        }
        Ok(())
    }

    fn make<W: Workload>(&self, workload: &W, arm: &Arm) -> anyhow::Result<(Bed, W::State)> {
        let bed = Bed::make(&self.image, &arm.options)?;
        let state = workload.prepare(bed.fs())?;
        Ok((bed, state))
    }

    fn take<W: Workload>(
        &self,
        workload: &mut W,
        turn: Turn,
        bed: Option<&(Bed, W::State)>,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let peer = || self.peers.get(turn.lane - self.arms.len());
        let name = match self.arms.get(turn.lane) {
            Some(arm) => &arm.name,
            None => peer().map_or("peer", |name| name),
        };
        let case = (self.label)(turn.case);
        let (round, rounds) = (turn.round + 1, self.rounds);
        progress.begin(format!("round {round}/{rounds}, {name}, {case}"));
        match bed {
            Some((bed, state)) => workload.run(turn, bed, state)?,
            None => workload.run_peer(turn).with_context(|| name.to_owned())?,
        }
        progress.done();
        Ok(())
    }

    fn finish<W: Workload>(&self, workload: &W, bed: (Bed, W::State)) -> anyhow::Result<()> {
        let (bed, state) = bed;
        if self.image.found || self.image.keep {
            workload.clean(bed.fs(), state)?;
        } else {
            drop(state);
        }
        bed.finish(!self.setup.no_check)
    }
}

/// `0..n`, begun at `by` and turned round.
pub(crate) fn turned(n: usize, by: usize) -> impl Iterator<Item = usize> {
    (0..n).map(move |i| (i + by) % n)
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_lane_always_goes_first() {
        let order = |by| super::turned(3, by).collect::<Vec<_>>();
        assert_eq!(order(0), [0, 1, 2]);
        assert_eq!(order(1), [1, 2, 0]);
        assert_eq!(order(5), [2, 0, 1]);
    }
}
