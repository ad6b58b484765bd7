//! `uext4 man`.

use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;

/// Write the manual pages into a directory, one for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 man ~/.local/share/man/man1")]
pub struct Args {
    /// The directory, made if it is not there
    directory: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    let pages = super::help::command();
    if let Some(name) = args.directory.to_str()
        && pages.find_subcommand(name).is_some()
        && !args.directory.exists()
    {
        bail!("{name}: names a command, not a directory; `uext4 help {name}` prints its help");
    }
    std::fs::create_dir_all(&args.directory)
        .with_context(|| args.directory.display().to_string())?;
    clap_mangen::generate_to(pages, &args.directory)
        .with_context(|| args.directory.display().to_string())
}
