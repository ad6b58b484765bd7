//! The turns of a run: each variant on its data file, the bare device and the file of the host between them.
//!
//! # Data model
//! A case is a block size and a count of threads. The data file has its data first and, with `--holes`, a hole
//! behind them, within its size, so that filling it does not extend the file.
//!
//! # Invariants
//! All data is written once, in large direct writes, and synced before the first run. Each run ends with a
//! sync, and if it filled holes with making them again, outside its time.

use super::RandrwArgs;
use super::handover::{self, Nanos};
use super::jobs::{self, Mix, Run};
use super::target::{Bare, OurFile, Target, fill};
use crate::device::{self, Image, ImageSpec, ModelDevice};
use crate::mounted_image::MountedImage;
use crate::rounds::{Turn, Workload};
use crate::sample::{Sample, Work};
use crate::tree::{FILE, Tree};
use anyhow::Context as _;
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use uext4::Filesystem;
use uext4_block::LatencyReport;
use uext4_ext4::{Ext4, InodeRef};
use uext4_vfs::attr::SetAttr;
use uext4_vfs::caller::Caller;
use uext4_vfs::filesystem::FileSystem;

const NAME: &[u8] = b"data";

/// A block size and a count of threads.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Bytes of a request.
    pub block_bytes: u64,
    /// Threads, each with `--iodepth` requests in flight.
    pub threads: usize,
}

/// What the runs of one series and case gave beside their samples.
#[derive(Debug, Default)]
pub struct CaseRuns {
    /// What the modelled device achieved.
    pub device: Vec<LatencyReport>,
    /// Runs that ended early, all holes being filled.
    pub used_up: usize,
}

/// A series that has no image.
pub enum Peer {
    /// A device of the same kind without a file system.
    Bare(Bare, Image),
    /// A file of the host, opened for direct I/O.
    Host(File),
}

impl Peer {
    /// A device like the image's, filled.
    pub fn bare(args: &RandrwArgs, image: &ImageSpec) -> anyhow::Result<Peer> {
        let image = device::open_bare(image, args.size)?;
        fill(&Bare(Arc::clone(&image.device)), args.size)?;
        Ok(Peer::Bare(Bare(image.measured()), image))
    }

    /// A new file of the host, filled.
    pub fn host(args: &RandrwArgs, path: &Path) -> anyhow::Result<Peer> {
        let open = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .custom_flags(OFlags::DIRECT.bits().cast_signed())
            .open(path);
        let file = open.with_context(|| path.display().to_string())?;
        // Nothing of it stays, however the run ends.
        std::fs::remove_file(path)?;
        fill(&file, args.size).with_context(|| path.display().to_string())?;
        Ok(Peer::Host(file))
    }

    /// How long handing an inode lock over takes while the device is used; 0 where no device is bare.
    pub fn handover_ns(&self) -> anyhow::Result<Nanos> {
        match self {
            Peer::Bare(bare, _) => handover::measure(&*bare.0),
            Peer::Host(_) => Ok(0),
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Peer::Bare(..) => "bare",
            Peer::Host(_) => "peer",
        }
    }
}

/// The runs of all all_series.
pub struct AllSeries<'a> {
    /// Of the command line.
    pub args: &'a RandrwArgs,
    /// The block sizes and counts of threads.
    pub cases: Vec<Case>,
    /// How many variants precede the peers.
    pub variants: usize,
    /// The all_series without an image.
    pub peers: &'a [Peer],
    /// How long handing an inode lock over takes.
    pub handover_ns: Nanos,
    /// What was measured: for each series its cases.
    pub runs: Vec<CaseRuns>,
}

/// The data file in an image, and the directory it is in.
pub struct DataFile {
    tree: Tree,
    file: OurFile,
}

