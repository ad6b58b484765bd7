//! randrw: random reads and writes of 4 KiB in one file that is written before, half of each, with O_DIRECT.

use super::FuseArgs;
use super::seq::{self, Cache};
use super::workload::Figure;
use crate::aligned::AlignedBuf;
use crate::histogram::Histogram;
use crate::sample::Work;
use crate::variants::once;
use crate::workers;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

const BLOCK: u64 = 4096;

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
            let mut block = AlignedBuf::zeroed(BLOCK as usize);
            block.bytes_mut().fill(number as u8);
            let [mut reads, mut writes] = [Histogram::default(), Histogram::default()];
            while stop.is_running() {
                let offset = random.u64(0..args.size / BLOCK) * BLOCK;
                let since = Instant::now();
                let histogram = if random.bool() {
                    file.read_exact_at(block.bytes_mut(), offset)?;
                    &mut reads
                } else {
                    file.write_all_at(block.bytes(), offset)?;
                    &mut writes
                };
                histogram.record(since.elapsed().as_nanos() as u64);
            }
            Ok([reads, writes])
        })?;
        let since = Instant::now();
        files[0].sync_all()?;
        let seconds = done.seconds + since.elapsed().as_secs_f64();
        let mut sums: [Histogram; 3] = Default::default();
        for [reads, writes] in &done.results {
            for (sum, part) in [(0, reads), (0, writes), (1, reads), (2, writes)] {
                sums[sum].add(part);
            }
        }
        for (op, latency) in ["randrw", "read", "write"].into_iter().zip(sums) {
            let work = Work {
                ops: latency.count(),
                seconds,
                latency,
            };
            figures.push(Figure { op, threads, work });
        }
    }
    Ok(figures)
}
