//! `uext4 mqueue rm` and `uext4 mqueue unlink`.

use super::place::Place;
use anyhow::Result;
use rustix::io::Errno;
use std::path::PathBuf;

/// Remove queues. A process that has one open keeps it, with its messages, until it is closed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 mqueue rm /run/mq/jobs /run/mq/done")]
pub struct Args {
    /// What does not exist is not an error
    #[arg(short)]
    force: bool,
    /// The queues' files
    #[arg(required = true, value_name = "QUEUE")]
    queues: Vec<PathBuf>,
}

/// Remove one queue.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 mqueue unlink /run/mq/jobs")]
pub struct UnlinkArgs {
    /// The queue's file
    queue: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    for queue in &args.queues {
        let place = Place::new(queue)?;
        match place.unlink() {
            Err(Errno::NOENT) if args.force => {}
            unlinked => unlinked.map_err(|e| place.failure(e))?,
        }
    }
    Ok(())
}

pub fn unlink(args: &UnlinkArgs) -> Result<()> {
    let place = Place::new(&args.queue)?;
    place.unlink().map_err(|e| place.failure(e))
}
