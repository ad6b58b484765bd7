//! mdtest: many workers create, stat, read and remove files and directories.
//!
//! An operation is openat(O_CREAT, O_EXCL) and close, a stat, or unlinkat on a directory handle, and
//! **each phase ends with a sync inside its time**. One warm-up run loads the inode tables; the workers'
//! directories are made before it and stay for all iterations, so that it loads the right ones. Counts of workers take
//! turns in each round, so that a machine that is slow for a while is so for all of them.
//!
//! Mechanism 1 is measured under three conditions (`--journal-delay`), each a run of its own: nothing sleeps; starting a journal
//! handle sleeps, as in the published trace; write access to an inode bitmap sleeps, too, each time.

mod delay;
mod job;
mod phase;

use crate::device::parse_size;
use crate::host_dir::PeerArgs;
use crate::in_directories::Plan;
use crate::report::{Document, PEER, Row, print_ratios};
use crate::sample::JournalCost;
use crate::setup::{Need, SetupArgs};
use crate::tables::{ComparedRow, count, side_by_side, table};
use crate::variants::{parse_rounds, parse_seconds, parse_threads};
use clap::Args;
use comfy_table::Table;
use delay::JournalDelay;
use phase::Phase;
use serde::Serialize;
use std::io::Write;
use std::time::Duration;
use uext4_sync::probe;

/// mdtest's own flags, and the image and variants.
#[derive(Clone, Debug, Args)]
pub struct MdtestArgs {
    /// Workers; a comma list runs each count
    #[arg(
        long,
        visible_alias = "threads",
        short = 'N',
        default_value = "48",
        value_delimiter = ',',
        value_parser = parse_threads
    )]
    pub np: Vec<usize>,
    /// Files (and directories) for each worker
    #[arg(short = 'n', default_value_t = 30_000)]
    pub items: u32,
    /// Files only (without any of -F -C -T -E -r -u: -F -C -r -u)
    #[arg(short = 'F')]
    pub files_only: bool,
    /// Only create
    #[arg(short = 'C')]
    pub create: bool,
    /// Only stat
    #[arg(short = 'T')]
    pub stat: bool,
    /// Only read
    #[arg(short = 'E')]
    pub read: bool,
    /// Only remove
    #[arg(short = 'r')]
    pub remove: bool,
    /// A directory for each worker
    #[arg(short = 'u')]
    pub unique: bool,
    /// Runs that count
    #[arg(short = 'i', long, default_value_t = 3, value_parser = parse_rounds)]
    pub iterations: usize,
    /// Seconds to wait before each phase
    #[arg(short = 'p', long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    pub pause: Duration,
    /// Bytes to write into each file after creating it
    #[arg(short = 'w', value_name = "BYTES", default_value = "0", value_parser = parse_file_size)]
    pub write_bytes: u64,
    /// Bytes to read from each file; without a number, those of -w
    #[arg(short = 'e', value_name = "BYTES", num_args = 0..=1, default_missing_value = "all",
          value_parser = parse_read_size)]
    pub read_bytes: Option<ReadBytes>,
    /// Fsync each file after writing it
    #[arg(short = 'y')]
    pub sync_files: bool,
    /// Where the journal sleeps, as while a transaction closes: none; start:TIME when a handle starts; access:TIME then and at
    /// each write access to an inode bitmap
    #[arg(
        long,
        value_name = "none|start:TIME|access:TIME",
        default_value = "none"
    )]
    pub journal_delay: JournalDelay,
    /// The peer.
    #[command(flatten)]
    pub peer: PeerArgs,
    /// The image, the variants and the output.
    #[command(flatten)]
    pub setup: SetupArgs,
}

/// A row with its condition.
#[derive(Debug, Serialize)]
struct MdtestRow {
    #[serde(flatten)]
    row: Row,
    /// Where the journal slept; the peer's never does.
    journal_delay: String,
}

/// How much a read takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBytes {
    /// What was written.
    All,
    Number(u64),
}

/// Bytes of one file, which a worker has in memory.
fn parse_file_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes <= 1 << 30 => Ok(bytes),
        bytes => Err(format!("{bytes} bytes are more than 1G")),
    }
}

fn parse_read_size(text: &str) -> Result<ReadBytes, String> {
    match text {
        "all" => Ok(ReadBytes::All),
        _ => parse_file_size(text).map(ReadBytes::Number),
    }
}

impl MdtestArgs {
    /// With no flags at all, those of the published figures.
    fn with_defaults(&self) -> MdtestArgs {
        let mut args = self.clone();
        let any = [
            args.files_only,
            args.create,
            args.stat,
            args.read,
            args.remove,
            args.unique,
        ];
        if !any.contains(&true) {
            args.files_only = true;
            args.create = true;
            args.read = args.read_bytes.is_some();
            args.remove = true;
            args.unique = true;
        }
        args
    }

    fn with_condition(&self, row: Row) -> MdtestRow {
        let journal_delay = match row.variant.starts_with(PEER) {
            true => "none".to_owned(),
            false => self.journal_delay.to_string(),
        };
        MdtestRow { row, journal_delay }
    }

