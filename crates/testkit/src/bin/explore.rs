//! The crash explorer at length: see `uext4_testkit::explore`.
//!
//! `explore run` continues where the results end; `explore state` shows one state that a run reported.

use clap::{Args, Parser, Subcommand};
use uext4_testkit::explore::alphabet::Sequences;
use uext4_testkit::explore::base::{Base, CONFIGS, Config};
use uext4_testkit::explore::others::Others;
use uext4_testkit::explore::random::explore_seed;
use uext4_testkit::explore::results::{Chunk, Results};
use uext4_testkit::explore::run::{Plan, explore, run};
use uext4_testkit::explore::shared::Shared;
use uext4_testkit::explore::tally::Tally;
use uext4_testkit::prelude::*;

/// Sequences, or seeds, of one line of results.
const CHUNK: u64 = 512;
const SEEDS: u64 = 32;

#[derive(Parser)]
#[command(about = "Tries what power losses leave of workloads, state by state")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Explores what the results do not have yet: all sequences of one and of two operations, then samples of
    /// three and random workloads, in turn.
    Run(Run),
    /// Examines one sequence or seed, or one state of it.
    State(State),
}

#[derive(Args)]
struct Run {
    /// Where the results are kept.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results/explorer.jsonl"))]
    results: PathBuf,
    /// Ends after so long.
    #[arg(long)]
    seconds: Option<u64>,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Only this kind: one, two, three or random.
    #[arg(long)]
    kind: Option<String>,
    /// Only this configuration.
    #[arg(long)]
    config: Option<String>,
}

#[derive(Args)]
struct State {
    /// one, two, three or random.
    #[arg(long)]
    kind: String,
    /// The configuration.
    #[arg(long)]
    config: String,
    /// The number of the sequence, or the seed.
    #[arg(long)]
    number: u64,
    /// The number of the state; all states without.
    #[arg(long)]
    state: Option<u64>,
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Run(args) => run_on(&args),
        Command::State(args) => one_state(&args),
    }
}

fn steps_of(kind: &str) -> Option<u32> {
    let names = ["one", "two", "three"];
    names
        .iter()
        .position(|name| *name == kind)
        .map(|at| at as u32 + 1)
}

/// The chunks of a configuration, in the order in which they are to be done, as far as that is bounded.
fn chunks(config: &Config) -> impl Iterator<Item = Chunk> + use<> {
    let name = config.name.to_owned();
    let chunk = move |kind: &str, first, count| Chunk {
        kind: kind.to_owned(),
        config: name.clone(),
        first,
        count,
    };
    let (one, two) = (Sequences::of(1).count(), Sequences::of(2).count());
    let mut bounded = vec![chunk("one", 0, one)];
    for first in (0..two).step_by(CHUNK as usize) {
        bounded.push(chunk("two", first, CHUNK.min(two - first)));
    }
    let sampled = (0..1000).flat_map(move |n| {
        [
            chunk("three", n * CHUNK, CHUNK),
            chunk("random", n * SEEDS, SEEDS),
        ]
    });
    bounded.into_iter().chain(sampled)
}

fn run_on(args: &Run) -> Result<()> {
    let mut results = Results::open(&args.results)?;
    let until = args
        .seconds
        .map(|s| Instant::now() + Duration::from_secs(s));
    let is_over = || until.is_some_and(|until| Instant::now() >= until);
    let kernel = uext4_testkit::image::kernel_mounts();
    let mut total = Tally::default();
    while !is_over() {
        let mut worked = false;
        for config in CONFIGS {
            if args.config.as_ref().is_some_and(|only| only != config.name) {
                continue;
            }
            let fits = |chunk: &Chunk| args.kind.as_ref().is_none_or(|kind| *kind == chunk.kind);
            let next = chunks(&config).find(|chunk| fits(chunk) && !results.has(chunk));
            let Some(chunk) = next else { continue };
            if is_over() {
                break;
            }
            worked = true;
            let base = Base::for_kind(config, &chunk.kind)?;
            total.add(&run_chunk(
                &base,
                chunk,
                args.threads,
                kernel,
                &mut results,
            )?);
        }
        if !worked {
            break;
        }
    }
    println!("{total:?}");
    Ok(())
}

fn run_chunk(
    base: &Base,
    chunk: Chunk,
    threads: usize,
    kernel: bool,
    results: &mut Results,
) -> Result<Tally> {
    let shared = Shared::new(kernel);
    let start = Instant::now();
    let plan = Plan {
        sequences: steps_of(&chunk.kind).map(Sequences::of),
        range: chunk.first..chunk.first + chunk.count,
        threads,
        until: None,
    };
    let (done, tally, failed) = run(base, &plan, &shared)?;
    if done < chunk.count {
        bail!("only {done} of {} were explored", chunk.count);
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} {} from {}: {} states in {seconds:.1} s, {} failed",
        chunk.config,
        chunk.kind,
        chunk.first,
        tally.states,
        failed.len()
    );
    for failure in &failed {
        println!("  {}\n    {}", failure.command(&chunk), failure.why);
    }
    let commands = failed.iter().map(|failed| failed.command(&chunk)).collect();
    results.add(chunk, &tally.json(), commands, seconds)?;
    Ok(tally)
}

fn one_state(args: &State) -> Result<()> {
    let base = Base::for_kind(Config::find(&args.config)?, &args.kind)?;
    let shared = Shared::new(uext4_testkit::image::kernel_mounts());
    let others = Others::new(Arc::clone(&shared.shapes), shared.kernel)?;
    let mut tally = Tally::default();
    let done = match steps_of(&args.kind) {
        Some(steps) => {
            let sequences = Sequences::of(steps);
            println!("{:#?}", sequences.get(args.number));
            let shared = (&shared, &others);
            explore(
                &base,
                &sequences,
                args.number,
                shared,
                args.state,
                &mut tally,
            )
        }
        None if args.kind == "random" => explore_seed(
            &base,
            args.number,
            (&shared, &others),
            args.state,
            &mut tally,
        ),
        None => bail!("no kind is called {}", args.kind),
    };
    println!("{tally:?}");
    done.map_err(|failed| anyhow::anyhow!(failed.why))
        .context("not as it must be")
}
