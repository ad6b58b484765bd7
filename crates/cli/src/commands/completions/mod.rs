//! `uext4 completions`.

use anyhow::Result;
use clap_complete::Shell;
use std::io::Write as _;

/// Print the completions of a shell
///
/// They complete files inside images too.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  uext4 completions bash > ~/.local/share/bash-completion/completions/uext4\n  \
                  source <(uext4 completions zsh)\n  uext4 completions fish | source"
)]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub fn run(args: &Args) -> Result<()> {
    let mut script = Vec::new();
    match args.shell {
        Shell::Bash => script.extend_from_slice(include_bytes!("uext4.bash")),
        Shell::Zsh => script.extend_from_slice(include_bytes!("uext4.zsh")),
        Shell::Fish => script.extend_from_slice(include_bytes!("uext4.fish")),
        other => clap_complete::generate(other, &mut super::help::command(), "uext4", &mut script),
    }
    std::io::stdout().write_all(&script)?;
    Ok(())
}
