//! icache-shrink: what shrinking the inode cache to its limit costs a concurrent reader.
//!
//! A creator makes many more files than the cache may keep, so that it shrinks all the time; a reader
//! looks up and stats a few files of another directory at random. The same is run with a limit too
//! large to be met, in turn, and the reader's latencies stand side by side.

use crate::grid::Grid;
use crate::histogram::Histogram;
use crate::memory;
use crate::mounted_image::MountedImage;
use crate::report::{Document, Row};
use crate::rounds::{Rounds, Turn, Workload};
use crate::sample::{Sample, Work};
use crate::setup::{Need, SetupArgs};
use crate::tables::{count, table};
use crate::tree::{FILE, Tree};
use crate::variants::{Variant, parse_items, parse_rounds};
use crate::workers;
use clap::Args;
use comfy_table::Table;
use serde::Serialize;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use uext4::Filesystem;
use uext4_ext4::{Ext4, MountOptions};
use uext4_vfs::caller::Caller;
use uext4_vfs::filesystem::FileSystem;

/// Files that the reader looks up.
const HOT_FILES: usize = 256;
/// Files of the creator in a directory.
const DIRECTORY_FILES: u64 = 30_000;
/// The limit, if none is given.
const INODES_MAX: usize = 16_384;
/// How often memory is sampled.
const TICK: Duration = Duration::from_millis(20);

/// How many files, and the image and variants.
#[derive(Clone, Debug, Args)]
pub struct IcacheShrinkArgs {
    /// Files to create
    #[arg(long, default_value_t = 1_440_000, value_parser = parse_items)]
    pub items: u64,
    /// Rounds
    #[arg(short = 'i', long, default_value_t = 3, value_parser = parse_rounds)]
    pub iterations: usize,
    /// The image, the variants and the output; --inodes-max is the limit (16384 if not given).
    #[command(flatten)]
    pub setup: SetupArgs,
}

/// The cache and memory at one time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Moment {
    /// Since the creator began.
    pub seconds: f64,
    /// Files made.
    pub created: u64,
    /// Inodes in the cache.
    pub cached: usize,
    /// Of the process.
    pub resident_bytes: u64,
}

/// How it went in the last round of a variant.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    #[serde(rename = "arm")]
    variant: String,
    moments: Vec<Moment>,
}

#[derive(Serialize)]
struct ShrinkDocument {
    #[serde(flatten)]
    document: Document<Row>,
    timelines: Vec<Timeline>,
}

struct Job<'a> {
    args: &'a IcacheShrinkArgs,
    timelines: Vec<Timeline>,
}

/// What the creator, the reader and the watcher share.
#[derive(Default)]
struct Shared {
    created: AtomicU64,
    finished: AtomicBool,
}

impl Job<'_> {
    fn create(&self, fs: &Arc<Ext4>, tree: &Tree, shared: &Shared) -> anyhow::Result<Work> {
        let since = Instant::now();
        let result = self.each_file(|dir, name| {
            let dir = tree.dir(dir);
            drop(FileSystem::create(
                &**fs,
                &Caller::root(),
                dir,
                name,
                &FILE,
            )?);
            shared.created.fetch_add(1, Relaxed);
            Ok(())
        });
        shared.finished.store(true, Relaxed);
        result.map(|()| Work {
            ops: self.args.items,
            seconds: since.elapsed().as_secs_f64(),
            latency: Histogram::default(),
        })
    }

    /// The number of the directory and the name of every file of the creator.
    fn each_file(
        &self,
        mut f: impl FnMut(usize, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut name = Vec::new();
        for i in 0..self.args.items {
            name.clear();
            write!(name, "file.{i}")?;
            // The first directory is the reader's.
            f(1 + (i / DIRECTORY_FILES) as usize, &name)?;
        }
        Ok(())
    }

    fn measure(&self, fs: &Arc<Ext4>, tree: &Tree) -> anyhow::Result<(Work, Work, Vec<Moment>)> {
        let shared = Shared::default();
        let mut done = workers::run(3, None, |part, _| {
            Ok(match part {
                0 => (self.create(fs, tree, &shared)?, Vec::new()),
                1 => (read(fs, tree, &shared)?, Vec::new()),
                _ => (Work::default(), watch(fs, &shared)),
            })
        })?;
        // In the order of their numbers.
        let mut next = || done.results.remove(0);
        let ((creator, _), (reader, _), (_, moments)) = (next(), next(), next());
        Ok((reader, creator, moments))
    }
}

