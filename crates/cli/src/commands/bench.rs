//! `uext4 bench`.

use crate::system::process;
use anyhow::{Context as _, bail};
use std::ffi::OsString;
use std::io::{ErrorKind, Write as _};
use std::process::Command;

/// The program that has the workloads.
const PROGRAM: &str = "uext4-bench";

/// How to get it.
const INSTALL: &str =
    "it needs uext4's source tree, in which `cargo install --path bench` installs it";

/// What `--help` prints without it.
const HELP: &str = "\
Measure uext4 with uext4-bench, a program of its own

Usage: uext4 bench WORKLOAD [OPTIONS]

Workloads: mdtest, create-unlink, fsync, randrw, generation, lazytime,
icache-shrink, fxmark, clone, mq, fuse; conflicts and transfers have builds of
their own, `make conflicts` and `make transfers` in uext4's source tree
`all` runs each of them and writes a report; `compare` compares two results";

/// Measure uext4: files, directories, message queues, locks
///
/// Executes uext4-bench, a program of its own.
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

/// Replaces this process by uext4-bench: the one beside this program, else the first in PATH.
pub fn run(args: Args) -> anyhow::Result<()> {
    let beside = std::env::current_exe()?.with_file_name(PROGRAM);
    for program in [beside.as_os_str(), PROGRAM.as_ref()] {
        let failed = process::replace_by(Command::new(program).args(&args.args));
        if failed.kind() != ErrorKind::NotFound {
            return Err(failed).with_context(|| program.display().to_string());
        }
    }
    if args
        .args
        .first()
        .is_some_and(|a| a == "--help" || a == "-h")
    {
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{HELP}\n\n{PROGRAM} is neither beside uext4 nor in PATH;\n{INSTALL}."
        )?;
        return Ok(());
    }
    bail!(
        "the benchmarks are a program of their own, {PROGRAM}, which is neither beside uext4 nor in PATH; {INSTALL}"
    )
}
