//! FxMark's workloads: each does one operation in a loop, from several tasks, on what is a task's own and on what tasks share.
//!
//! They are of C. Min, S. Kashyap, S. Maass, W. Kang, T. Kim, "Understanding Manycore Scalability of File Systems", USENIX ATC 2016. A
//! run ends after a time, or when the first task has used up what it works on. One more, run only if it is named, is
//! `fallocate2` of will-it-scale (github.com/antonblanchard/will-it-scale), with a file for each task.

pub mod workload;

use crate::histogram::Histogram;
use crate::host_dir::PeerArgs;
use crate::in_directories::{InDirectories, Plan};
use crate::location::Location;
use crate::report::{Document, Row, first_peer};
use crate::sample::{Sample, Work};
use crate::setup::{Need, SetupArgs};
use crate::tables::{count, ratio, table};
use crate::variants::{parse_rounds, parse_run_time, parse_threads};
use crate::workers;
use anyhow::ensure;
use clap::Args;
use std::io::Write;
use std::time::{Duration, Instant};
use uext4_ext4::Ext4;
use workload::Task;
pub use workload::Workload;

/// The directory of all tasks.
pub const SHARED: &str = "shared";
/// Entries of a directory that is listed.
const FILES_IN_LISTING: u64 = 64;
/// Of so many operations the latency of one is measured.
const SAMPLED: u64 = 64;

/// The directory of a task.
pub fn own_name(task: u64) -> String {
    format!("task.{task}")
}

/// The workloads, the counts of tasks, the peer, and the image and variants.
#[derive(Clone, Debug, Args)]
pub struct FxmarkArgs {
    /// Workloads; a comma list [default: all of the paper]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', ignore_case = true)]
    only: Vec<Workload>,
    /// Tasks; a comma list runs each count
    #[arg(long, visible_alias = "threads", default_value = "1,2", value_delimiter = ',', value_parser = parse_threads)]
    tasks: Vec<usize>,
    /// Seconds for each workload, variant, count and round
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = parse_run_time)]
    time: Duration,
    /// Operations of all tasks together at most, of workloads that use up files or blocks
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    operations: u64,
    /// Rounds
    #[arg(short = 'i', long, default_value_t = 5, value_parser = parse_rounds)]
    iterations: usize,
    /// The peer.
    #[command(flatten)]
    peer: PeerArgs,
    /// The image, the variants and the output.
    #[command(flatten)]
    setup: SetupArgs,
}

impl FxmarkArgs {
    fn workloads(&self) -> &[Workload] {
        match self.only.as_slice() {
            [] => Workload::of_paper(),
            some => some,
        }
    }

    fn tasks_max(&self) -> usize {
        self.tasks.iter().copied().max().unwrap_or(1)
    }

    /// One workload once: what it finds is made before its time, and removed after it.
    fn sample(
        &self,
        location: &impl Location,
        workload: Workload,
        tasks: usize,
        take: impl FnOnce(&mut dyn FnMut() -> anyhow::Result<Work>) -> anyhow::Result<Sample>,
    ) -> anyhow::Result<Sample> {
        let operations = self.operations / tasks as u64;
        let task = |number| {
            let numbers = [number, tasks, self.tasks_max()];
            Task::new(location, workload, numbers, operations)
        };
        // A task's descriptors are those of its thread.
        workers::run(1, None, |_, _| {
            (0..tasks).try_for_each(|number| task(number)?.prepare())
        })?;
        location.syncfs()?;
        let sample = take(&mut || {
            let done = workers::run(tasks, Some(self.time), |number, stop| {
                let mut task = task(number)?;
                task.start()?;
                let (mut done, mut latency) = (0u64, Histogram::default());
                loop {
                    let since = done.is_multiple_of(SAMPLED).then(Instant::now);
                    task.step(done)?;
                    if let Some(since) = since {
                        latency.record(since.elapsed().as_nanos() as u64);
                    }
                    done += 1;
                    if workload.is_limited() && done == operations {
                        stop.stop();
                    }
                    if !stop.is_running() {
                        return Ok((done, latency));
                    }
                }
            })?;
            Ok(done.into())
        })?;
        workers::run(1, None, |_, _| {
            (0..tasks).try_for_each(|number| task(number)?.clean())
        })?;
        Ok(sample)
    }
}

