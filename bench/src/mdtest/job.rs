//! What mdtest's workers do.

use super::MdtestArgs;
use super::phase::{self, Item, Phase, Step};
use crate::host_dir::HostTree;
use crate::location::{Dir, Location};
use crate::mounted_image::MountedImage;
use crate::rounds::{Turn, Workload};
use crate::sample::{Cell, Grid, Sample, Work};
use crate::tree::Tree;
use crate::workers;
use anyhow::Context as _;
use std::io::Write as _;
use std::sync::Arc;
use uext4_ext4::Ext4;

/// mdtest with every count of workers.
pub struct Job<'a> {
    /// Of the command line.
    pub args: &'a MdtestArgs,
    /// The phases that are measured.
    pub phases: Vec<Phase>,
    /// For each variant what was measured: the phases of a count together.
    grid: Grid,
    /// The peer's directories.
    pub peer: Option<HostTree>,
}

impl<'a> Job<'a> {
    /// With the peer's directories made, and its warm-up run done.
    pub fn new(args: &'a MdtestArgs, all_series: usize) -> anyhow::Result<Job<'a>> {
        let phases = phase::phases(args);
        let mut job = Job {
            args,
            grid: Grid::new(all_series, args.np.len() * phases.len()),
            phases,
            peer: None,
        };
        if let Some(tree) = args.peer.tree("mdtest", job.directories())? {
            job.warm_up(&tree).context("peer")?;
            job.peer = Some(tree);
        }
        Ok(job)
    }

    /// What a series did in a phase with a count of workers, all three by their numbers.
    pub fn cell(&self, series: usize, case: usize, phase: usize) -> &Cell {
        self.grid.cell(series, case * self.phases.len() + phase)
    }

    /// The names of the workers' directories: with fewer workers the others stay empty.
    fn directories(&self) -> Vec<String> {
        let name = |worker: usize| format!("mdtest_tree.{worker}.0");
        match self.args.unique {
            true => (0..self.args.workers_max()).map(name).collect(),
            false => vec!["mdtest_tree.0".to_owned()],
        }
    }

    /// All phases once; `measure` gets those that are asked for.
    fn iteration<P: Location>(
        &self,
        location: &P,
        workers: usize,
        mut measure: impl FnMut(usize, &dyn Fn() -> anyhow::Result<Work>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for &item in phase::items(self.args) {
            let chosen = |step| self.phases.iter().position(|p| *p == Phase { item, step });
            for step in [Step::Create, Step::Stat, Step::Read, Step::Remove] {
                let run = || self.run_phase(location, workers, Phase { item, step });
                match chosen(step) {
                    Some(number) => {
                        std::thread::sleep(self.args.pause);
                        measure(number, &run)?;
                    }
                    // Nothing can be done without files, and none may stay.
                    None if matches!(step, Step::Create | Step::Remove) => drop(run()?),
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// An iteration that counts for nothing: it loads what the others find.
    fn warm_up(&self, location: &impl Location) -> anyhow::Result<()> {
        self.iteration(location, self.args.workers_max(), |_, run| run().map(drop))
    }

    /// An iteration with the sample of each phase; `fs` as [`Sample::take`] wants it.
    fn samples(
        &self,
        location: &impl Location,
        case: usize,
        fs: Option<&Ext4>,
        counted: bool,
    ) -> anyhow::Result<Vec<(usize, Sample)>> {
        let mut samples = Vec::new();
        self.iteration(location, self.args.np[case], |number, run| {
            samples.push((number, Sample::take(fs, counted, run)?));
            Ok(())
        })?;
        Ok(samples)
    }

    fn push(&mut self, turn: Turn, samples: Vec<(usize, Sample)>, counted: bool) {
        for (number, sample) in samples {
            let location = turn.case * self.phases.len() + number;
            self.grid.push(turn.series, location, sample, counted);
        }
    }

    /// A phase ends with a sync, inside its time.
    fn run_phase(
        &self,
        location: &impl Location,
        workers: usize,
        phase: Phase,
    ) -> anyhow::Result<Work> {
        let done = workers::run(workers, None, |worker, _| {
            self.work(&location.enter(worker)?, worker, phase)
        })?;
        location.syncfs()?;
        Ok(Work {
            ops: u64::from(self.args.items) * workers as u64,
            seconds: done.began.elapsed().as_secs_f64(),
            ..Work::default()
        })
    }

    fn work(&self, dir: &impl Dir, worker: usize, phase: Phase) -> anyhow::Result<()> {
        let args = self.args;
        let kind = match phase.item {
            Item::File => "file",
            Item::Directory => "dir",
        };
        let bytes = vec![0x55; args.write_bytes as usize];
        let mut buffer = vec![0; args.bytes_to_read() as usize];
        let mut name = Vec::with_capacity(64);
        for i in 0..args.items {
            name.clear();
            write!(name, "{kind}.mdtest.{worker}.{i}")?;
            match (phase.step, phase.item) {
                (Step::Create, Item::Directory) => dir.mkdir(&name)?,
                (Step::Create, Item::File) => {
                    let file = dir.create(&name)?;
                    if args.write_bytes > 0 {
                        dir.write(&file, &bytes)?;
                    }
                    if args.sync_files {
                        dir.fsync(&file)?;
                    }
                }
                (Step::Stat, _) => dir.stat(&name)?,
                (Step::Read, _) => dir.read(&name, &mut buffer)?,
                (Step::Remove, Item::File) => dir.unlink(&name)?,
                (Step::Remove, Item::Directory) => dir.rmdir(&name)?,
            }
        }
        Ok(())
    }
}

impl Workload for Job<'_> {
    type State = Tree;

    fn prepare(&self, fs: &Arc<Ext4>) -> anyhow::Result<Tree> {
        let tree = Tree::make(fs, "test-dir.0-0", self.directories())?;
        self.warm_up(&tree.on(fs))?;
        Ok(tree)
    }

    fn run(&mut self, turn: Turn, image: &MountedImage, tree: &Tree) -> anyhow::Result<()> {
        let fs = image.fs();
        let counted = turn.round >= self.args.iterations;
        let samples = self.samples(&tree.on(fs), turn.case, Some(fs), counted)?;
        self.push(turn, samples, counted);
        Ok(())
    }

    fn run_peer(&mut self, turn: Turn) -> anyhow::Result<()> {
        // The round that counts locks has nothing to count here.
        if let Some(tree) = &self.peer
            && turn.round < self.args.iterations
        {
            let samples = self.samples(tree, turn.case, None, false)?;
            self.push(turn, samples, false);
        }
        Ok(())
    }

    fn clean(&self, fs: &Arc<Ext4>, tree: Tree) -> anyhow::Result<()> {
        tree.remove(fs)
    }
}
