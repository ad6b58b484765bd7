//! randrw: random direct reads and writes of one file by many threads, as fio does them.
//!
//! Beside the variants of mechanism 4 run, in turn with them, the bare device without a file system and, if
//! asked for, a file of the host. A modelled device (`--device-latency`) shows what a lock costs with few cores.
//!
//! | module | holds |
//! | --- | --- |
//! | `series` | the turns: the data file of each variant, the bare device, the host's file |
//! | `jobs` | the requests of a run, and their latency |
//! | `target` | what is read and written, and memory for it |
//! | `holes` | each block of a region once, in random order |
//! | `arithmetic` | what is allowed to a variant whose writes exclude others |
//! | `handover` | how long handing an inode lock over takes on this machine |
//! | `points` | what was measured, compared |
//! | `print` | the tables and the histogram |

mod arithmetic;
mod handover;
mod holes;
mod jobs;
mod points;
mod print;
mod series;
mod target;

use crate::device::{DeviceSpec, parse_size};
use crate::report::Document;
use crate::rounds::Rounds;
use crate::setup::{Need, SetupArgs};
use crate::variants::{parse_on_off, parse_rounds, parse_run_time, parse_threads};
use anyhow::ensure;
use clap::Args;
use points::Points;
use series::{AllSeries, Case, CaseRuns, Peer};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Direct I/O has a size in multiples of this.
const SECTOR: u64 = 512;
/// What the default size of the hole supposes where no device is modelled: no more requests...
const REQUESTS_PER_S: f64 = 2e6;
/// ...and no more bytes in a second.
const BYTES_PER_S: f64 = 8e9;
/// The default hole is at most that.
const HOLE_BYTES_MAX: u64 = 4 << 30;

/// fio's options where it has them, and the image and variants.
#[derive(Clone, Debug, Args)]
pub struct RandrwArgs {
    /// Bytes of a request; a comma list runs each size
    #[arg(long, value_name = "LIST", default_value = "4K,1M", value_delimiter = ',', value_parser = parse_block)]
    pub bs: Vec<u64>,
    /// Threads; a comma list runs each count
    #[arg(
        long,
        visible_alias = "numjobs",
        value_name = "LIST",
        default_value = "1,2,4,8,12,16,24",
        value_delimiter = ',',
        value_parser = parse_threads
    )]
    pub threads: Vec<usize>,
    /// Percent of the requests that read
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub rwmixread: u8,
    /// Requests that a thread has in flight, each by a thread of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_threads)]
    pub iodepth: usize,
    /// Seconds for each variant, block size, count and round
    #[arg(long, visible_alias = "runtime", value_name = "SECONDS", default_value = "1", value_parser = parse_run_time)]
    pub time: Duration,
    /// Rounds
    #[arg(short = 'i', long, default_value_t = 5, value_parser = parse_rounds)]
    pub iterations: usize,
    /// Bytes of the data file, all written before
    #[arg(long, default_value = "512M", value_parser = parse_block)]
    pub size: u64,
    /// Percent of the writes that fill a hole, each block of it once; peers overwrite instead
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub holes: u8,
    /// Bytes of the hole [default: what the time may need, at most 4G]
    #[arg(long, value_name = "SIZE", value_parser = parse_block)]
    pub hole_size: Option<u64>,
    /// A device of the same kind without a file system takes turns [default: on for mem]; for an image
    /// file it is another file beside it
    #[arg(long, value_name = "on|off", num_args = 0..=1, default_missing_value = "on", value_parser = parse_on_off)]
    pub bare: Option<bool>,
    /// A new file on a file system of the host, which takes turns with pread and pwrite, direct
    #[arg(long, value_name = "FILE")]
    pub peer: Option<PathBuf>,
    /// The image, the variants and the output.
    #[command(flatten)]
    pub setup: SetupArgs,
}

/// A size that direct I/O can have.
fn parse_block(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        bytes if bytes > 0 && bytes % SECTOR == 0 => Ok(bytes),
        bytes => Err(format!("{bytes} is not a multiple of {SECTOR}")),
    }
}