impl InDirectories for FxmarkArgs {
    const TOP: [&'static str; 2] = ["fxmark"; 2];

    fn directories(&self) -> Vec<String> {
        let own = (0..self.tasks_max() as u64).map(own_name);
        own.chain([SHARED.to_owned()]).collect()
    }

    fn warm_up(&self, _: &impl Location) -> anyhow::Result<()> {
        Ok(())
    }

    fn samples(
        &self,
        location: &impl Location,
        case: usize,
        fs: Option<&Ext4>,
        counted: bool,
    ) -> anyhow::Result<Vec<Sample>> {
        let tasks = self.tasks[case];
        let all = self.workloads().iter().map(|workload| {
            self.sample(location, *workload, tasks, |work| {
                Sample::take(fs, counted, work)
            })
        });
        all.collect()
    }
}

/// Runs the workloads with each count of tasks, and prints.
pub fn run(args: &FxmarkArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let least = args.tasks_max() as u64;
    ensure!(args.operations >= least, "--operations is at least {least}");
    let workloads = args.workloads();
    let plan = Plan {
        setup: &args.setup,
        peer: &args.peer,
        need: Need {
            inodes: args.operations + 8192,
            data_bytes: (args.operations + 4096) * 4096,
        },
        iterations: args.iterations,
        counts: &args.tasks,
        ops: workloads.len(),
    };
    let (_, names, grid) = plan.run(args)?;
    let mut rows = Vec::new();
    for (case, &tasks) in args.tasks.iter().enumerate() {
        for (op, workload) in workloads.iter().enumerate() {
            for (series, name) in names.iter().enumerate() {
                let cell = grid.cell(series, case, op);
                rows.push(Row::of(name, workload.name(), tasks, cell));
            }
        }
    }
    if args.setup.json {
        return Document::new("fxmark", rows).print_json(out);
    }
    print(args, &names, &rows, out)
}

fn print(
    args: &FxmarkArgs,
    names: &[String],
    rows: &[Row],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (time, rounds) = (args.time.as_secs_f64(), args.iterations);
    writeln!(out, "operations per second, {rounds} rounds of {time} s")?;
    let first = first_peer(names);
    let over = first.map_or_else(String::new, |peer| format!("|over {}", names[peer]));
    let header = format!("tasks|workload|arm|min|median|max|p50 us|p99 us{over}");
    let mut faster = vec![0; names.len()];
    let mut lines = Vec::new();
    for of_workload in rows.chunks(names.len()) {
        let peer = first.and_then(|first| of_workload.get(first));
        let peer = peer.map_or(0.0, |row| row.ops_per_s.median);
        for (row, faster) in of_workload.iter().zip(&mut faster) {
            let (rate, us) = (row.ops_per_s, row.latency_us);
            let mut line = vec![
                row.threads.to_string(),
                row.op.to_owned(),
                row.variant.clone(),
                count(rate.min),
                count(rate.median),
                count(rate.max),
                us.map_or_else(String::new, |l| format!("{:.2}", l.p50)),
                us.map_or_else(String::new, |l| format!("{:.2}", l.p99)),
            ];
            if first.is_some() {
                line.push(ratio(rate.median, peer));
            }
            *faster += usize::from(rate.median > peer);
            lines.push(line);
        }
    }
    writeln!(out, "{}\n", table(&header, lines))?;
    if let Some(first) = first {
        let all = rows.len() / names.len();
        for (series, (name, faster)) in names.iter().zip(faster).enumerate() {
            if series != first {
                let peer = &names[first];
                writeln!(out, "{name}: faster than {peer} in {faster} of {all}")?;
            }
        }
    }
    for row in rows {
        row.print_tables(out)?;
    }
    Ok(())
}
