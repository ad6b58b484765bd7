//! `uext4 mqueue send`.

use super::place::Place;
use super::timeout;
use anyhow::{Result, anyhow};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ffi::OsString;
use std::io::{BufRead, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;
use uext4_mqueue::client::{Descriptor, OpenArgs, Priority, Size};

/// The size of a queue of which only one part is given.
const DEFAULT_SIZE: Size = Size {
    maxmsg: 10,
    msgsize: 8192,
};

/// Send a message, or all of standard input as one. Waits while the queue is full.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 mqueue send --priority 9 /run/mq/jobs \"text\"")]
pub struct Args {
    /// Below 32768; messages of greater priority are received first
    #[arg(long, value_name = "N", value_parser = priority, default_value = "0")]
    priority: Priority,
    /// Wait so long at most: 5, 1.5s, 200ms, 2m
    #[arg(long, value_name = "DURATION", value_parser = timeout::parse, conflicts_with = "nonblock")]
    timeout: Option<Duration>,
    /// Don't wait
    #[arg(long)]
    nonblock: bool,
    /// Make the queue if it does not exist
    #[arg(long)]
    create: bool,
    /// Its permissions, without those of the umask
    #[arg(long, value_name = "MODE", value_parser = mode, default_value = "0600", requires = "create")]
    mode: u32,
    /// The most messages of it
    #[arg(long, value_name = "N", requires = "create")]
    maxmsg: Option<i64>,
    /// Its longest message in bytes
    #[arg(long, value_name = "N", requires = "create")]
    msgsize: Option<i64>,
    /// Each line of standard input is a message
    #[arg(long, conflicts_with = "message")]
    lines: bool,
    /// The queue's file
    queue: PathBuf,
    /// The message
    message: Option<OsString>,
}

fn priority(text: &str) -> Result<Priority, String> {
    let priority = text.parse().ok().and_then(|n| Priority::new(n).ok());
    priority.ok_or_else(|| "give a number below 32768".to_owned())
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    let mode = mode.filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| "give an octal number, as 0600".to_owned())
}

pub fn run(args: Args) -> Result<()> {
    let place = Place::new(&args.queue)?;
    let fd = place.open(&how(&args)).map_err(|e| match e {
        Errno::INVAL if args.create => anyhow!(
            "{place}: can't be made so; --maxmsg and --msgsize have to be above 0, and within the limits of the mount"
        ),
        e => place.failure(e),
    })?;
    let queue = Descriptor::new(fd.as_fd());
    let send = |message: &[u8]| {
        let deadline = args.timeout.and_then(timeout::deadline);
        let sent = queue.send(message, args.priority, deadline);
        sent.map_err(|e| failure(&place, queue, message, e))
    };
    let mut stdin = std::io::stdin().lock();
    if let Some(message) = &args.message {
        return send(&message.clone().into_vec());
    }
    if args.lines {
        for line in stdin.split(b'\n') {
            send(&line?)?;
        }
        return Ok(());
    }
    let mut message = Vec::new();
    stdin.read_to_end(&mut message)?;
    send(&message)
}

fn how(args: &Args) -> OpenArgs {
    let mut flags = OFlags::WRONLY;
    flags.set(OFlags::NONBLOCK, args.nonblock);
    flags.set(OFlags::CREATE, args.create);
    let has_size = args.maxmsg.is_some() || args.msgsize.is_some();
    OpenArgs {
        flags,
        mode: args.mode,
        size: has_size.then(|| Size {
            maxmsg: args.maxmsg.unwrap_or(DEFAULT_SIZE.maxmsg),
            msgsize: args.msgsize.unwrap_or(DEFAULT_SIZE.msgsize),
        }),
    }
}

fn failure(place: &Place, queue: Descriptor<'_>, message: &[u8], e: Errno) -> anyhow::Error {
    match e {
        Errno::AGAIN => anyhow!("{place}: is full; receive from it, or wait without --nonblock"),
        Errno::TIMEDOUT => {
            anyhow!("{place}: was full until the timeout; receive from it, or wait longer")
        }
        Errno::MSGSIZE => {
            let longest = queue.getattr().map_or(0, |attr| attr.msgsize);
            let len = message.len();
            anyhow!(
                "{place}: its longest message has {longest} bytes, this one {len}; make a queue with --msgsize {len}"
            )
        }
        e => place.failure(e),
    }
}