impl RandrwArgs {
    /// How long the most threads run before the first round.
    fn warm_up(&self) -> Duration {
        self.time / 4
    }

    /// Bytes behind the data that are a hole.
    fn hole_bytes(&self) -> u64 {
        if self.holes == 0 {
            return 0;
        }
        self.hole_size.unwrap_or_else(|| self.holes_filled())
    }

    /// What the time may need.
    fn holes_filled(&self) -> u64 {
        let most_per_s = self.setup.model().map_or(REQUESTS_PER_S, |model| {
            let latency = model.latency.as_secs_f64().max(1e-9);
            (model.parallelism as f64 / latency).min(REQUESTS_PER_S)
        });
        let share = f64::from(100 - self.rwmixread) / 100.0 * f64::from(self.holes) / 100.0;
        let largest = self.bs.iter().copied().max().unwrap_or(0);
        let bytes_per_s = (most_per_s * largest as f64).min(BYTES_PER_S);
        let bytes = (bytes_per_s * share * self.time.as_secs_f64() * 1.25) as u64;
        // A job may draw far more holes than its share of a short run.
        let jobs = self.threads.iter().max().unwrap_or(&1) * self.iodepth;
        let least = jobs as u64 * largest * 16;
        bytes
            .max(least)
            .next_multiple_of(1 << 20)
            .min(HOLE_BYTES_MAX)
    }

    fn cases(&self) -> Vec<Case> {
        let case = |block_bytes, &threads| Case {
            block_bytes,
            threads,
        };
        let of_size = |&bytes: &u64| self.threads.iter().map(move |threads| case(bytes, threads));
        self.bs.iter().flat_map(of_size).collect()
    }

    fn wants_bare(&self) -> bool {
        self.bare.unwrap_or(self.setup.device == DeviceSpec::Mem)
    }
}

/// Runs randrw for each block size and count of threads, and prints.
pub fn run(args: &RandrwArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let largest = args.bs.iter().copied().max().unwrap_or(0);
    ensure!(
        largest <= args.size,
        "--size {}: less than a block of {largest}",
        args.size
    );
    let variants = args.setup.variants();
    let image = args.setup.image(Need {
        inodes: 4096,
        data_bytes: args.size + args.hole_bytes(),
    })?;
    let mut peers = Vec::new();
    if args.wants_bare() {
        peers.push(Peer::bare(args, &image)?);
    }
    if let Some(path) = &args.peer {
        peers.push(Peer::host(args, path)?);
    }
    let peer_names: Vec<&'static str> = peers.iter().map(Peer::name).collect();
    let mut names: Vec<String> = variants
        .iter()
        .map(|variant| variant.name.clone())
        .collect();
    names.extend(peer_names.iter().map(|name| (*name).to_owned()));
    let cases = args.cases();
    let mut all_series = AllSeries {
        args,
        variants: variants.len(),
        peers: &peers,
        handover_ns: peers.first().map_or(Ok(0), Peer::handover_ns)?,
        runs: (0..names.len() * cases.len())
            .map(|_| CaseRuns::default())
            .collect(),
        cases: cases.clone(),
    };
    let grid = Rounds {
        setup: &args.setup,
        variants: &variants,
        image,
        iterations: args.iterations,
        cases: cases.len(),
        ops: 3,
        anew: false,
        peers: &peer_names,
        label: &|case| label(cases[case]),
    }
    .run(&mut all_series)?;
    let points = Points::of(&all_series, &grid, &variants, &names);
    if args.setup.json {
        let reads = f64::from(args.rwmixread) / 100.0;
        let rows = points.all.into_iter().flat_map(|p| p.into_json(reads));
        return Document::new("randrw", rows.collect()).print_json(out);
    }
    Ok(print::print(
        args,
        &names,
        &points,
        all_series.handover_ns,
        out,
    )?)
}

fn label(case: Case) -> String {
    let size = crate::device::size_name(case.block_bytes);
    format!("{size}, {} threads", case.threads)
}
