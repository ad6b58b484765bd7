//! What the jobs do: random reads and writes for a time.

use super::holes::Share;
use super::target::Target;
use crate::aligned::AlignedBuf;
use crate::histogram::Histogram;
use crate::sample::Work;
use crate::workers::{self, StopFlag};
use std::time::{Duration, Instant};

/// So many requests show whether the rest of a job's are slow.
const TRIED: u64 = 64;
/// From here on every request is timed, as the clock costs little beside it.
const SLOW_NS: u64 = 10_000;
/// Of so many fast requests one is timed.
const SAMPLED: u64 = 64;

/// What each job draws from.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Bytes of a request.
    pub block_bytes: u64,
    /// Bytes from the start of the target that have data.
    pub data_bytes: u64,
    /// Percent of the requests that read.
    pub read_percent: u8,
    /// Percent of the writes that fill a hole.
    pub hole_percent: u8,
    /// Bytes after the data that are a hole.
    pub hole_bytes: u64,
}

#[derive(Debug, Default)]
pub struct Run {
    pub reads: Work,
    pub writes: Work,
    /// It ended before its time, as no block was a hole any more.
    pub used_up: bool,
}

impl Run {
    /// Reads and writes together.
    pub fn both(&self) -> Work {
        let mut latency = self.reads.latency.clone();
        latency.add(&self.writes.latency);
        Work {
            ops: self.reads.ops + self.writes.ops,
            seconds: self.reads.seconds,
            latency,
        }
    }
}

/// Which requests are timed: every one of the first [`TRIED`], and then all if they were slow.
#[derive(Default)]
struct Sampler {
    seen: u64,
    tried_ns: u64,
    sparse: bool,
}

impl Sampler {
    #[inline]
    fn begin(&mut self) -> Option<Instant> {
        self.seen += 1;
        (!self.sparse || self.seen.is_multiple_of(SAMPLED)).then(Instant::now)
    }

    #[inline]
    fn end(&mut self, since: Option<Instant>, latency: &mut Histogram) {
        let Some(since) = since else {
            return;
        };
        let ns = since.elapsed().as_nanos() as u64;
        latency.record(ns);
        if self.seen <= TRIED {
            self.tried_ns += ns;
            self.sparse = self.seen == TRIED && self.tried_ns < SLOW_NS * TRIED;
        }
    }
}

/// What one job did.
struct Did {
    reads: (u64, Histogram),
    writes: (u64, Histogram),
    used_up: bool,
    ended: Instant,
}

/// Runs `jobs` jobs for `time`.
pub fn run(target: &impl Target, mix: Mix, jobs: usize, time: Duration) -> anyhow::Result<Run> {
    let seed = fastrand::u64(..);
    let hole_blocks = mix.hole_bytes / mix.block_bytes;
    // Random bytes take longer than many requests: they are there before the time begins.
    let len = mix.block_bytes as usize;
    let from: Vec<AlignedBuf> = (0..jobs).map(|_| AlignedBuf::random(len)).collect();
    let done = workers::run(jobs, Some(time), |job, stop| {
        let holes = Share::new(job, jobs, hole_blocks, seed);
        work(target, mix, from[job].bytes(), holes, stop)
    })?;
    let ended = done.results.iter().map(|did| did.ended).max();
    let seconds = ended.map_or(0.0, |at| (at - done.began).as_secs_f64());
    let mut run = Run::default();
    for did in done.results {
        run.used_up |= did.used_up;
        for (work, (ops, latency)) in [(&mut run.reads, did.reads), (&mut run.writes, did.writes)] {
            work.ops += ops;
            work.seconds = seconds;
            work.latency.add(&latency);
        }
    }
    Ok(run)
}

fn work(
    target: &impl Target,
    mix: Mix,
    from: &[u8],
    mut holes: Share,
    stop: &StopFlag,
) -> anyhow::Result<Did> {
    let mut rng = fastrand::Rng::new();
    let mut into = AlignedBuf::zeroed(from.len());
    let blocks = mix.data_bytes / mix.block_bytes;
    let percent = |rng: &mut fastrand::Rng, of: u8| rng.u8(0..100) < of;
    let mut sampler = Sampler::default();
    let (mut reads, mut writes) = (0u64, 0u64);
    let (mut read_latency, mut write_latency) = (Histogram::default(), Histogram::default());
    let mut used_up = false;
    while stop.is_running() {
        let at = rng.u64(0..blocks) * mix.block_bytes;
        if percent(&mut rng, mix.read_percent) {
            let since = sampler.begin();
            target.read(at, into.bytes_mut())?;
            sampler.end(since, &mut read_latency);
            reads += 1;
            continue;
        }
        let at = match mix.hole_percent > 0 && percent(&mut rng, mix.hole_percent) {
            false => at,
            true => match holes.next() {
                Some(block) => mix.data_bytes + block * mix.block_bytes,
                None => {
                    used_up = true;
                    stop.stop();
                    break;
                }
            },
        };
        let since = sampler.begin();
        target.write(at, from)?;
        sampler.end(since, &mut write_latency);
        writes += 1;
    }
    Ok(Did {
        reads: (reads, read_latency),
        writes: (writes, write_latency),
        used_up,
        ended: Instant::now(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::randrw::target::{Bare, fill};
    use std::sync::Arc;
    use uext4_block::{BlockDevice as _, MemoryDevice};

    #[test]
    fn a_hole_that_is_used_up_ends_the_run() {
        let device = Arc::new(MemoryDevice::new(1 << 20));
        let target = Bare(Arc::clone(&device) as _);
        let half = 512 << 10;
        fill(&target, half).unwrap();
        let mix = Mix {
            block_bytes: 4096,
            data_bytes: half,
            read_percent: 0,
            hole_percent: 100,
            hole_bytes: half,
        };
        let run = run(&target, mix, 1, Duration::from_secs(60)).unwrap();
        assert!(run.used_up && run.reads.ops == 0);
        assert_eq!(run.writes.ops, half / 4096);
        let mut block = [0; 4096];
        for at in (half..1 << 20).step_by(4096) {
            device.read_at(at, &mut block).unwrap();
            assert!(block.iter().any(|&byte| byte != 0));
        }
    }
}
