//! Workloads whose workers each have a directory, in an image of ours or on a file system of the host: the peer.

use crate::device::DeviceSpec;
use crate::grid::Grid;
use crate::host_dir::{HostTree, PeerArgs};
use crate::location::Location;
use crate::mounted_image::MountedImage;
use crate::rounds::{Rounds, Turn, Workload};
use crate::sample::Sample;
use crate::setup::{Need, SetupArgs};
use crate::tree::Tree;
use crate::variants::Variant;
use anyhow::Context as _;
use uext4::Filesystem;
use uext4::unstable::Ext4;

/// What workers do in their directories, with several counts of workers.
pub trait InDirectories {
    /// The name of the directory that they are in, and of the peer's.
    const TOP: [&'static str; 2];

    /// The names of the workers' directories.
    fn directories(&self) -> Vec<String>;

    /// Runs once with the most workers, for nothing: it loads what the others find.
    fn warm_up(&self, location: &impl Location) -> anyhow::Result<()>;

    /// Runs a count of workers once; `fs` and `counted` as [`Sample::take`] has them.
    fn samples(
        &self,
        location: &impl Location,
        case: usize,
        fs: Option<&Ext4>,
        counted: bool,
    ) -> anyhow::Result<Vec<Sample>>;
}

/// What a run of it needs.
pub struct Plan<'a> {
    /// Of the command line.
    pub setup: &'a SetupArgs,
    /// The peers.
    pub peer: &'a PeerArgs,
    /// What it puts into an image.
    pub need: Need,
    /// Rounds that give the figures.
    pub iterations: usize,
    /// The counts of workers.
    pub counts: &'a [usize],
    /// Samples of a run.
    pub ops: usize,
}

struct Job<'a, W> {
    work: &'a W,
    /// How many variants precede the peers.
    variants: usize,
    peers: Vec<HostTree>,
}

impl Plan<'_> {
    /// Runs all variants and the peers: the variants, the names of all, and what was measured.
    pub fn run<W: InDirectories>(
        &self,
        work: &W,
    ) -> anyhow::Result<(Vec<Variant>, Vec<String>, Grid)> {
        let variants = self.setup.variants();
        let names = self.peer.all_series();
        let peers = self.peer.trees(W::TOP[1], &work.directories())?;
        for (name, tree) in names.iter().zip(&peers) {
            work.warm_up(tree).with_context(|| (*name).to_owned())?;
        }
        let mut job = Job {
            work,
            variants: variants.len(),
            peers,
        };
        let grid = Rounds {
            setup: self.setup,
            variants: &variants,
            image: self.setup.image(self.need)?,
            iterations: self.iterations,
            cases: self.counts.len(),
            ops: self.ops,
            anew: self.setup.device == DeviceSpec::Mem,
            peers: &names,
            label: &|case| format!("{} workers", self.counts[case]),
        }
        .run(&mut job)?;
        job.peers.into_iter().try_for_each(HostTree::remove)?;
        let names = self.peer.names(&variants);
        Ok((variants, names, grid))
    }
}

impl<W: InDirectories> Workload for Job<'_, W> {
    type State = Tree;

    fn prepare(&self, fs: &Filesystem) -> anyhow::Result<Tree> {
        let tree = Tree::make(fs, W::TOP[0], self.work.directories())?;
        self.work.warm_up(&tree.on(fs))?;
        Ok(tree)
    }

    fn run(
        &mut self,
        turn: Turn,
        counted: bool,
        image: &MountedImage,
        tree: &Tree,
    ) -> anyhow::Result<Vec<Sample>> {
        let location = tree.on(image.fs());
        self.work
            .samples(&location, turn.case, Some(image.engine()), counted)
    }

    fn run_peer(&mut self, turn: Turn) -> anyhow::Result<Vec<Sample>> {
        match self.peers.get(turn.series - self.variants) {
            Some(tree) => self.work.samples(tree, turn.case, None, false),
            None => Ok(Vec::new()),
        }
    }

    fn clean(&self, fs: &Filesystem, tree: Tree) -> anyhow::Result<()> {
        tree.remove(fs)
    }
}
