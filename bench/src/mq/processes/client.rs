//! One side of a pair, a process: sends, receives, asks or answers on commands from its input.
//!
//! It says `ready` once its queues are open, and for each line with an operation and microseconds, as `stream 1000000`,
//! it says as JSON what it did.

use super::home::Home;
use super::usage::Usage;
use crate::fuse::client::now_ns;
use crate::fuse::process::READY;
use crate::histogram::Histogram;
use crate::mq::channel::Side;
use crate::mq::message::Buffer;
use crate::mq::op::Op;
use crate::variants::Named;
use crate::workers;
use anyhow::Context as _;
use clap::Args;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Which side, and the queues of the pair.
#[derive(Clone, Debug, Args)]
pub struct ClientArgs {
    /// Side of the pair
    #[arg(long)]
    pub side: Side,
    /// Bytes of a message
    #[arg(long)]
    pub msgsize: u32,
    /// Where the queues are mounted; without, they are the kernel's
    #[arg(long, value_name = "DIR")]
    pub mounted: Option<PathBuf>,
    /// The queue to the far side
    pub there: String,
    /// The queue back
    pub back: String,
}

/// What a side did.
#[derive(Debug, Serialize, Deserialize)]
pub struct Half {
    /// When it began, by the clock of all processes.
    pub began_ns: u64,
    pub ended_ns: u64,
    /// What it counted; the other side counts nothing.
    pub ops: u64,
    /// Of round trips.
    pub latency: Histogram,
    /// What it took.
    pub usage: Usage,
}

/// The task of a client.
pub fn order(op: Op, time: Duration) -> String {
    format!("{} {}", op.name(), time.as_micros())
}

fn ordered(line: &str) -> anyhow::Result<(Op, Duration)> {
    let (op, us) = line.split_once(' ').context("an order without time")?;
    let op = Op::named(op).map_err(anyhow::Error::msg)?;
    Ok((op, Duration::from_micros(us.parse()?)))
}

/// Executes commands until its input ends.
pub fn run(args: &ClientArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    // It may be waiting for a message of a process that was killed too.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let home = Home::new(args.mounted.as_deref());
    let (there, back) = (home.open(&args.there)?, home.open(&args.back)?);
    writeln!(out, "{READY}")?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        let (op, time) = ordered(&line?)?;
        let mut done = workers::run(1, Some(time), |_, stop| {
            let mut buffer = Buffer::new(args.msgsize as usize);
            let (before, began_ns) = (Usage::of_this_thread()?, now_ns());
            let (ops, latency) = op.half(args.side, [&there, &back], &mut buffer, stop)?;
            let ended_ns = now_ns();
            Ok(Half {
                began_ns,
                ended_ns,
                ops,
                latency,
                usage: Usage::of_this_thread()?.since(before),
            })
        })?;
        let half = done.results.pop().context("no half")?;
        serde_json::to_writer(&mut *out, &half)?;
        writeln!(out)?;
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_understood() {
        let time = Duration::from_millis(20);
        for &(op, _) in Op::NAMES {
            assert_eq!(ordered(&order(op, time)).unwrap(), (op, time));
        }
        for wrong in ["stream", "rest 5", "stream 1s"] {
            assert!(ordered(wrong).is_err(), "{wrong}");
        }
    }
}
