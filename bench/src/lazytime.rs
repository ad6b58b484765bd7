//! lazytime: writing inodes whose neighbours in the inode table have pending timestamps.
//!
//! Every file of whole blocks of the inode table is read, so that each has a pending access time; that is not timed. Then each
//! task changes the mode of one file in each of its blocks, which writes the pending times of the others (`write-pending`).
//! Then it does so again: no neighbour has pending timestamps any more (`write-settled`). All mounts have strictatime, and
//! lazytime unless a list says otherwise.

use crate::mounted_image::MountedImage;
use crate::report::{Document, Row, print_compared};
use crate::rounds::{Rounds, Turn, Workload};
use crate::sample::{Sample, Work};
use crate::setup::{Need, SetupArgs};
use crate::tree::Tree;
use crate::variants::{Variant, parse_items, parse_rounds, parse_threads};
use crate::workers;
use anyhow::ensure;
use clap::Args;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;
use uext4::{AtimeUpdate, File, Filesystem, OpenOptions};
use uext4_ext4::MountOptions;
use uext4_vfs::attr::Timestamp;

/// Inodes of 256 bytes in a block of 4 KiB.
const PER_BLOCK: u64 = 16;
/// What is measured, in its order.
const OPS: [&str; 2] = ["write-pending", "write-settled"];
/// The modes that writes alternate between.
const MODES: [u16; 2] = [0o600, 0o644];

/// How many files, and the image and variants.
#[derive(Clone, Debug, Args)]
pub struct LazytimeArgs {
    /// Tasks, which share the files; a comma list runs each count
    #[arg(long, visible_alias = "threads", default_value = "1,2,8,32", value_delimiter = ',', value_parser = parse_threads)]
    pub tasks: Vec<usize>,
    /// Files of all tasks together
    #[arg(long, default_value_t = 65_536, value_parser = parse_items)]
    pub files: u64,
    /// How often in a round the files are read, and one in each block written twice
    #[arg(long, default_value_t = 10, value_parser = parse_rounds)]
    pub passes: usize,
    /// Rounds
    #[arg(short = 'i', long, default_value_t = 5, value_parser = parse_rounds)]
    pub iterations: usize,
    /// The image, the variants and the output.
    #[command(flatten)]
    pub setup: SetupArgs,
}

/// The files of a block of the inode table: what is written, and its neighbours.
#[derive(Debug)]
struct TableBlock {
    written: File,
    neighbours: Vec<File>,
}

impl TableBlock {
    fn read(&self) -> anyhow::Result<()> {
        for file in self.neighbours.iter().chain([&self.written]) {
            file.read_at(&mut [0], 0)?;
        }
        Ok(())
    }

    fn write(&self, mode: u16) -> anyhow::Result<()> {
        Ok(self.written.set_permissions(mode)?)
    }
}

/// The files of an image, by their blocks.
struct Files {
    blocks: Vec<TableBlock>,
    tree: Tree,
}

impl Files {
    fn make(fs: &Filesystem, count: u64) -> anyhow::Result<Files> {
        let tree = Tree::make(fs, "lazytime", vec!["files".to_owned()])?;
        let dir = fs.open_dir("/lazytime/files")?;
        let create = OpenOptions::new().read(true).write(true).create_new(true);
        let mut blocks: BTreeMap<u64, Vec<File>> = BTreeMap::new();
        for i in 0..count {
            let file = dir.open_file(name(i), &create)?;
            let block = (file.metadata()?.ino() - 1) / PER_BLOCK;
            blocks.entry(block).or_default().push(file);
        }
        let whole = blocks
            .into_values()
            .filter(|files| files.len() as u64 == PER_BLOCK);
        let block = |mut files: Vec<File>| {
            let written = files.pop()?;
            Some(TableBlock {
                written,
                neighbours: files,
            })
        };
        let blocks: Vec<TableBlock> = whole.filter_map(block).collect();
        ensure!(!blocks.is_empty(), "no block of the inode table is whole");
        fs.sync()?;
        Ok(Files { blocks, tree })
    }

