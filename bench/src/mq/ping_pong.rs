//! To and fro: a client sends a message through one queue, and a server sends it back through another.

use super::channel::Channel;
use super::channel::Side;
use super::message::{Buffer, Message};
use crate::histogram::Histogram;
use crate::sample::Work;
use crate::workers::{self, StopFlag};
use anyhow::ensure;
use std::time::{Duration, Instant};

/// Of so many round trips the latency of one is measured.
const SAMPLED: u64 = 16;

/// Messages of so many bytes go round for `time`, a pair of queues for each pair of threads.
pub fn run(queues: &[impl Channel], bytes: usize, time: Duration) -> anyhow::Result<Work> {
    let pairs: Vec<_> = queues.chunks_exact(2).collect();
    let done = workers::run(2 * pairs.len(), Some(time), |thread, stop| {
        let (pair, mut buffer) = (pairs[thread / 2], Buffer::new(bytes));
        let side = Side::BOTH[thread % 2];
        half(side, &pair[0], &pair[1], &mut buffer, stop)
    })?;
    Ok(done.into())
}

/// Asks or answers: how many round trips it asked for, and how long they took.
pub fn half<C: Channel>(
    side: Side,
    there: &C,
    back: &C,
    buffer: &mut Buffer,
    stop: &StopFlag,
) -> anyhow::Result<(u64, Histogram)> {
    match side {
        Side::Near => ask(there, back, buffer, stop),
        Side::Far => answer(there, back, buffer),
    }
}

/// Sends and waits for the answer, until asked to stop.
fn ask<C: Channel>(
    there: &C,
    back: &C,
    buffer: &mut Buffer,
    stop: &StopFlag,
) -> anyhow::Result<(u64, Histogram)> {
    let (mut trips, mut latency) = (0, Histogram::default());
    let mut outcome = Ok(());
    while outcome.is_ok() && stop.is_running() {
        let since = (trips % SAMPLED == 0).then(Instant::now);
        outcome = round_trip(there, back, buffer, trips);
        if let Some(since) = since {
            latency.record(since.elapsed().as_nanos() as u64);
        }
        trips += 1;
    }
    // Whatever went wrong: the server waits for this one.
    buffer.send(there, Message::Last(trips), 0)?;
    outcome.map(|()| (trips, latency))
}

#[inline(always)]
fn round_trip<C: Channel>(
    there: &C,
    back: &C,
    buffer: &mut Buffer,
    number: u64,
) -> anyhow::Result<()> {
    let asked = Message::Number(number);
    buffer.send(there, asked, 0)?;
    let (answer, _) = buffer.receive(back)?;
    ensure!(answer == asked, "{answer:?} came back for {asked:?}");
    Ok(())
}

/// Sends every message back, until the last.
fn answer<C: Channel>(
    there: &C,
    back: &C,
    buffer: &mut Buffer,
) -> anyhow::Result<(u64, Histogram)> {
    loop {
        match buffer.receive(there)? {
            (Message::Last(_), _) => return Ok((0, Histogram::default())),
            (message, priority) => buffer.send(back, message, priority)?,
        }
    }
}
