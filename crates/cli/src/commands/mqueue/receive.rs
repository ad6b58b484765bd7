//! `uext4 mqueue receive`.

use super::place::Place;
use super::timeout;
use crate::show;
use anyhow::{Result, anyhow};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Serialize;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;
use uext4_mqueue::client::{Descriptor, OpenArgs};

/// Receive messages: the oldest of the highest priority first. Waits while the queue is empty.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uext4 mqueue receive --timeout 5 /run/mq/jobs")]
pub struct Args {
    /// So many messages
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "all")]
    count: u64,
    /// All that there are, without waiting
    #[arg(long, conflicts_with = "timeout")]
    all: bool,
    /// Wait so long at most for each: 5, 1.5s, 200ms, 2m
    #[arg(long, value_name = "DURATION", value_parser = timeout::parse, conflicts_with = "nonblock")]
    timeout: Option<Duration>,
    /// Don't wait
    #[arg(long)]
    nonblock: bool,
    /// As JSON: a list of priority, length, and text, or bytes where it is not UTF-8
    #[arg(long)]
    json: bool,
    /// A NUL between messages, not a newline
    #[arg(long, conflicts_with = "json")]
    null: bool,
    /// The queue's file
    queue: PathBuf,
}

/// A message as JSON has it.
#[derive(Debug, Serialize)]
struct MessageJson {
    priority: u32,
    length: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<Vec<u8>>,
}

impl MessageJson {
    fn new(message: &[u8], priority: u32) -> MessageJson {
        let text = std::str::from_utf8(message).ok();
        MessageJson {
            priority,
            length: message.len(),
            text: text.map(str::to_owned),
            bytes: text.is_none().then(|| message.to_vec()),
        }
    }
}

pub fn run(args: &Args) -> Result<()> {
    let place = Place::new(&args.queue)?;
    if !args.json {
        let between: &[u8] = if args.null { b"\0" } else { b"\n" };
        let mut out = std::io::stdout().lock();
        let mut first = true;
        return receive(args, &place, |message, _| {
            if !std::mem::replace(&mut first, false) {
                out.write_all(between)?;
            }
            out.write_all(message)?;
            // It is gone from the queue, so it is not kept back.
            Ok(out.flush()?)
        });
    }
    let mut messages = Vec::new();
    let received = receive(args, &place, |message, priority| {
        messages.push(MessageJson::new(message, priority));
        Ok(())
    });
    // What came before a failure is gone from the queue too.
    if received.is_ok() || !messages.is_empty() {
        show::json(&messages)?;
    }
    received
}

/// Receives as the arguments say, and gives each message and its priority to `take`.
fn receive(
    args: &Args,
    place: &Place,
    mut take: impl FnMut(&[u8], u32) -> Result<()>,
) -> Result<()> {
    let mut flags = OFlags::RDONLY;
    flags.set(OFlags::NONBLOCK, args.nonblock || args.all);
    let how = OpenArgs {
        flags,
        mode: 0,
        size: None,
    };
    let fd = place.open(&how).map_err(|e| place.failure(e))?;
    let queue = Descriptor::new(fd.as_fd());
    let attr = queue.getattr().map_err(|e| place.failure(e))?;
    let mut buffer = vec![0; usize::try_from(attr.msgsize)?];
    let count = if args.all { u64::MAX } else { args.count };
    for _ in 0..count {
        let deadline = args.timeout.and_then(timeout::deadline);
        match queue.receive(&mut buffer, deadline) {
            Ok(got) => take(&buffer[..got.len], got.priority)?,
            Err(Errno::AGAIN) if args.all => break,
            Err(e) => return Err(failure(place, e)),
        }
    }
    Ok(())
}

fn failure(place: &Place, e: Errno) -> anyhow::Error {
    match e {
        Errno::AGAIN => anyhow!("{place}: is empty; wait for a message without --nonblock"),
        Errno::TIMEDOUT => {
            anyhow!("{place}: was empty until the timeout; wait longer, or send to it")
        }
        e => place.failure(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_bytes() {
        let json = |message| serde_json::to_string(&MessageJson::new(message, 3)).unwrap();
        let text = r#"{"priority":3,"length":2,"text":"hi"}"#;
        assert_eq!(json(b"hi"), text);
        let bytes = r#"{"priority":3,"length":2,"bytes":[255,0]}"#;
        assert_eq!(json(b"\xff\0"), bytes);
    }
}
