//! Draws per second.

use super::GenerationArgs;
use crate::report::Row;
use crate::sample::{Grid, Sample, Work};
use crate::workers;
use std::hint::black_box;
use std::time::Duration;
use uext4_ext4::GenerationVariant;
use uext4_ext4::generation::Generator;

/// Draws between two reads of the flag.
const BATCH: u64 = 256;

/// Draws with each variant and count of threads, in turn; a chunk of rows for each variant.
pub fn run(args: &GenerationArgs) -> anyhow::Result<Vec<Row>> {
    let variants = &args.generation.0;
    let mut grid = Grid::new(variants.len(), args.threads.len());
    for round in 0..args.iterations + usize::from(args.lock_stat) {
        let counted = round >= args.iterations;
        for (case, &threads) in args.threads.iter().enumerate() {
            for i in 0..variants.len() {
                let series = (i + round + case) % variants.len();
                let sample =
                    Sample::take(None, counted, || draw(variants[series], threads, args.time))?;
                grid.push(series, case, sample, counted);
            }
        }
    }
    let names: Vec<String> = variants
        .iter()
        .map(|variant| variant.name().to_owned())
        .collect();
    Ok(grid.rows(&names, "draw", &args.threads))
}

fn draw(variant: GenerationVariant, threads: usize, time: Duration) -> anyhow::Result<Work> {
    let generator = Generator::new(variant);
    let done = workers::run(threads, Some(time), |_, stop| {
        let mut draws = 0;
        while stop.is_running() {
            for _ in 0..BATCH {
                black_box(generator.draw(None));
            }
            draws += BATCH;
        }
        Ok(draws)
    })?;
    Ok(Work {
        ops: done.results.iter().sum(),
        seconds: done.seconds,
        ..Work::default()
    })
}