    /// Each task does `work` with its part of the blocks.
    fn each_block(
        &self,
        tasks: usize,
        work: impl Fn(&TableBlock) -> anyhow::Result<()> + Sync,
    ) -> anyhow::Result<Work> {
        let done = workers::run(tasks, None, |task, _| {
            self.blocks
                .iter()
                .skip(task)
                .step_by(tasks)
                .try_for_each(&work)
        })?;
        Ok(Work {
            ops: self.blocks.len() as u64,
            seconds: done.seconds,
            ..Work::default()
        })
    }
}

fn name(i: u64) -> String {
    format!("file.{i}")
}

/// Waits until the time that inodes get is another: a file that is read twice in one tick has its access time already.
fn await_tick() {
    let before = Timestamp::coarse();
    while Timestamp::coarse() == before {
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Job<'a> {
    args: &'a LazytimeArgs,
}

impl Workload for Job<'_> {
    type State = Files;

    fn prepare(&self, fs: &Filesystem) -> anyhow::Result<Files> {
        Files::make(fs, self.args.files)
    }

    fn run(
        &mut self,
        turn: Turn,
        counted: bool,
        image: &MountedImage,
        files: &Files,
    ) -> anyhow::Result<Vec<Sample>> {
        let tasks = self.args.tasks[turn.case];
        let passes = if counted { 1 } else { self.args.passes };
        let mut samples: Vec<Sample> = Vec::new();
        for _ in 0..passes {
            await_tick();
            files.each_block(tasks, TableBlock::read)?;
            for (op, mode) in MODES.into_iter().enumerate() {
                let write = || files.each_block(tasks, |block| block.write(mode));
                let sample = Sample::take(Some(image.engine()), counted, write)?;
                match samples.get_mut(op) {
                    Some(sum) => {
                        sum.work.ops += sample.work.ops;
                        sum.work.seconds += sample.work.seconds;
                    }
                    None => samples.push(sample),
                }
            }
        }
        image.fs().sync()?;
        Ok(samples)
    }

    fn clean(&self, fs: &Filesystem, files: Files) -> anyhow::Result<()> {
        drop(files.blocks);
        let dir = fs.open_dir("/lazytime/files")?;
        for i in 0..self.args.files {
            dir.unlink(name(i))?;
        }
        drop(dir);
        files.tree.remove(fs)
    }
}

fn variants(args: &LazytimeArgs) -> Vec<Variant> {
    let lazily = |mut variant: Variant| {
        variant.options = MountOptions {
            lazytime: variant.choice.lazytime.unwrap_or(true),
            atime: AtimeUpdate::Strict,
            ..variant.options
        };
        variant
    };
    args.setup.variants().into_iter().map(lazily).collect()
}

/// Runs lazytime for each count of tasks, and prints.
pub fn run(args: &LazytimeArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let variants = variants(args);
    let names: Vec<String> = variants.iter().map(|v| v.name.clone()).collect();
    let grid = Rounds {
        setup: &args.setup,
        variants: &variants,
        image: args.setup.image(Need {
            inodes: args.files,
            data_bytes: 0,
        })?,
        iterations: args.iterations,
        cases: args.tasks.len(),
        ops: OPS.len(),
        anew: false,
        peers: &[],
        label: &|case| format!("{} tasks", args.tasks[case]),
    }
    .run(&mut Job { args })?;
    let mut rows = Vec::new();
    for (place, op) in OPS.into_iter().enumerate() {
        for (series, name) in names.iter().enumerate() {
            for (case, &tasks) in args.tasks.iter().enumerate() {
                rows.push(Row::of(name, op, tasks, grid.cell(series, case, place)));
            }
        }
    }
    if args.setup.json {
        return Document::new("lazytime", rows).print_json(out);
    }
    writeln!(
        out,
        "inodes written per second, one in each block of {PER_BLOCK}; {} files, {} rounds of {} passes",
        args.files, args.iterations, args.passes
    )?;
    for (op, of_op) in OPS
        .into_iter()
        .zip(rows.chunks(names.len() * args.tasks.len()))
    {
        print_compared(&format!("{op}, tasks"), &names, of_op, &args.tasks, out)?;
    }
    for row in &rows {
        row.print_tables(out)?;
    }
    Ok(())
}
