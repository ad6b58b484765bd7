//! The workloads that measure uext4, as docs/BENCHMARKS.md describes them.
//!
//! Every run ends with a check of its image: a fast run that leaves a bad image is a failure.
//!
//! | module | holds |
//! | --- | --- |
//! | [`mdtest`] | creating, statting and removing files from many workers |
//! | [`device`] | the device and image a benchmark runs on |
//! | [`report`] | rows, JSON and tables |
#![forbid(unsafe_code)]

pub mod device;
pub mod mdtest;
pub mod report;

use clap::{Parser, Subcommand};
use std::ffi::OsString;

/// Measures uext4.
#[derive(Debug, Parser)]
#[command(name = "uext4 bench", bin_name = "uext4 bench")]
struct Args {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// Creates, stats and removes empty files from many workers, each phase ending with a sync.
    ///
    /// Example: uext4 bench mdtest --device file:/dev/shm/a.img --np 48 -n 30000 -F -C -r -u -i 3
    Mdtest(mdtest::MdtestArgs),
}

/// Runs the benchmark that `args` (without the word `bench`) names.
///
/// # Errors
/// Wrong arguments, a device that fails, or an image that is damaged after the run.
pub fn run(args: Vec<OsString>) -> anyhow::Result<()> {
    let argv = std::iter::once(OsString::from("uext4 bench")).chain(args);
    match Args::parse_from(argv).workload {
        Workload::Mdtest(args) => mdtest::run(&args),
    }
}
