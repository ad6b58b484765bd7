//! What is done with the queues.

use super::channel::{Channel, Side};
use super::message::Buffer;
use super::ping_pong;
use super::stream::{self, Priorities};
use crate::histogram::Histogram;
use crate::sample::Work;
use crate::variants::Named;
use crate::workers::StopFlag;
use std::time::Duration;

/// What is done with the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// One way, all messages with the same priority.
    Stream,
    /// Round trips through two queues.
    PingPong,
    /// One way, priorities mixed.
    Mixed,
}

impl Named for Op {
    const NAMES: &'static [(Op, &'static str)] = &[
        (Op::Stream, "stream"),
        (Op::PingPong, "ping-pong"),
        (Op::Mixed, "mixed"),
    ];
}

impl Op {
    pub fn counts(self) -> &'static str {
        match self {
            Op::Stream => "messages per second, one way",
            Op::PingPong => "round trips per second, through two queues",
            Op::Mixed => "messages per second, one way, priorities 0 to 31 mixed",
        }
    }

    /// Messages of what is counted once.
    pub fn messages(self) -> u64 {
        match self {
            Op::Stream | Op::Mixed => 1,
            Op::PingPong => 2,
        }
    }

    /// Queues that a pair of threads has.
    pub fn queues_of_pair(self) -> usize {
        match self {
            Op::Stream | Op::Mixed => 1,
            Op::PingPong => 2,
        }
    }

    /// Does it with `pairs` pairs of threads and messages of so many bytes for `time`.
    pub fn run(
        self,
        queues: &[impl Channel],
        pairs: usize,
        bytes: usize,
        time: Duration,
    ) -> anyhow::Result<Work> {
        let queues = &queues[..pairs * self.queues_of_pair()];
        match self {
            Op::Stream => stream::run(queues, bytes, Priorities::One, time),
            Op::PingPong => ping_pong::run(queues, bytes, time),
            Op::Mixed => stream::run(queues, bytes, Priorities::Mixed, time),
        }
    }

    /// Does one side's half of it until asked to stop, or the other side is: what this side counts, and how long that took.
    pub fn half(
        self,
        side: Side,
        pair: [&impl Channel; 2],
        buffer: &mut Buffer,
        stop: &StopFlag,
    ) -> anyhow::Result<(u64, Histogram)> {
        let [there, back] = pair;
        let priorities = match self {
            Op::PingPong => return ping_pong::half(side, there, back, buffer, stop),
            Op::Stream => Priorities::One,
            Op::Mixed => Priorities::Mixed,
        };
        let count = match side {
            Side::Near => stream::send(there, buffer, priorities, stop)?,
            Side::Far => stream::receive(there, buffer, priorities, stop)?,
        };
        Ok((count, Histogram::default()))
    }
}
