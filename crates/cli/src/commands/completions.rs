//! `uext4 completions`.

use anyhow::Result;
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::io::Write as _;

/// Print the completions of a shell.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: uext4 completions bash > ~/.local/share/bash-completion/completions/uext4"
)]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub fn run(args: &Args) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "uext4", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}
