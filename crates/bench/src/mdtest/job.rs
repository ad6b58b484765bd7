//! What mdtest's workers do.

use super::MdtestArgs;
use super::phase::{self, Item, Phase, Step};
use crate::bed::Bed;
use crate::crew;
use crate::rounds::{Turn, Workload};
use crate::sample::{Grid, Sample, Work};
use crate::tree::{DIRECTORY, FILE, Tree};
use std::io::Write as _;
use std::sync::Arc;
use uext4_ext4::{Ext4, InodeRef};
use uext4_vfs::caller::Caller;
use uext4_vfs::filesystem::FileSystem;

/// mdtest with one count of workers.
pub struct Job<'a> {
    /// Of the command line.
    pub args: &'a MdtestArgs,
    /// Workers.
    pub workers: usize,
    /// The phases that are measured.
    pub phases: Vec<Phase>,
    /// For each arm and phase what was measured.
    pub grid: Grid,
}

impl Job<'_> {
    /// All phases once; `measure` gets those that are asked for.
    fn iteration(
        &self,
        fs: &Arc<Ext4>,
        tree: &Tree,
        mut measure: impl FnMut(usize, &dyn Fn() -> anyhow::Result<Work>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for &item in phase::items(self.args) {
            let chosen = |step| self.phases.iter().position(|p| *p == Phase { item, step });
            for step in [Step::Create, Step::Stat, Step::Read, Step::Remove] {
                let run = || self.run_phase(fs, tree, Phase { item, step });
                match chosen(step) {
                    Some(place) => {
                        std::thread::sleep(self.args.pause);
                        measure(place, &run)?;
                    }
                    // Nothing can be done without files, and none may stay.
                    None if matches!(step, Step::Create | Step::Remove) => drop(run()?),
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// A phase ends with a sync, inside its time.
    fn run_phase(&self, fs: &Arc<Ext4>, tree: &Tree, phase: Phase) -> anyhow::Result<Work> {
        let done = crew::run(self.workers, None, |worker, _| {
            self.work(fs, tree.dir(worker), worker, phase)
        })?;
        FileSystem::syncfs(&**fs)?;
        Ok(Work {
            ops: u64::from(self.args.items) * self.workers as u64,
            seconds: done.began.elapsed().as_secs_f64(),
            ..Work::default()
        })
    }

    fn work(
        &self,
        fs: &Arc<Ext4>,
        dir: &InodeRef,
        worker: usize,
        phase: Phase,
    ) -> anyhow::Result<()> {
        let args = self.args;
        let root = Caller::root();
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
                (Step::Create, Item::Directory) => {
                    drop(FileSystem::create(&**fs, &root, dir, &name, &DIRECTORY)?);
                }
                (Step::Create, Item::File) => {
                    let node = FileSystem::create(&**fs, &root, dir, &name, &FILE)?;
                    if args.write_bytes > 0 {
                        FileSystem::write(&**fs, &node, 0, &bytes)?;
                    }
                    if args.sync_files {
                        FileSystem::fsync(&**fs, &node, false)?;
                    }
                }
                (Step::Stat, _) => {
                    let node = FileSystem::lookup(&**fs, &root, dir, &name)?;
                    std::hint::black_box(FileSystem::getattr(&**fs, &node)?);
                }
                (Step::Read, _) => {
                    let node = FileSystem::lookup(&**fs, &root, dir, &name)?;
                    FileSystem::read(&**fs, &node, 0, &mut buffer)?;
                }
                (Step::Remove, Item::File) => FileSystem::unlink(&**fs, &root, dir, &name)?,
                (Step::Remove, Item::Directory) => FileSystem::rmdir(&**fs, &root, dir, &name)?,
            }
        }
        Ok(())
    }
}

impl Workload for Job<'_> {
    type State = Tree;

    fn prepare(&self, fs: &Arc<Ext4>) -> anyhow::Result<Tree> {
        let name = |worker: usize| format!("mdtest_tree.{worker}.0");
        let names = match self.args.unique {
            true => (0..self.workers).map(name).collect(),
            false => vec!["mdtest_tree.0".to_owned()],
        };
        let tree = Tree::make(fs, "test-dir.0-0", names)?;
        self.iteration(fs, &tree, |_, run| run().map(drop))?;
        Ok(tree)
    }

    fn run(&mut self, turn: Turn, bed: &Bed, tree: &Tree) -> anyhow::Result<()> {
        let fs = bed.fs();
        let counted = turn.round >= self.args.iterations;
        let mut samples = Vec::new();
        self.iteration(fs, tree, |place, run| {
            samples.push((place, Sample::take(Some(fs), counted, run)?));
            Ok(())
        })?;
        for (place, sample) in samples {
            self.grid.push(turn.lane, place, sample, counted);
        }
        Ok(())
    }

    fn clean(&self, fs: &Arc<Ext4>, tree: Tree) -> anyhow::Result<()> {
        tree.remove(fs)
    }
}
