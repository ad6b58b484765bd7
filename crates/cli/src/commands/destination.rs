//! How the last operand of cp, mv and ln is meant.

use std::ffi::OsString;

/// How the last operand is meant.
#[derive(Clone, Debug, clap::Args)]
pub struct Destination {
    /// All into this directory: no operand names the target
    #[arg(
        short,
        long,
        value_name = "DIR",
        conflicts_with = "no_target_directory"
    )]
    pub target_directory: Option<OsString>,
    /// The last operand is the new name, also if it is a directory
    #[arg(short = 'T', long)]
    pub no_target_directory: bool,
}
