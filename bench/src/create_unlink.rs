//! create-unlink: each task creates and unlinks one file in its own directory in a loop.

use crate::histogram::Histogram;
use crate::host_dir::PeerArgs;
use crate::in_directories::{InDirectories, Plan};
use crate::location::{Dir, Location};
use crate::locks::acquisitions_of;
use crate::report::{Document, Row, print_compared};
use crate::sample::{Sample, Work};
use crate::setup::{Need, SetupArgs};
use crate::stages;
use crate::tables::ratio;
use crate::variants::{Choice, Variant, parse_rounds, parse_run_time, parse_threads};
use crate::workers::{self, StopFlag};
use clap::Args;
use std::io::Write;
use std::time::{Duration, Instant};
use uext4_ext4::Ext4;
use uext4_sync::probe::Stage;

/// Of so many pairs the latency of one is measured.
const SAMPLED: u64 = 64;

/// The counts of tasks, and the image and variants.
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
    /// Seconds for each variant, count and round
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_run_time)]
    pub time: Duration,
    /// Rounds
    #[arg(short = 'i', long, default_value_t = 9, value_parser = parse_rounds)]
    pub iterations: usize,
    /// The peer.
    #[command(flatten)]
    pub peer: PeerArgs,
    /// The image, the variants and the output.
    #[command(flatten)]
    pub setup: SetupArgs,
}

impl CreateUnlinkArgs {
    /// The largest count of tasks.
    fn tasks_max(&self) -> usize {
        self.tasks.iter().copied().max().unwrap_or(1)
    }
}

impl InDirectories for CreateUnlinkArgs {
    const TOP: [&'static str; 2] = ["create-unlink"; 2];

    fn directories(&self) -> Vec<String> {
        (0..self.tasks_max())
            .map(|task| format!("task.{task}"))
            .collect()
    }

    fn warm_up(&self, location: &impl Location) -> anyhow::Result<()> {
        run_for(location, self.tasks_max(), self.time / 4).map(drop)
    }

    fn samples(
        &self,
        location: &impl Location,
        case: usize,
        fs: Option<&Ext4>,
        counted: bool,
    ) -> anyhow::Result<Vec<Sample>> {
        // What the run before left to write is not in this one's time.
        location.syncfs()?;
        let work = || run_for(location, self.tasks[case], self.time);
        Ok(vec![Sample::take(fs, counted, work)?])
    }
}

fn run_for(location: &impl Location, tasks: usize, time: Duration) -> anyhow::Result<Work> {
    let done = workers::run(tasks, Some(time), |task, stop| {
        work(&location.enter(task)?, stop)
    })?;
    Ok(done.into())
}

fn work(dir: &impl Dir, stop: &StopFlag) -> anyhow::Result<(u64, Histogram)> {
    let (mut pairs, mut latency) = (0u64, Histogram::default());
    loop {
        let since = (pairs % SAMPLED == 0).then(Instant::now);
        drop(dir.create(b"file")?);
        dir.unlink(b"file")?;
        if let Some(since) = since {
            latency.record(since.elapsed().as_nanos() as u64);
        }
        pairs += 1;
        if !stop.is_running() {
            return Ok((pairs, latency));
        }
    }
}

/// Runs create-unlink for each count of tasks, and prints.
pub fn run(args: &CreateUnlinkArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let plan = Plan {
        setup: &args.setup,
        peer: &args.peer,
        need: Need {
            inodes: 2 * args.tasks_max() as u64,
            data_bytes: 0,
        },
        iterations: args.iterations,
        counts: &args.tasks,
        ops: 1,
    };
    let (variants, names, grid) = plan.run(args)?;
    let rows = grid.rows(&names, "create+unlink", &args.tasks);
    if args.setup.json {
        return Document::new("create-unlink", rows).print_json(out);
    }
    print(args, &variants, &names, &rows, out)
}

fn print(
    args: &CreateUnlinkArgs,
    variants: &[Variant],
    names: &[String],
    rows: &[Row],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (time, rounds) = (args.time.as_secs_f64(), args.iterations);
    writeln!(
        out,
        "create+unlink pairs per second, {rounds} rounds of {time} s"
    )?;
    print_compared("tasks", names, rows, &args.tasks, out)?;
    for (variant, some) in names.iter().zip(rows.chunks(args.tasks.len())) {
        if let Some(line) = scaling(some) {
            writeln!(out, "{variant}: {line}")?;
        }
    }
    for line in lazytime_lines(variants, rows, args.tasks.len()) {
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

/// What lazytime costs, for each pair of variants that differ in nothing else: the ratio of the rates, and if
/// locks were counted, the acquisitions of the inode cache per operation with it, less those without,
/// over the inodes written per operation with it.
fn lazytime_lines(variants: &[Variant], rows: &[Row], cases: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let apart_from_it = |variant: &Variant| Choice {
        lazytime: None,
        ..variant.choice
    };
    for (with, variant) in variants
        .iter()
        .enumerate()
        .filter(|(_, a)| a.options.lazytime)
    {
        let other = |b: &Variant| !b.options.lazytime && apart_from_it(variant) == apart_from_it(b);
        let Some(without) = variants.iter().position(other) else {
            continue;
        };
        for case in 0..cases {
            let (on, off) = (&rows[with * cases + case], &rows[without * cases + case]);
            let (name, tasks) = (&variant.name, on.threads);
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
