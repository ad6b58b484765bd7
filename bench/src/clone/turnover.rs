//! Workers that create a namespace and drop the oldest, in a loop.

use super::peer::Peer;
use crate::histogram::Histogram;
use crate::sample::Work;
use crate::workers::{self, StopFlag};
use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};
use uext4_mqueue::{IpcNamespace, Limits, MqueueType};

/// Of so many namespaces the latency of one is measured.
const SAMPLED: u64 = 16;

/// The kernel's work queue needs less to free what a run of the kernel left, a few thousand namespaces.
const KERNEL_FREES: Duration = Duration::from_millis(100);

/// What the workers did; one operation creates a namespace and drops one.
#[derive(Debug, Default)]
pub struct TurnOver {
    /// Both together.
    pub work: Work,
    /// Creating alone; nothing where both are one call.
    pub create: Histogram,
    /// Dropping alone.
    pub drop: Histogram,
}

impl TurnOver {
    fn add(&mut self, other: &TurnOver) {
        self.work.ops += other.work.ops;
        self.work.latency.add(&other.work.latency);
        self.create.add(&other.create);
        self.drop.add(&other.drop);
    }
}

fn ns(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// A worker for each ring runs for `time`. Returns the rings, each of its former length.
pub fn run(
    queues: &MqueueType,
    rings: Vec<VecDeque<IpcNamespace>>,
    time: Duration,
) -> anyhow::Result<(TurnOver, Vec<VecDeque<IpcNamespace>>)> {
    let done = workers::run_each(rings, Some(time), |mut ring, stop| {
        let done = turn_over(queues, &mut ring, stop);
        Ok((done, ring))
    })?;
    let mut all = TurnOver::default();
    all.work.seconds = done.seconds;
    let (parts, rings): (Vec<TurnOver>, Vec<_>) = done.results.into_iter().unzip();
    parts.iter().for_each(|one| all.add(one));
    Ok((all, rings))
}

fn turn_over(queues: &MqueueType, ring: &mut VecDeque<IpcNamespace>, stop: &StopFlag) -> TurnOver {
    let mut done = TurnOver::default();
    let mut ops = 0;
    loop {
        if ops % SAMPLED == 0 {
            let began = Instant::now();
            ring.push_back(queues.create(Limits::default()));
            let created = Instant::now();
            drop(ring.pop_front());
            let dropped = Instant::now();
            done.create.record(ns(created - began));
            done.drop.record(ns(dropped - created));
            done.work.latency.record(ns(dropped - began));
        } else {
            ring.push_back(queues.create(Limits::default()));
            drop(ring.pop_front());
        }
        ops += 1;
        if !stop.is_running() {
            done.work.ops = ops;
            return done;
        }
    }
}

/// The same by the kernel, which frees namespaces some time later, on a work queue, and is given the time after the run.
pub fn kernel(peer: Peer, workers: usize, time: Duration) -> anyhow::Result<TurnOver> {
    let done = workers::run(workers, Some(time), |_, stop| {
        let mut done = TurnOver::default();
        loop {
            let since = (done.work.ops % SAMPLED == 0).then(Instant::now);
            peer.turn_over()?;
            if let Some(since) = since {
                done.work.latency.record(ns(since.elapsed()));
            }
            done.work.ops += 1;
            if !stop.is_running() {
                return Ok(done);
            }
        }
    })?;
    let mut all = TurnOver::default();
    all.work.seconds = done.seconds;
    done.results.iter().for_each(|one| all.add(one));
    thread::sleep(KERNEL_FREES);
    Ok(all)
}
