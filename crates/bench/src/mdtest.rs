//! mdtest: many workers create, stat and remove files, each phase ending with a sync inside its time.
//!
//! An operation is openat(O_CREAT, O_EXCL) and close, a stat, or unlinkat on a directory handle. One
//! warm-up run loads the inode tables.

use crate::device::{self, DeviceSpec, ImageSpec, parse_size};
use crate::report::{Host, LockRow, Spread, lock_table};
use anyhow::Context as _;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::sync::{Arc, Barrier};
use std::time::Instant;
use uext4_ext4::{Ext4, InodeRef, MountOptions};
use uext4_sync::stat;
use uext4_vfs::attr::{NewKind, NewNode};
use uext4_vfs::caller::Caller;
use uext4_vfs::filesystem::FileSystem;

/// mdtest's own flags, and where the image lies.
#[derive(Clone, Debug, Args)]
pub struct MdtestArgs {
    /// Workers; a comma list runs each count.
    #[arg(
        long,
        visible_alias = "threads",
        short = 'N',
        default_value = "48",
        value_delimiter = ','
    )]
    pub np: Vec<usize>,
    /// Files for each worker.
    #[arg(short = 'n', default_value_t = 30_000)]
    pub items: u32,
    /// Files only (directories are not measured).
    #[arg(short = 'F')]
    pub files_only: bool,
    /// Only create.
    #[arg(short = 'C')]
    pub create: bool,
    /// Only stat.
    #[arg(short = 'T')]
    pub stat: bool,
    /// Only remove.
    #[arg(short = 'r')]
    pub remove: bool,
    /// A directory for each worker.
    #[arg(short = 'u')]
    pub unique: bool,
    /// Runs that count.
    #[arg(short = 'i', long, default_value_t = 3)]
    pub iterations: u32,
    /// Where the image lies: mem or file:PATH; it is made anew.
    #[arg(long, default_value = "mem")]
    pub device: DeviceSpec,
    /// Bytes of the image.
    #[arg(long, default_value = "6G", value_parser = parse_size)]
    pub image_size: u64,
    /// Bytes of the journal, 0 for none.
    #[arg(long, default_value = "1G", value_parser = parse_size)]
    pub journal_size: u64,
    /// Counts lock acquisitions, which costs some speed.
    #[arg(long)]
    pub lock_stat: bool,
    /// Prints one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Leaves the image unchecked.
    #[arg(long, hide = true)]
    pub no_check: bool,
}

/// A phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Create,
    Stat,
    Remove,
}

impl Phase {
    const fn op(self) -> &'static str {
        match self {
            Phase::Create => "create",
            Phase::Stat => "stat",
            Phase::Remove => "remove",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Phase::Create => "File creation",
            Phase::Stat => "File stat",
            Phase::Remove => "File removal",
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    arm: &'static str,
    op: &'static str,
    threads: usize,
    ops: u64,
    seconds: f64,
    ops_per_s: Spread,
    mean: f64,
    std_dev: f64,
    commits: u64,
    journal_bytes: u64,
    checkpoint_bytes: u64,
    locks: Vec<LockRow>,
}

#[derive(Debug, Serialize)]
struct Document {
    benchmark: &'static str,
    host: Host,
    rows: Vec<Row>,
}

/// Runs mdtest for each worker count.
///
/// # Errors
/// An operation that fails, or an image that is damaged after the run.
pub fn run(args: &MdtestArgs) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for &np in &args.np {
        rows.extend(run_count(args, np)?);
    }
    if args.json {
        let document = Document {
            benchmark: "mdtest",
            host: Host::here(),
            rows,
        };
        println!("{}", serde_json::to_string_pretty(&document)?);
        return Ok(());
    }
    for &np in &args.np {
        let some: Vec<&Row> = rows.iter().filter(|r| r.threads == np).collect();
        println!(
            "{np} workers, {} files each, {} iterations\n",
            args.items, args.iterations
        );
        println!("SUMMARY rate: (of {} iterations)", args.iterations);
        println!("{}\n", summary(&some));
        for row in some.iter().filter(|r| !r.locks.is_empty()) {
            println!("locks of {} ({} operations)", row.op, row.ops);
            println!("{}\n", lock_table(&row.locks, row.ops));
        }
    }
    Ok(())
}

