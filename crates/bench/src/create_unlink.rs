//! create-unlink: each task creates and unlinks one file in its own directory in a loop.

use crate::arms::{Arm, Choice, parse_rounds, parse_run_time, parse_threads};
use crate::bed::Bed;
use crate::crew::{self, StopFlag};
use crate::histogram::Histogram;
use crate::locks::acquisitions_of;
use crate::report::{Document, Row, compared};
use crate::rounds::{Rounds, Turn, Workload};
use crate::sample::{Grid, Sample, Work};
use crate::setup::{Need, SetupArgs};
use crate::stages;
use crate::tables::{ratio, side_by_side};
use crate::tree::{FILE, Tree};
use clap::Args;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uext4_ext4::{Ext4, InodeRef};
use uext4_sync::stage::Stage;
use uext4_vfs::caller::Caller;
use uext4_vfs::filesystem::FileSystem;

/// Of so many pairs the latency of one is measured.
const SAMPLED: u64 = 64;

/// The counts of tasks, and the image and arms.
#[derive(Clone, Debug, Args)]
pub struct CreateUnlinkArgs {
    /// Tasks; a comma list runs each count
    #[arg(
        long,
        visible_alias = "threads",
        default_value = "1,2,4,8,16,32,64,128",
        value_delimiter = ',',
        value_parser = parse_threads
    )]
    pub tasks: Vec<usize>,
    /// Seconds for each arm, count and round
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_run_time)]
    pub time: Duration,
    /// Rounds
    #[arg(short = 'i', long, default_value_t = 9, value_parser = parse_rounds)]
    pub iterations: usize,
    /// The image, the arms and the output.
    #[command(flatten)]
    pub setup: SetupArgs,
}

struct Job<'a> {
    args: &'a CreateUnlinkArgs,
    grid: Grid,
}

impl Job<'_> {
    fn run_for(fs: &Arc<Ext4>, tree: &Tree, tasks: usize, time: Duration) -> anyhow::Result<Work> {
        let done = crew::run(tasks, Some(time), |task, stop| {
            work(fs, tree.dir(task), stop)
        })?;
        let seconds = done.seconds;
        let mut total = Work {
            seconds,
            ..Work::default()
        };
        for (pairs, latency) in done.results {
            total.ops += pairs;
            total.latency.add(&latency);
        }
        Ok(total)
    }
}

fn work(fs: &Arc<Ext4>, dir: &InodeRef, stop: &StopFlag) -> anyhow::Result<(u64, Histogram)> {
    let root = Caller::root();
    let (mut pairs, mut latency) = (0u64, Histogram::default());
    while stop.is_running() {
        let since = (pairs % SAMPLED == 0).then(Instant::now);
        drop(FileSystem::create(&**fs, &root, dir, b"file", &FILE)?);
        FileSystem::unlink(&**fs, &root, dir, b"file")?;
        if let Some(since) = since {
            latency.record(since.elapsed().as_nanos() as u64);
        }
        pairs += 1;
    }
    Ok((pairs, latency))
}

impl Workload for Job<'_> {
    type State = Tree;

    fn prepare(&self, fs: &Arc<Ext4>) -> anyhow::Result<Tree> {
        let most = self.args.tasks.iter().copied().max().unwrap_or(1);
        let names = (0..most).map(|task| format!("task.{task}")).collect();
        let tree = Tree::make(fs, "create-unlink", names)?;
        Job::run_for(fs, &tree, most, self.args.time / 4)?;
        Ok(tree)
    }

    fn run(&mut self, turn: Turn, bed: &Bed, tree: &Tree) -> anyhow::Result<()> {
        let fs = bed.fs();
        let counted = turn.round >= self.args.iterations;
        let (tasks, time) = (self.args.tasks[turn.case], self.args.time);
        // What the run before left to write is not in this one's time.
        FileSystem::syncfs(&**fs)?;
        let sample = Sample::take(Some(fs), counted, || Job::run_for(fs, tree, tasks, time))?;
        self.grid.push(turn.lane, turn.case, sample, counted);
        Ok(())
    }

    fn clean(&self, fs: &Arc<Ext4>, tree: Tree) -> anyhow::Result<()> {
        tree.remove(fs)
    }
}