    /// The most workers of all counts.
    fn workers_max(&self) -> usize {
        self.np.iter().copied().max().unwrap_or(1)
    }

    fn bytes_to_read(&self) -> u64 {
        match self.read_bytes {
            Some(ReadBytes::Number(bytes)) => bytes,
            Some(ReadBytes::All) => self.write_bytes,
            None => 0,
        }
    }

    fn need(&self, workers: usize) -> Need {
        let items = u64::from(self.items) * workers as u64;
        let of_files = self.write_bytes.div_ceil(4096);
        let of_directories = u64::from(!self.files_only);
        Need {
            inodes: items,
            data_bytes: items * of_files.max(of_directories) * 4096,
        }
    }
}

/// Runs mdtest for each count of workers, and prints.
pub fn run(args: &MdtestArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let args = args.with_defaults();
    probe::set_delay(args.journal_delay.delay());
    let rows = measure(&args);
    probe::set_delay(probe::Delay::None);
    let rows = rows?;
    if args.setup.json {
        let rows = rows.into_iter().map(|row| args.with_condition(row));
        return Document::new("mdtest", rows.collect()).print_json(out);
    }
    for (&workers, some) in args.np.iter().zip(rows.chunks(rows.len() / args.np.len())) {
        print(&args, workers, some, out)?;
    }
    let peak = crate::memory::peak_resident_bytes() >> 20;
    writeln!(out, "peak resident {peak} MiB{}", images_in_it(&args.setup))?;
    Ok(())
}

fn images_in_it(setup: &SetupArgs) -> &'static str {
    match setup.device {
        crate::device::DeviceSpec::Mem => ", the images of all variants included",
        crate::device::DeviceSpec::File(_) => "",
    }
}

/// The rows of a count of workers together, those of a variant together among them.
fn measure(args: &MdtestArgs) -> anyhow::Result<Vec<Row>> {
    let phases = phase::phases(args);
    let plan = Plan {
        setup: &args.setup,
        peer: &args.peer,
        need: args.need(args.workers_max()),
        iterations: args.iterations,
        counts: &args.np,
        ops: phases.len(),
    };
    let (_, names, grid) = plan.run(args)?;
    let mut rows = Vec::new();
    for (case, &workers) in args.np.iter().enumerate() {
        for (series, name) in names.iter().enumerate() {
            for (number, phase) in phases.iter().enumerate() {
                let cell = grid.cell(series, case, number);
                rows.push(Row::of(name, phase.op(), workers, cell));
            }
        }
    }
    Ok(rows)
}

fn print(
    args: &MdtestArgs,
    workers: usize,
    rows: &[Row],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (items, iterations) = (args.items, args.iterations);
    let phases = phase::phases(args);
    let names = args.peer.names(&args.setup.variants());
    writeln!(
        out,
        "{workers} workers, {items} items each, {iterations} iterations, journal delay {}",
        args.journal_delay
    )?;
    for some in rows.chunks(phases.len()) {
        let variant = some.first().map_or("", |row| &row.variant);
        writeln!(
            out,
            "\nSUMMARY rate: (of {iterations} iterations), {variant}"
        )?;
        writeln!(out, "{}", summary(&phases, some))?;
        let created = some.iter().find(|r| r.op == "create").or(some.first());
        // The peer's memory is not ours.
        if let Some(row) = created.filter(|row| row.journal.is_some()) {
            let mib = row.resident_bytes >> 20;
            writeln!(out, "resident after {}: {mib} MiB", row.op)?;
        }
    }
    writeln!(out)?;
    if names.len() > 1 {
        let compared: Vec<ComparedRow> = phases
            .iter()
            .map(|phase| {
                let of_op = rows.iter().filter(|r| r.op == phase.op());
                let spreads = of_op.map(|r| r.ops_per_s).collect();
                (format!("{}s/s", phase.op()), spreads)
            })
            .collect();
        writeln!(out, "{}\n", side_by_side("median", &names, &compared))?;
        print_ratios(&names, &compared, "", out)?;
    }
    for row in rows {
        row.print_tables(out)?;
    }
    Ok(())
}

/// mdtest's summary, and what the journal wrote.
fn summary(phases: &[Phase], rows: &[Row]) -> Table {
    let line = |(phase, row): (&Phase, &Row)| {
        let of_journal = |part: fn(JournalCost) -> u64| {
            row.journal
                .map_or_else(String::new, |cost| part(cost).to_string())
        };
        [
            phase.title().to_owned(),
            count(row.ops_per_s.max),
            count(row.ops_per_s.min),
            count(row.mean),
            count(row.std_dev),
            of_journal(|cost| cost.commits),
            of_journal(|cost| cost.journal_bytes >> 20),
            of_journal(|cost| cost.checkpoint_bytes >> 20),
        ]
    };
    let header = "Operation|Max|Min|Mean|Std Dev|commits|journal MB|in place MB";
    table(header, phases.iter().zip(rows).map(line))
}
