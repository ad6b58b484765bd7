//! randrw: random reads and writes of 4 KiB in one file that is written before, half of each, with O_DIRECT.

use super::FuseArgs;
use super::aligned::AlignedBytes;
use super::seq::{self, Cache};
use super::workload::Figure;
use crate::histogram::Histogram;
use crate::sample::Work;
use crate::variants::once;
use crate::workers;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

const BLOCK: u64 = 4096;

/// What a thread did.
#[derive(Default)]
struct Latencies {
    reads: Histogram,
    writes: Histogram,
}

/// Runs each count of threads for its time; an fsync of the file is inside it.
pub fn run(dir: &Path, args: &FuseArgs, round: usize) -> anyhow::Result<Vec<Figure>> {
    let path = dir.join("randrw");
    let file = File::create_new(&path)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, args.size)?;
    seq::write(&file, args.size)?;
    drop(file);
    let mut figures = Vec::new();
    for threads in once(&args.threads) {
        let files: Vec<File> = (0..threads)
            .map(|_| seq::open(&path, Cache::Direct))
            .collect::<Result<_, _>>()?;
        let parts = files.iter().enumerate().collect();
        let done = workers::run_each(parts, Some(args.time), |(number, file), stop| {
            let mut random = fastrand::Rng::with_seed((round * 4096 + number) as u64);
            let mut block = AlignedBytes::new(BLOCK as usize, number as u8);
            let mut done = Latencies::default();
            while stop.is_running() {
                let offset = random.u64(0..args.size / BLOCK) * BLOCK;
                let (reads, since) = (random.bool(), Instant::now());
                match reads {
                    true => file.read_exact_at(block.get(), offset)?,
                    false => file.write_all_at(block.get(), offset)?,
                }
                let histogram = match reads {
                    true => &mut done.reads,
                    false => &mut done.writes,
                };
                histogram.record(since.elapsed().as_nanos() as u64);
            }
            Ok(done)
        })?;
        let since = Instant::now();
        files[0].sync_all()?;
        let seconds = done.seconds + since.elapsed().as_secs_f64();
        figures.extend(figures_of(&done.results, threads, seconds));
    }
    Ok(figures)
}

fn figures_of(results: &[Latencies], threads: usize, seconds: f64) -> [Figure; 3] {
    let mut sums: [Histogram; 3] = Default::default();
    let [both, reads, writes] = &mut sums;
    for result in results {
        reads.add(&result.reads);
        writes.add(&result.writes);
        both.add(&result.reads);
        both.add(&result.writes);
    }
    let mut ops = ["randrw", "read", "write"].into_iter();
    sums.map(|latency| Figure {
        op: ops.next().unwrap_or_default(),
        threads,
        work: Work {
            ops: latency.count(),
            seconds,
            latency,
        },
    })
}
