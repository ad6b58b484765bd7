//! `uext4 bench`.

use std::ffi::OsString;

/// Measure uext4: the workloads of docs/BENCHMARKS.md.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "Example: uext4 bench mdtest --help"
)]
pub struct Args {
    /// The workload and its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    uext4_bench::run(args.args)
}
