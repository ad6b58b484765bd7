//! `uext4 mqueue`: POSIX message queues, mounted.

mod mount;

use anyhow::Result;
use clap::Subcommand;

/// POSIX message queues: a namespace of them as a directory
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Mount(mount::Args),
}

pub fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Mount(args) => mount::run(args),
    }
}
