//! Draws per second.

use super::GenerationArgs;
use crate::grid::Grid;
use crate::report::Row;
use crate::rounds::{Turn, interleave};
use crate::sample::{Sample, Work};
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
    let mut grid = Grid::new(variants.len(), args.threads.len(), 1);
    let rounds = args.iterations + usize::from(args.lock_stat);
    let label = |turn: Turn| format!("{}, draws", variants[turn.series].name());
    interleave(
        [rounds, args.threads.len(), variants.len()],
        label,
        |turn| {
            let counted = turn.round >= args.iterations;
            let (variant, threads) = (variants[turn.series], args.threads[turn.case]);
            let sample = Sample::take(None, counted, || draw(variant, threads, args.time))?;
            grid.push([turn.series, turn.case, 0], sample, counted);
            Ok(())
        },
    )?;
    let names: Vec<String> = variants.iter().map(ToString::to_string).collect();
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
