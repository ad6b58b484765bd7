//! clone: workers create IPC namespaces, each with its superblock of message queues, and drop the oldest.
//!
//! A number of namespaces is alive beforehand and shared out to the workers; each creates one and drops
//! its oldest, in a loop. What a namespace costs should not depend on how many there are.
//!
//! | module | holds |
//! | --- | --- |
//! | `population` | the namespaces that are alive, of one variant |
//! | `turnover` | the timed loops, ours and the kernel's |
//! | `peer`, `unsafe_clone` | the kernel's calls |
//! | `row` | what was measured |
//! | `print` | the tables |

mod peer;
mod population;
mod print;
mod row;
mod turnover;
mod unsafe_clone;

use crate::progress::Progress;
use crate::report::Document;
use crate::rounds::turned;
use crate::sample::Sample;
use crate::tables::count;
use crate::variants::{
    VariantList, apart, once, parse_list, parse_rounds, parse_run_time, parse_threads,
};
use anyhow::anyhow;
use clap::Args;
use peer::Peer;
use population::Population;
use row::{CloneRow, Runs};
use std::io::Write;
use std::thread;
use std::time::Duration;
use turnover::TurnOver;
use uext4_vfs::SuperVariant;

/// As many take about 6 GB.
const LIVE_MAX: u64 = 10_000_000;

/// The counts of workers and of live namespaces, and the variants.
#[derive(Clone, Debug, Args)]
pub struct CloneArgs {
    /// Workers; a comma list runs each count
    #[arg(
        long,
        visible_alias = "threads",
        value_name = "LIST",
        default_value = "32",
        value_delimiter = ',',
        value_parser = parse_threads
    )]
    pub workers: Vec<usize>,
    /// Namespaces that are alive, beside one for each worker; a comma list runs each count
    #[arg(long, value_name = "LIST", default_value = "10,100,1000,10000,100000",
          value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=LIVE_MAX))]
    pub live: Vec<u64>,
    /// How the registry finds and makes superblocks: keyed, nodev, beyond, or all
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = |text: &str| parse_list(text, &SuperVariant::ALL))]
    pub mqueue_super: VariantList<SuperVariant>,
    /// Seconds for each variant, count and round
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_run_time)]
    pub time: Duration,
    /// Rounds
    #[arg(short = 'i', long, default_value_t = 3, value_parser = parse_rounds)]
    pub iterations: usize,
    /// Takes turns with the variants at the fewest live namespaces; needs root
    #[arg(long, value_name = "PEER")]
    pub peer: Option<Peer>,
    /// One more round counts locks; counting costs some speed, so it is in no other figure
    #[arg(long)]
    pub lock_stat: bool,
    /// Prints one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Runs clone for each count of live namespaces and of workers, and prints.
pub fn run(args: &CloneArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let names = apart(
        args.mqueue_super
            .0
            .iter()
            .map(|variant| variant.name().to_owned()),
    );
    let peer = args.peer.filter(|peer| is_allowed(*peer));
    let fewest = args.live.iter().min();
    let mut cases = Vec::new();
    for live in &once(&args.live) {
        for &workers in &once(&args.workers) {
            let peer = peer.filter(|_| fewest == Some(live));
            cases.push(Case::new(args, &names, *live, workers, peer));
        }
    }
    let rounds = args.iterations + usize::from(args.lock_stat);
    let steps: usize = cases.iter().map(|case| case.runs.len()).sum();
    let mut progress = Progress::new((rounds * steps) as u64);
    for round in 0..rounds {
        for case in &mut cases {
            case.round(round, rounds, &mut progress)?;
        }
    }
    let mut rows = Vec::new();
    for case in cases {
        rows.extend(case.finish()?);
    }
    if args.json {
        return Document::new("clone", rows).print_json(out);
    }
    Ok(print::print(args, &names, &rows, out)?)
}

/// Whether the peer can run here; says why not.
fn is_allowed(peer: Peer) -> bool {
    // A thread of its own, which takes its namespace with it.
    match thread::spawn(move || peer.turn_over()).join() {
        Ok(Ok(())) => true,
        Ok(Err(e)) => {
            eprintln!("note: no row of {}: {}: {e}", peer.name(), peer.call());
            false
        }
        Err(_) => false,
    }
}