fn summary(rows: &[&Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "Operation",
        "Max",
        "Min",
        "Mean",
        "Std Dev",
        "commits",
        "journal MB",
        "in place MB",
    ]);
    for row in rows {
        let title = match row.op {
            "create" => Phase::Create.title(),
            "stat" => Phase::Stat.title(),
            _ => Phase::Remove.title(),
        };
        table.add_row([
            title.to_owned(),
            format!("{:.0}", row.ops_per_s.max),
            format!("{:.0}", row.ops_per_s.min),
            format!("{:.0}", row.mean),
            format!("{:.0}", row.std_dev),
            row.commits.to_string(),
            (row.journal_bytes >> 20).to_string(),
            (row.checkpoint_bytes >> 20).to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn phases(args: &MdtestArgs) -> Vec<Phase> {
    let all = !(args.create || args.stat || args.remove);
    [
        (Phase::Create, args.create),
        (Phase::Stat, args.stat),
        (Phase::Remove, args.remove),
    ]
    .into_iter()
    .filter(|(_, chosen)| all || *chosen)
    .map(|(phase, _)| phase)
    .collect()
}

/// What one phase took and did.
struct Measured {
    seconds: f64,
    commits: u64,
    journal_bytes: u64,
    checkpoint_bytes: u64,
    locks: Vec<LockRow>,
}

fn run_count(args: &MdtestArgs, np: usize) -> anyhow::Result<Vec<Row>> {
    let files = args.items as u64 * np as u64;
    let inodes = u32::try_from(files + files / 8 + 4096).context("too many files")?;
    let device = device::make(&ImageSpec {
        device: args.device.clone(),
        bytes: args.image_size,
        journal_bytes: args.journal_size,
        inodes,
    })?;
    let fs = Ext4::mount(Arc::clone(&device), MountOptions::default())?;
    let dirs = make_dirs(&fs, np, args.unique)?;
    let phases = phases(args);
    let mut measured: Vec<Vec<Measured>> = phases.iter().map(|_| Vec::new()).collect();
    for iteration in 0..=args.iterations {
        for (phase, results) in phases.iter().zip(&mut measured) {
            let result = run_phase(&fs, &dirs, args, *phase)?;
            // The first run is the warm-up.
            if iteration > 0 {
                results.push(result);
            }
        }
        if !phases.contains(&Phase::Remove) && phases.contains(&Phase::Create) {
            run_phase(&fs, &dirs, args, Phase::Remove)?;
        }
    }
    drop(dirs);
    fs.unmount()?;
    drop(fs);
    if !args.no_check {
        device::verify(&*device)?;
    }
    Ok(phases
        .iter()
        .zip(&measured)
        .map(|(phase, m)| row(*phase, np, files, m))
        .collect())
}

fn row(phase: Phase, np: usize, files: u64, measured: &[Measured]) -> Row {
    let rates: Vec<f64> = measured.iter().map(|m| files as f64 / m.seconds).collect();
    let count = rates.len().max(1) as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / count;
    let total = |f: fn(&Measured) -> u64| measured.iter().map(f).sum::<u64>();
    Row {
        arm: "default",
        op: phase.op(),
        threads: np,
        ops: files,
        seconds: measured.iter().map(|m| m.seconds).sum(),
        ops_per_s: Spread::of(&rates),
        mean,
        std_dev: variance.sqrt(),
        commits: total(|m| m.commits),
        journal_bytes: total(|m| m.journal_bytes),
        checkpoint_bytes: total(|m| m.checkpoint_bytes),
        locks: measured.last().map(|m| m.locks.clone()).unwrap_or_default(),
    }
}

fn make_dirs(fs: &Arc<Ext4>, np: usize, unique: bool) -> anyhow::Result<Vec<InodeRef>> {
    let root = Caller::root();
    let top = Ext4::root(fs)?;
    let dir = NewNode {
        mode: 0o755,
        kind: NewKind::Directory,
    };
    let shared = if unique {
        None
    } else {
        Some(Ext4::create(fs, &root, &top, b"mdtest_tree.0", &dir)?)
    };
    (0..np)
        .map(|i| match &shared {
            Some(shared) => Ok(shared.clone()),
            None => {
                let name = format!("mdtest_tree.{i}.0");
                Ok(Ext4::create(fs, &root, &top, name.as_bytes(), &dir)?)
            }
        })
        .collect()
}

fn run_phase(
    fs: &Arc<Ext4>,
    dirs: &[InodeRef],
    args: &MdtestArgs,
    phase: Phase,
) -> anyhow::Result<Measured> {
    let start_line = Barrier::new(dirs.len() + 1);
    let before = fs.journal().stats();
    stat::reset();
    stat::enable(args.lock_stat);
    let result = std::thread::scope(|scope| {
        let workers: Vec<_> = dirs
            .iter()
            .enumerate()
            .map(|(worker, dir)| {
                let start_line = &start_line;
                scope.spawn(move || {
                    start_line.wait();
                    // The thread that waits for the workers may get a CPU long after they do.
                    let start = Instant::now();
                    work(fs, dir, worker, args.items, phase).map(|()| start)
                })
            })
            .collect();
        start_line.wait();
        let mut start = Instant::now();
        for worker in workers {
            let began = worker
                .join()
                .map_err(|_| anyhow::anyhow!("a worker panicked"))??;
            start = start.min(began);
        }
        fs.sync()?;
        anyhow::Ok(start.elapsed().as_secs_f64())
    });
    stat::enable(false);
    let seconds = result?;
    let after = fs.journal().stats();
    Ok(Measured {
        seconds,
        commits: after.commits - before.commits,
        journal_bytes: after.journal_bytes - before.journal_bytes,
        checkpoint_bytes: after.checkpoint_bytes - before.checkpoint_bytes,
        locks: if args.lock_stat {
            stat::snapshot().iter().map(LockRow::from).collect()
        } else {
            Vec::new()
        },
    })
}

fn work(
    fs: &Arc<Ext4>,
    dir: &InodeRef,
    worker: usize,
    items: u32,
    phase: Phase,
) -> anyhow::Result<()> {
    let root = Caller::root();
    let file = NewNode {
        mode: 0o644,
        kind: NewKind::Regular,
    };
    let mut name = Vec::with_capacity(64);
    for i in 0..items {
        name.clear();
        std::io::Write::write_fmt(&mut name, format_args!("file.mdtest.{worker}.{i}"))?;
        match phase {
            Phase::Create => drop(FileSystem::create(&**fs, &root, dir, &name, &file)?),
            Phase::Stat => {
                let node = FileSystem::lookup(&**fs, &root, dir, &name)?;
                std::hint::black_box(FileSystem::getattr(&**fs, &node)?);
            }
            Phase::Remove => FileSystem::unlink(&**fs, &root, dir, &name)?,
        }
    }
    Ok(())
}
