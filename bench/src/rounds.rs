//! Rounds: every variant takes its turn in each, so that what the machine does meanwhile meets all of them.
//!
//! # Invariants
//! The order turns by one from turn to turn, so that no variant always goes first. Each variant has an image of
//! its own, made the same way. It stays mounted for all rounds if it lies in memory and all of them fit, unless the
//! workload wants it anew; otherwise it is made, or the one that is there mounted, in each round.

use crate::device::{DeviceSpec, ImageSpec};
use crate::memory;
use crate::mounted_image::MountedImage;
use crate::progress::Progress;
use crate::setup::SetupArgs;
use crate::variants::Variant;
use anyhow::Context as _;
use std::sync::Arc;
use uext4_ext4::Ext4;

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The variant by its place in the list; the peers follow the last variant.
    pub series: usize,
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
    fn run(&mut self, turn: Turn, image: &MountedImage, state: &Self::State) -> anyhow::Result<()>;

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
    /// The variants.
    pub variants: &'a [Variant],
    /// The image of each.
    pub image: ImageSpec,
    /// How often.
    pub rounds: usize,
    /// Runs of a variant in a round, each with another count of threads.
    pub cases: usize,
    /// Images and mounts are made for each round: how fast two CPUs are together depends on where the structures of a
    /// mount lie in memory, while it is mounted.
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
        let steps = self.rounds * self.cases * self.all_series();
        let mut progress = Progress::new(steps as u64);
        if !self.anew && self.all_at_once() {
            self.run_mounted(workload, &mut progress)
        } else {
            self.run_apart(workload, &mut progress)
        }
    }

    fn all_series(&self) -> usize {
        self.variants.len() + self.peers.len()
    }

    fn all_at_once(&self) -> bool {
        let together = self.image.memory_bytes() * self.variants.len() as u64;
        let in_memory = self.image.device == DeviceSpec::Mem;
        self.variants.len() == 1 || (in_memory && together < memory::available_bytes() / 2)
    }

    fn run_mounted<W: Workload>(
        &self,
        workload: &mut W,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let mut images = Vec::new();
        for variant in self.variants {
            progress.begin(format!("warm-up, {}", variant.name));
            images.push(self.make(workload, variant)?);
        }
        for round in 0..self.rounds {
            for case in 0..self.cases {
                for series in turned(self.all_series(), round + case) {
                    let turn = Turn {
                        series,
                        case,
                        round,
                    };
                    self.take(workload, turn, images.get(series), progress)?;
                }
            }
        }
        images
            .into_iter()
            .try_for_each(|image| self.finish(workload, image))
    }

    fn run_apart<W: Workload>(
        &self,
        workload: &mut W,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        for round in 0..self.rounds {
            for series in turned(self.all_series(), round) {
                let image = match self.variants.get(series) {
                    Some(variant) => Some(self.make(workload, variant)?),
                    None => None,
                };
                for case in 0..self.cases {
                    let turn = Turn {
                        series,
                        case,
                        round,
                    };
                    self.take(workload, turn, image.as_ref(), progress)?;
                }
                if let Some(image) = image {
                    self.finish(workload, image)?;
                }
            }
        }
        Ok(())
    }

    fn make<W: Workload>(
        &self,
        workload: &W,
        variant: &Variant,
    ) -> anyhow::Result<(MountedImage, W::State)> {
        let image = MountedImage::make(&self.image, &variant.options)?;
        let state = workload.prepare(image.fs())?;
        Ok((image, state))
    }

    fn take<W: Workload>(
        &self,
        workload: &mut W,
        turn: Turn,
        image: Option<&(MountedImage, W::State)>,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let peer = || self.peers.get(turn.series - self.variants.len());
        let name = match self.variants.get(turn.series) {
            Some(variant) => &variant.name,
            None => peer().map_or("peer", |name| name),
        };
        let case = (self.label)(turn.case);
        let (round, rounds) = (turn.round + 1, self.rounds);
        progress.begin(format!("round {round}/{rounds}, {name}, {case}"));
        match image {
            Some((image, state)) => workload.run(turn, image, state)?,
            None => workload.run_peer(turn).with_context(|| name.to_owned())?,
        }
        progress.done();
        Ok(())
    }

    fn finish<W: Workload>(
        &self,
        workload: &W,
        image: (MountedImage, W::State),
    ) -> anyhow::Result<()> {
        let (image, state) = image;
        if self.image.found || self.image.keep {
            workload.clean(image.fs(), state)?;
        } else {
            drop(state);
        }
        image.finish(!self.setup.no_check)
    }
}

/// `0..n`, begun at `by` and turned round.
pub(crate) fn turned(n: usize, by: usize) -> impl Iterator<Item = usize> {
    (0..n).map(move |i| (i + by) % n)
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_series_always_goes_first() {
        let order = |by| super::turned(3, by).collect::<Vec<_>>();
        assert_eq!(order(0), [0, 1, 2]);
        assert_eq!(order(1), [1, 2, 0]);
        assert_eq!(order(5), [2, 0, 1]);
    }
}