impl AllSeries<'_> {
    pub fn of(&self, series: usize, case: usize) -> &CaseRuns {
        &self.runs[series * self.cases.len() + case]
    }

    fn mix(&self, case: Case, holes: bool) -> Mix {
        Mix {
            block_bytes: case.block_bytes,
            data_bytes: self.args.size,
            read_percent: self.args.rwmixread,
            hole_percent: if holes { self.args.holes } else { 0 },
            hole_bytes: self.args.hole_bytes(),
        }
    }

    /// One run of a series: reads and writes together, the reads, and the writes.
    fn measure(
        &mut self,
        turn: Turn,
        counted: bool,
        target: &impl Target,
        fs: Option<&Ext4>,
        model: Option<&ModelDevice>,
    ) -> anyhow::Result<Vec<Sample>> {
        let case = self.cases[turn.case];
        let mix = self.mix(case, fs.is_some());
        let jobs = case.threads * self.args.iodepth;
        if let Some(model) = model {
            model.reset_report();
        }
        let mut run = Run::default();
        let both = Sample::take(fs, counted, || {
            run = jobs::run(target, mix, jobs, self.args.time)?;
            Ok(run.both())
        })?;
        let runs = &mut self.runs[turn.series * self.cases.len() + turn.case];
        if !counted {
            runs.device.extend(model.map(ModelDevice::report));
        }
        runs.used_up += usize::from(run.used_up);
        target.sync()?;
        let [reads, writes] = [run.reads, run.writes].map(|work| part_of(&both, work));
        Ok(vec![both, reads, writes])
    }
}

/// What `both` measured, but of some of its requests.
fn part_of(both: &Sample, work: Work) -> Sample {
    Sample {
        work,
        journal: both.journal,
        locks: both.locks.clone(),
        stages: both.stages.clone(),
        resident_bytes: both.resident_bytes,
    }
}

/// Makes all that lies behind the data a hole of `holes` bytes.
fn make_holes(file: &OurFile, data: u64, holes: u64) -> anyhow::Result<()> {
    for size in [data, data + holes] {
        let change = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        FileSystem::setattr(&*file.fs, &Caller::root(), &file.node, &change)?;
    }
    file.sync()
}

impl Workload for AllSeries<'_> {
    type State = DataFile;

    fn prepare(&self, fs: &Filesystem) -> anyhow::Result<DataFile> {
        let tree = Tree::make(fs, "randrw", vec!["files".to_owned()])?;
        let fs = Arc::clone(fs.engine());
        let node: InodeRef = FileSystem::create(&*fs, &Caller::root(), tree.dir(0), NAME, &FILE)?;
        let file = OurFile { fs, node };
        fill(&file, self.args.size)?;
        make_holes(&file, self.args.size, self.args.hole_bytes())?;
        if let Some(&case) = self.cases.iter().max_by_key(|case| case.threads) {
            let jobs = case.threads * self.args.iodepth;
            jobs::run(&file, self.mix(case, false), jobs, self.args.warm_up())?;
            file.sync()?;
        }
        Ok(DataFile { tree, file })
    }

    fn run(
        &mut self,
        turn: Turn,
        counted: bool,
        image: &MountedImage,
        data: &DataFile,
    ) -> anyhow::Result<Vec<Sample>> {
        let fs = Some(&**image.engine());
        let samples = self.measure(turn, counted, &data.file, fs, image.model())?;
        if self.args.hole_bytes() > 0 {
            make_holes(&data.file, self.args.size, self.args.hole_bytes())?;
        }
        Ok(samples)
    }

    fn run_peer(&mut self, turn: Turn) -> anyhow::Result<Vec<Sample>> {
        match self.peers.get(turn.series - self.variants) {
            Some(Peer::Bare(bare, image)) => {
                self.measure(turn, false, bare, None, image.model.as_deref())
            }
            Some(Peer::Host(file)) => self.measure(turn, false, file, None, None),
            None => Ok(Vec::new()),
        }
    }

    fn clean(&self, fs: &Filesystem, data: DataFile) -> anyhow::Result<()> {
        drop(data.file);
        FileSystem::unlink(&**fs.engine(), &Caller::root(), data.tree.dir(0), NAME)?;
        data.tree.remove(fs)
    }
}
