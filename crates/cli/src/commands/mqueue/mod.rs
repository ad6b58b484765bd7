//! `uext4 mqueue`: POSIX message queues, mounted.
//!
//! | module | holds |
//! | --- | --- |
//! | [`mount`], [`ls`], [`send`], [`receive`], [`rm`] | a file for each command; `unlink` is beside `rm` |
//! | [`place`] | a queue by its path, and errors about it |
//! | [`timeout`] | how long a command waits |

mod ls;
mod mount;
mod place;
mod receive;
mod rm;
mod send;
mod timeout;

use anyhow::Result;
use clap::Subcommand;

/// Mount and use namespaces of POSIX message queues
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  uext4 mqueue mount /run/mq\n  uext4 mqueue send --create /run/mq/jobs text"
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Mount(mount::Args),
    Ls(ls::Args),
    Send(send::Args),
    Receive(receive::Args),
    Rm(rm::Args),
    Unlink(rm::UnlinkArgs),
}

pub fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Mount(args) => mount::run(args),
        Command::Ls(args) => ls::run(&args),
        Command::Send(args) => send::run(args),
        Command::Receive(args) => receive::run(&args),
        Command::Rm(args) => rm::run(&args),
        Command::Unlink(args) => rm::unlink(&args),
    }
}