/// So many namespaces are made anew for each round, so that not all of its rounds have the same ones at the same
/// places in memory; more are kept, as `keyed` takes long to make them.
const ANEW_MAX: u64 = 10_000;

/// One count of live namespaces and of workers: the variants, and maybe the peer.
struct Case<'a> {
    args: &'a CloneArgs,
    names: &'a [String],
    live: u64,
    workers: usize,
    peer: Option<Peer>,
    /// For each series what was measured.
    runs: Vec<Runs>,
    /// Those of the last round, if they are kept.
    kept: Vec<Population>,
}

impl<'a> Case<'a> {
    fn new(
        args: &'a CloneArgs,
        names: &'a [String],
        live: u64,
        workers: usize,
        peer: Option<Peer>,
    ) -> Case<'a> {
        let mut runs = Vec::new();
        runs.resize_with(names.len() + usize::from(peer.is_some()), Runs::default);
        Case {
            args,
            names,
            live,
            workers,
            peer,
            runs,
            kept: Vec::new(),
        }
    }

    /// The variants' namespaces, warmed up.
    fn populations(&mut self) -> anyhow::Result<Vec<Population>> {
        if !self.kept.is_empty() {
            return Ok(std::mem::take(&mut self.kept));
        }
        let mut populations = Vec::new();
        for (variant, name) in self.args.mqueue_super.0.iter().zip(self.names) {
            let label = format!("{} live, {name}: namespaces made", count(self.live as f64));
            let mut population = Population::make(*variant, self.live, self.workers, &label)?;
            population.turn_over(self.args.time / 4)?;
            populations.push(population);
        }
        Ok(populations)
    }

    /// Every series once, in turn.
    fn round(&mut self, round: usize, of: usize, progress: &mut Progress) -> anyhow::Result<()> {
        let mut populations = self.populations()?;
        let counted = round >= self.args.iterations;
        let (live, workers, time) = (count(self.live as f64), self.workers, self.args.time);
        for series in turned(self.runs.len(), round) {
            let nth = round + 1;
            progress.begin(format!("round {nth}/{of}, {live} live, {workers} workers"));
            let runs = &mut self.runs[series];
            match (populations.get_mut(series), self.peer) {
                (Some(population), _) => take(runs, counted, || population.turn_over(time))?,
                (None, Some(peer)) if !counted => {
                    take(runs, false, || turnover::kernel(peer, workers, time))?;
                }
                // The round that counts locks has nothing to count in the kernel.
                (None, _) => {}
            }
            progress.done();
        }
        match self.live > ANEW_MAX {
            true => self.kept = populations,
            false => self.end(populations)?,
        }
        Ok(())
    }

    /// Drops all namespaces; none may be left.
    fn end(&self, populations: Vec<Population>) -> anyhow::Result<()> {
        for (population, name) in populations.into_iter().zip(self.names) {
            match population.end() {
                0 => {}
                left => return Err(anyhow!("{name}: {left} namespaces are left")),
            }
        }
        Ok(())
    }

    /// A row for each series.
    fn finish(mut self) -> anyhow::Result<Vec<CloneRow>> {
        let kept = std::mem::take(&mut self.kept);
        self.end(kept)?;
        let row = |(series, runs): (usize, &Runs)| {
            let (name, live) = match self.names.get(series) {
                Some(name) => (name.as_str(), Some(self.live)),
                None => (self.peer.map_or("", Peer::name), None),
            };
            CloneRow::of(name, live, self.workers, runs)
        };
        Ok(self.runs.iter().enumerate().map(row).collect())
    }
}

/// Runs once and measures.
fn take(
    runs: &mut Runs,
    counted: bool,
    run: impl FnOnce() -> anyhow::Result<TurnOver>,
) -> anyhow::Result<()> {
    let mut parts = None;
    let sample = Sample::take(None, counted, || {
        let TurnOver { work, create, drop } = run()?;
        parts = Some((create, drop));
        Ok(work)
    })?;
    runs.push(sample, parts.unwrap_or_default(), counted);
    Ok(())
}