/// Looks up and stats hot files until the creator is done.
fn read(fs: &Arc<Ext4>, tree: &Tree, shared: &Shared) -> anyhow::Result<Work> {
    let began = Instant::now();
    let root = Caller::root();
    let names: Vec<String> = (0..HOT_FILES).map(hot_name).collect();
    let mut latency = Histogram::default();
    let mut rng = fastrand::Rng::with_seed(1);
    loop {
        let name = &names[rng.usize(..HOT_FILES)];
        let since = Instant::now();
        let node = FileSystem::lookup(&**fs, &root, tree.dir(0), name.as_bytes())?;
        std::hint::black_box(FileSystem::getattr(&**fs, &node)?);
        drop(node);
        latency.record(since.elapsed().as_nanos() as u64);
        if shared.finished.load(Relaxed) {
            return Ok(Work {
                ops: latency.count(),
                seconds: began.elapsed().as_secs_f64(),
                latency,
            });
        }
    }
}

fn watch(fs: &Ext4, shared: &Shared) -> Vec<Moment> {
    let since = Instant::now();
    let mut moments = Vec::new();
    loop {
        let finished = shared.finished.load(Relaxed);
        moments.push(Moment {
            seconds: since.elapsed().as_secs_f64(),
            created: shared.created.load(Relaxed),
            cached: fs.table.cached_inodes(),
            resident_bytes: memory::resident_bytes(),
        });
        if finished {
            return moments;
        }
        std::thread::sleep(TICK);
    }
}

fn hot_name(i: usize) -> String {
    format!("hot.{i}")
}

impl Workload for Job<'_> {
    type State = Tree;

    fn prepare(&self, fs: &Filesystem) -> anyhow::Result<Tree> {
        let directories = self.args.items.div_ceil(DIRECTORY_FILES);
        let names = std::iter::once("hot".to_owned())
            .chain((0..directories).map(|i| format!("many.{i}")))
            .collect();
        let tree = Tree::make(fs, "icache-shrink", names)?;
        for i in 0..HOT_FILES {
            let name = hot_name(i);
            let fs = &**fs.engine();
            FileSystem::create(fs, &Caller::root(), tree.dir(0), name.as_bytes(), &FILE)?;
        }
        Ok(tree)
    }

    /// The reader, and the creator unless locks are counted.
    fn run(
        &mut self,
        turn: Turn,
        counted: bool,
        image: &MountedImage,
        tree: &Tree,
    ) -> anyhow::Result<Vec<Sample>> {
        let fs = image.engine();
        let mut creator = Work::default();
        let mut moments = Vec::new();
        let reader = Sample::take(Some(fs), counted, || {
            let (reader, made, seen) = self.measure(fs, tree)?;
            (creator, moments) = (made, seen);
            Ok(reader)
        })?;
        let mut samples = vec![reader];
        if !counted {
            samples.push(Sample::take(None, false, || Ok(creator))?);
            self.timelines[turn.series].moments = moments;
        }
        self.each_file(|dir, name| {
            Ok(FileSystem::unlink(
                &**fs,
                &Caller::root(),
                tree.dir(dir),
                name,
            )?)
        })?;
        FileSystem::syncfs(&**fs)?;
        Ok(samples)
    }

    fn clean(&self, fs: &Filesystem, tree: Tree) -> anyhow::Result<()> {
        for i in 0..HOT_FILES {
            let name = hot_name(i);
            let fs = &**fs.engine();
            FileSystem::unlink(fs, &Caller::root(), tree.dir(0), name.as_bytes())?;
        }
        tree.remove(fs)
    }
}

