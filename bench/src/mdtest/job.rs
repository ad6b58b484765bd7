//! What mdtest's workers do.

use super::MdtestArgs;
use super::phase::{self, Item, Phase, Step};
use crate::in_directories::InDirectories;
use crate::location::{Dir, Location};
use crate::sample::{Sample, Work};
use crate::workers;
use std::io::Write as _;
use uext4_ext4::Ext4;

impl InDirectories for MdtestArgs {
    const TOP: [&'static str; 2] = ["test-dir.0-0", "mdtest"];

    /// With fewer workers the others stay empty.
    fn directories(&self) -> Vec<String> {
        let name = |worker: usize| format!("mdtest_tree.{worker}.0");
        match self.unique {
            true => (0..self.workers_max()).map(name).collect(),
            false => vec!["mdtest_tree.0".to_owned()],
        }
    }

    fn warm_up(&self, location: &impl Location) -> anyhow::Result<()> {
        self.iteration(location, self.workers_max(), |run| run().map(drop))
    }

    fn samples(
        &self,
        location: &impl Location,
        case: usize,
        fs: Option<&Ext4>,
        counted: bool,
    ) -> anyhow::Result<Vec<Sample>> {
        let mut samples = Vec::new();
        self.iteration(location, self.np[case], |run| {
            samples.push(Sample::take(fs, counted, run)?);
            Ok(())
        })?;
        Ok(samples)
    }
}

impl MdtestArgs {
    /// All phases once; `measure` gets those that are asked for.
    fn iteration(
        &self,
        location: &impl Location,
        workers: usize,
        mut measure: impl FnMut(&dyn Fn() -> anyhow::Result<Work>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let measured = phase::phases(self);
        for &item in phase::items(self) {
            for step in [Step::Create, Step::Stat, Step::Read, Step::Remove] {
                let phase = Phase { item, step };
                let run = || self.run_phase(location, workers, phase);
                if measured.contains(&phase) {
                    std::thread::sleep(self.pause);
                    measure(&run)?;
                } else if matches!(step, Step::Create | Step::Remove) {
                    // Nothing can be done without files, and none may stay.
                    run()?;
                }
            }
        }
        Ok(())
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
            ops: u64::from(self.items) * workers as u64,
            seconds: done.began.elapsed().as_secs_f64(),
            ..Work::default()
        })
    }

    fn work(&self, dir: &impl Dir, worker: usize, phase: Phase) -> anyhow::Result<()> {
        let kind = match phase.item {
            Item::File => "file",
            Item::Directory => "dir",
        };
        let bytes = vec![0x55; self.write_bytes as usize];
        let mut buffer = vec![0; self.bytes_to_read() as usize];
        let mut name = Vec::with_capacity(64);
        for i in 0..self.items {
            name.clear();
            write!(name, "{kind}.mdtest.{worker}.{i}")?;
            match (phase.step, phase.item) {
                (Step::Create, Item::Directory) => dir.mkdir(&name)?,
                (Step::Create, Item::File) => {
                    let file = dir.create(&name)?;
                    if self.write_bytes > 0 {
                        dir.write(&file, &bytes)?;
                    }
                    if self.sync_files {
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
