//! Rounds: every variant takes its turn in each, so that what the machine does meanwhile meets all of them.
//!
//! # Invariants
//! The order turns by one from turn to turn, so that no variant always goes first. Each variant has an image of
//! its own, made the same way. It stays mounted for all rounds if it lies in memory and all of them fit, unless the
//! workload wants it anew; otherwise it is made, or the one that is there mounted, in each round.

use crate::device::{DeviceSpec, ImageSpec};
use crate::grid::Grid;
use crate::memory;
use crate::mounted_image::MountedImage;
use crate::progress::Progress;
use crate::sample::Sample;
use crate::setup::SetupArgs;
use crate::variants::Variant;
use anyhow::Context as _;
use uext4::Filesystem;

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The series by its place in the list; the peers follow the last variant.
    pub series: usize,
    /// Which of the counts of threads.
    pub case: usize,
    pub round: usize,
}

/// What is measured.
pub trait Workload {
    /// What it keeps for a mount.
    type State;

    /// Makes directories and runs once to warm up.
    fn prepare(&self, fs: &Filesystem) -> anyhow::Result<Self::State>;

    /// Runs once: a sample of each operation. `counted` counts locks.
    fn run(
        &mut self,
        turn: Turn,
        counted: bool,
        image: &MountedImage,
        state: &Self::State,
    ) -> anyhow::Result<Vec<Sample>>;

    /// Runs a peer once.
    fn run_peer(&mut self, _turn: Turn) -> anyhow::Result<Vec<Sample>> {
        Ok(Vec::new())
    }

    /// Removes what it made from an image that stays.
    fn clean(&self, fs: &Filesystem, state: Self::State) -> anyhow::Result<()>;
}

/// Gives each series its turn in each case of each round. `label` names a turn in the progress that is shown.
pub fn interleave(
    [rounds, cases, all_series]: [usize; 3],
    label: impl Fn(Turn) -> String,
    mut take: impl FnMut(Turn) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut progress = Progress::new((rounds * cases * all_series) as u64);
    for round in 0..rounds {
        for case in 0..cases {
            for series in turned(all_series, round + case) {
                let turn = Turn {
                    series,
                    case,
                    round,
                };
                progress.begin(format!("round {}/{rounds}, {}", round + 1, label(turn)));
                take(turn)?;
                progress.done();
            }
        }
    }
    Ok(())
}

/// What is run how often.
pub struct Rounds<'a> {
    /// Of the command line.
    pub setup: &'a SetupArgs,
    pub variants: &'a [Variant],
    pub image: ImageSpec,
    /// How often; one more round counts locks if that is asked for.
    pub iterations: usize,
    /// Operations that a run has a sample of.
    pub ops: usize,
    /// Runs of a variant in a round, each with another count of threads.
    pub cases: usize,
    /// Images and mounts are made for each round: how fast two CPUs are together depends on where the structures of a
    /// mount lie in memory, while it is mounted.
    pub anew: bool,
    /// The names of the peers, which have no image.
    pub peers: &'a [&'a str],
    /// Adds what a case is to the progress shown.
    pub label: &'a dyn Fn(usize) -> String,
}

impl Rounds<'_> {
    /// Runs them all, and checks every image.
    pub fn run<W: Workload>(&self, workload: &mut W) -> anyhow::Result<Grid> {
        if let DeviceSpec::File(path) = &self.image.device
            && self.image.found
        {
            eprintln!("uses the image {} as it is", path.display());
        }
        let rounds = self.setup.rounds(self.iterations);
        let all_series = self.variants.len() + self.peers.len();
        let mut grid = Grid::new(all_series, self.cases, self.ops);
        let name = |series: usize| match self.variants.get(series) {
            Some(variant) => &variant.name,
            None => self.peers[series - self.variants.len()],
        };
        let label = |turn: Turn| format!("{}, {}", name(turn.series), (self.label)(turn.case));
        if !self.anew && self.all_at_once() {
            let images = self
                .variants
                .iter()
                .map(|variant| self.make(workload, variant));
            let images: Vec<_> = images.collect::<Result<_, _>>()?;
            interleave([rounds, self.cases, all_series], label, |turn| {
                self.take(workload, turn, images.get(turn.series), &mut grid)
            })?;
            images
                .into_iter()
                .try_for_each(|image| self.finish(workload, image))?;
        } else {
            interleave([rounds, 1, all_series], label, |turn| {
                let variant = self.variants.get(turn.series);
                let image = variant
                    .map(|variant| self.make(workload, variant))
                    .transpose()?;
                for case in 0..self.cases {
                    self.take(workload, Turn { case, ..turn }, image.as_ref(), &mut grid)?;
                }
                image.map_or(Ok(()), |image| self.finish(workload, image))
            })?;
        }
        Ok(grid)
    }

    fn all_at_once(&self) -> bool {
        let together = self.image.memory_bytes() * self.variants.len() as u64;
        let in_memory = self.image.device == DeviceSpec::Mem;
        self.variants.len() == 1 || (in_memory && together < memory::available_bytes() / 2)
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
        grid: &mut Grid,
    ) -> anyhow::Result<()> {
        let counted = turn.round >= self.iterations;
        let samples = match image {
            Some((image, state)) => workload.run(turn, counted, image, state)?,
            // The round that counts locks has nothing to count here.
            None if counted => Vec::new(),
            None => {
                let name = self.peers[turn.series - self.variants.len()];
                let run = workload.run_peer(turn);
                run.with_context(|| name.to_owned())?
            }
        };
        for (op, sample) in samples.into_iter().enumerate() {
            grid.push([turn.series, turn.case, op], sample, counted);
        }
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
