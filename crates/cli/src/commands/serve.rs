//! `uext4 serve`: the processes that `uext4 mount` starts.

use anyhow::Result;
use uext4_mountd::process::{background, server};

/// Started by uext4 mount.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// Be the monitor, not the server
    #[arg(long)]
    monitor: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let done = match args.monitor {
        true => background::run(),
        false => server::run(),
    };
    done.map_err(|e| anyhow::anyhow!("{e}"))
}
