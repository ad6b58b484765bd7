//! `uext4 quota`: what owners have, and may have.
//!
//! | module | holds |
//! | --- | --- |
//! | [`report`] | showing it |
//! | [`set`] | limits and grace times |
//! | [`owner`] | an owner as it is written |

mod owner;
mod report;
mod set;

use anyhow::Result;
use clap::Subcommand;

/// Show and set what users, groups and projects may have
///
/// The image has the feature quota (`uext4 mkfs -O quota`, `uext4 tune -O quota`; for projects also project). What each owner has
/// is counted in any case; limits are enforced where it is mounted with -o usrquota, grpquota or prjquota.
/// IMAGE is not mounted: FUSE has no quotactl(2).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    uext4 quota report disk.img                     users with anything\n  \
    uext4 quota report -g --json disk.img           groups\n  \
    uext4 quota show disk.img user:1000 project:7   these owners\n  \
    uext4 quota set disk.img user:1000 --blocks-soft 1G --blocks-hard 2G\n  \
    uext4 quota grace disk.img --blocks 3d --inodes 12h")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Report(report::Args),
    Show(report::ShowArgs),
    Set(set::Args),
    Grace(set::GraceArgs),
}

pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Report(args) => report::run(args),
        Command::Show(args) => report::run_show(args),
        Command::Set(args) => set::run(args),
        Command::Grace(args) => set::run_grace(args),
    }
}