/// Runs create-unlink for each count of tasks, and prints.
///
/// # Errors
/// An operation that fails, or an image that is damaged after the run.
pub fn run(args: &CreateUnlinkArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let arms = args.setup.arms();
    let mut job = Job {
        args,
        grid: Grid::new(arms.len(), args.tasks.len()),
    };
    Rounds {
        setup: &args.setup,
        arms: &arms,
        image: args.setup.image(Need {
            inodes: 2 * args.tasks.iter().copied().max().unwrap_or(1) as u64,
            data_bytes: 0,
        })?,
        rounds: args.setup.rounds(args.iterations),
        cases: args.tasks.len(),
        peers: &[],
        label: &|case| format!("{} tasks", args.tasks[case]),
    }
    .run(&mut job)?;
    let names: Vec<String> = arms.iter().map(|arm| arm.name.clone()).collect();
    let rows = job.grid.rows(&names, "create+unlink", &args.tasks);
    if args.setup.json {
        return Document::new("create-unlink", rows).print_json(out);
    }
    print(args, &arms, &names, &rows, out)
}

fn print(
    args: &CreateUnlinkArgs,
    arms: &[Arm],
    names: &[String],
    rows: &[Row],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (time, rounds) = (args.time.as_secs_f64(), args.iterations);
    writeln!(
        out,
        "create+unlink pairs per second, {rounds} rounds of {time} s"
    )?;
    let compared = compared(rows, &args.tasks);
    writeln!(out, "{}\n", side_by_side("tasks", names, &compared))?;
    for (arm, some) in names.iter().zip(rows.chunks(args.tasks.len())) {
        if let Some(line) = scaling(some) {
            writeln!(out, "{arm}: {line}")?;
        }
    }
    for line in lazytime_lines(arms, rows, args.tasks.len()) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    for row in rows {
        row.print_tables(out)?;
    }
    Ok(())
}

/// The largest count of tasks over the best, and over two.
fn scaling(rows: &[Row]) -> Option<String> {
    let most = rows.iter().max_by_key(|row| row.threads)?;
    let rate = |row: &Row| row.ops_per_s.median;
    let best = rows.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let tasks = most.threads;
    let mut line = format!(
        "{tasks} tasks over best ({} tasks): {}",
        best.threads,
        ratio(rate(most), rate(best))
    );
    if let Some(two) = rows.iter().find(|row| row.threads == 2) {
        line += &format!(", over 2 tasks: {}", ratio(rate(most), rate(two)));
    }
    Some(line)
}

/// What lazytime costs, for each pair of arms that differ in nothing else: the ratio of the rates, and if
/// locks were counted, the acquisitions of the inode cache per operation with it, less those without,
/// over the inodes written per operation with it.
fn lazytime_lines(arms: &[Arm], rows: &[Row], cases: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let apart_from_it = |arm: &Arm| Choice {
        lazytime: None,
        ..arm.choice
    };
    for (with, arm) in arms.iter().enumerate().filter(|(_, a)| a.options.lazytime) {
        let other = |b: &Arm| !b.options.lazytime && apart_from_it(arm) == apart_from_it(b);
        let Some(without) = arms.iter().position(other) else {
            continue;
        };
        for case in 0..cases {
            let (on, off) = (&rows[with * cases + case], &rows[without * cases + case]);
            let (name, tasks) = (&arm.name, on.threads);
            let over = ratio(on.ops_per_s.median, off.ops_per_s.median);
            lines.push(format!("{name}, {tasks} tasks: over no-lazytime: {over}"));
            if on.locks.is_empty() {
                continue;
            }
            let taken =
                |row: &Row| acquisitions_of(&row.locks, "icache") as f64 / row.ops.max(1) as f64;
            let written = stages::per_op(&on.stages, Stage::MarkInodeDirty);
            lines.push(format!(
                "{name}, {tasks} tasks: extra icache acquisitions per inode written: {:.3} \
                 (({:.2} - {:.2}) / {written:.2})",
                (taken(on) - taken(off)) / written.max(f64::MIN_POSITIVE),
                taken(on),
                taken(off),
            ));
        }
    }
    lines
}
