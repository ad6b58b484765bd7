//! `uext4 man`.

use anyhow::{Context as _, Result};
use std::path::PathBuf;

/// Write the manual pages into a directory, one for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 man ~/.local/share/man/man1")]
pub struct Args {
    /// The directory, which must exist
    directory: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    clap_mangen::generate_to(super::help::command(), &args.directory)
        .with_context(|| args.directory.display().to_string())
}
