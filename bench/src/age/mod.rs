//! age: an image that is filled, aged and emptied, round after round, with e2fsck after each.
//!
//! A round: files are deleted or created until the image is 40 % full; the rate of creates is measured from there; it is filled to nine tenths and
//! aged there by random work; then it is emptied to a tenth, and every eighth round wholly. What fragmentation does to speed shows in creates on an
//! equally full image.
//!
//! | module | holds |
//! | --- | --- |
//! | `files` | the files of a worker, and what it does with them |
//! | `round` | a round and what it measures |
//! | `results` | the rounds so far, and their charts |

mod files;
mod results;
mod round;

use crate::device::parse_size;
use crate::tables::table;
use anyhow::{Context, ensure};
use clap::Args;
use round::Image;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The image, how long, and where results are kept.
#[derive(Clone, Debug, Args)]
pub struct AgeArgs {
    /// The image file, which is made; in memory it ages fastest
    #[arg(long, value_name = "FILE", default_value = "/dev/shm/uext4-age.img")]
    pub image: PathBuf,
    /// Size of the image
    #[arg(long, default_value = "2G", value_parser = parse_size)]
    pub size: u64,
    /// Threads, each with files of its own
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
    /// Ends after the round in which so many seconds have passed
    #[arg(long, default_value_t = 600)]
    pub seconds: u64,
    /// Results to continue: a line of JSON for each round
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Draws the charts of all rounds in the results into this directory
    #[arg(long, value_name = "DIR", requires = "results")]
    pub charts: Option<PathBuf>,
}

/// Runs rounds, and prints a row for each.
///
/// # Errors
/// e2fsck finds a fault; the device's; the engine's, but for a full image.
pub fn run(args: &AgeArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let size_min = u64::from(args.workers) * round::WORKER_BYTES;
    ensure!(
        args.size >= size_min,
        "--size: at least {}M for {} workers",
        size_min >> 20,
        args.workers
    );
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let mut image = Image::make(&args.image, args.size, args.workers)?;
    let run = results::next_run(args.results.as_deref())?;
    let mut rounds = Vec::new();
    for number in 0.. {
        let round = image
            .round(run, number)
            .with_context(|| format!("round {number}"))?;
        if let Some(path) = &args.results {
            results::add(path, &round)?;
        }
        writeln!(out, "{}", round.line())?;
        rounds.push(round);
        if Instant::now() >= end {
            break;
        }
    }
    writeln!(
        out,
        "{}",
        table(round::HEADER, rounds.iter().map(round::Round::cells))
    )?;
    if let (Some(path), Some(dir)) = (&args.results, &args.charts) {
        results::draw(path, dir)?;
    }
    std::fs::remove_file(&args.image).context("remove the image")
}