/// Every variant with the limit and with one that is not met.
fn variants(args: &IcacheShrinkArgs) -> Vec<Variant> {
    let limit = args.setup.variants.inodes_max.unwrap_or(INODES_MAX);
    let no_limit = args.items.saturating_mul(2) as usize + HOT_FILES;
    let mut variants = Vec::new();
    for variant in args.setup.variants() {
        for (inodes_max, name) in [(no_limit, "no limit"), (limit, "shrinking")] {
            variants.push(Variant {
                name: format!("{}, {name}", variant.name),
                choice: variant.choice,
                options: MountOptions {
                    inodes_max,
                    ..variant.options.clone()
                },
            });
        }
    }
    variants
}

/// Runs icache-shrink, and prints.
pub fn run(args: &IcacheShrinkArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let variants = variants(args);
    let timeline = |variant: &Variant| Timeline {
        variant: variant.name.clone(),
        moments: Vec::new(),
    };
    let mut job = Job {
        args,
        timelines: variants.iter().map(timeline).collect(),
    };
    let grid = Rounds {
        setup: &args.setup,
        variants: &variants,
        image: args.setup.image(Need {
            inodes: args.items + HOT_FILES as u64,
            data_bytes: 0,
        })?,
        iterations: args.iterations,
        cases: 1,
        ops: 2,
        anew: false,
        peers: &[],
        label: &|_| format!("{} files", args.items),
    }
    .run(&mut job)?;
    let mut rows = Vec::new();
    for (series, variant) in variants.iter().enumerate() {
        let of = |op, place| Row::of(&variant.name, op, 1, grid.cell(series, 0, place));
        rows.extend([of("lookup+getattr", 0), of("create", 1)]);
    }
    if args.setup.json {
        let document = ShrinkDocument {
            document: Document::new("icache-shrink", rows),
            timelines: job.timelines,
        };
        serde_json::to_writer_pretty(&mut *out, &document)?;
        return Ok(writeln!(out)?);
    }
    let limit = args.setup.variants.inodes_max.unwrap_or(INODES_MAX);
    writeln!(
        out,
        "{} files created beside a reader of {HOT_FILES}, limit {limit} inodes, {} rounds",
        args.items, args.iterations
    )?;
    writeln!(out, "{}\n", latencies(&grid, &rows))?;
    for timeline in &job.timelines {
        writeln!(out, "{}", timeline.variant)?;
        writeln!(out, "{}\n", timeline.table())?;
    }
    for row in &rows {
        row.print_tables(out)?;
    }
    Ok(())
}

fn latencies(grid: &Grid, rows: &[Row]) -> Table {
    let mut lines = Vec::new();
    for (series, pair) in rows.chunks(2).enumerate() {
        let mut all = Histogram::default();
        for sample in &grid.cell(series, 0, 0).plain {
            all.add(&sample.work.latency);
        }
        let us = |ns: u64| format!("{:.2}", ns as f64 / 1000.0);
        let [reader, creator] = pair else { continue };
        lines.push([
            reader.variant.clone(),
            count(reader.ops_per_s.median),
            us(all.percentile_ns(0.5)),
            us(all.percentile_ns(0.99)),
            us(all.percentile_ns(0.999)),
            us(all.max_ns()),
            count(creator.ops_per_s.median),
        ]);
    }
    table("arm|reads/s|p50 us|p99 us|p99.9 us|max us|creates/s", lines)
}

impl Timeline {
    /// Some of the moments, the first and the last included.
    fn table(&self) -> Table {
        const SHOWN: usize = 8;
        let last = self.moments.len().saturating_sub(1);
        let mut places: Vec<usize> = (0..=SHOWN).map(|i| i * last / SHOWN).collect();
        places.dedup();
        let some = places.iter().filter_map(|&place| self.moments.get(place));
        let line = |moment: &Moment| {
            [
                format!("  {:.2}", moment.seconds),
                count(moment.created as f64),
                count(moment.cached as f64),
                count((moment.resident_bytes >> 20) as f64),
            ]
        };
        table("  seconds|created|in cache|resident MiB", some.map(line))
    }
}
