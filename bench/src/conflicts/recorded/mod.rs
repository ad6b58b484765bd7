//! Recording the calls, and comparing their lines.
//!
//! | module | holds |
//! | --- | --- |
//! | `cases`, `call` | files: the initial state; the calls, on the engine and on the model |
//! | `queues` | message queues: the same |
//! | `cpu`, `record`, `recorded`, `unsafe_fork` | virtual CPUs; recording a call in a copy of the process |
//! | `every_cpu` | the same calls on all CPUs |
//! | `pairs`, `place` | pairs that commute, lines that they share, and whose code shares them |
//! | `report` | what is printed |

mod call;
mod cases;
mod cpu;
mod every_cpu;
mod pairs;
mod place;
mod queues;
mod record;
mod recorded;
mod report;
mod unsafe_fork;

use super::ConflictsArgs;
use crate::variants::Variant;
use anyhow::{Context as _, Result, ensure};
use cases::MAKER;
use cpu::Cpu;
use pairs::{Kind, Pair, Shared};
use place::Places;
use queues::Queues;
use recorded::{Recorded, Recordings, record_pairs};
use report::{Outcome, Pairs, Report};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::collections::BTreeMap;
use std::io::Write;
use uext4_sync::virtual_cpus;

/// The gate fails if two calls share a line in so many runs.
const GATE_RUNS_MAX: usize = 3;

/// As [`super::run`].
pub fn run(args: &ConflictsArgs, out: &mut dyn Write) -> Result<()> {
    let cpus = usize::from(args.cpus);
    virtual_cpus::set_count(cpus);
    unsafe_fork::set_arenas(cpus);
    stay_on_one_cpu()?;
    if args.every_cpu {
        for variant in args.variants.variants() {
            let found = every_cpu::measure(cpus, args, &variant.options)?;
            report::print_found(out, args, &variant.name, &found)?;
        }
        return Ok(());
    }
    let [a, b] = args.on[..] else {
        anyhow::bail!("--on takes two CPUs, as 1,17");
    };
    ensure!(
        cpus > 2 && a != b && a.max(b) < cpus,
        "--on: two of the CPUs 0 to {}",
        cpus - 1
    );
    let report = report(args, [a, b])?;
    report.print(out)?;
    let mut shared = report.apart();
    for _ in 1..GATE_RUNS_MAX {
        if args.gate && !shared.is_empty() {
            // What lies side by side by chance does not again.
            let again = self::report(args, [a, b])?.apart();
            shared.retain(|pair, _| again.contains_key(pair));
        }
    }
    match shared.first_key_value().filter(|_| args.gate) {
        Some((pair, lines)) => {
            anyhow::bail!("{pair} share a line ({} pairs do): {lines}", shared.len())
        }
        None => Ok(()),
    }
}

/// Binds this thread, and those that it starts, to a CPU of the host. At most one of them and of the copies that they step
/// through works at a time; each step takes three times as long if they wake one another from CPU to CPU.
fn stay_on_one_cpu() -> Result<()> {
    let mut one = CpuSet::new();
    one.set(sched_getcpu());
    sched_setaffinity(None, &one).context("sched_setaffinity")
}

fn report(args: &ConflictsArgs, on: [usize; 2]) -> Result<Report<'_>> {
    let variants = args.variants.variants().into_iter();
    let outcomes = variants.map(|variant| measure(args, on, &variant));
    Ok(Report {
        args,
        outcomes: outcomes.collect::<Result<_>>()?,
    })
}

/// Records the calls in one variant and compares them.
fn measure(args: &ConflictsArgs, on: [usize; 2], variant: &Variant) -> Result<Outcome> {
    let maker = (0..).find(|cpu| !on.contains(cpu)).unwrap_or(0);
    let cpus = [Cpu::start(on[0])?, Cpu::start(on[1])?, Cpu::start(maker)?];
    let world = cases::world(&cpus, &variant.options, args.cold)?;
    let files = record_pairs(&cpus, &world, &args.only, cases::cases)?;
    let queues = Queues::new(args.mqueue_super, &cpus[..2], &cpus[MAKER])?;
    let queues = record_pairs(&cpus, &queues, &args.only, queues::Case::all)?;
    let initial = cases::model();
    let mut compared = Compared {
        places: Places::default(),
        outcome: Outcome::new(variant.name.clone()),
        frequency: BTreeMap::new(),
    };
    compared.compare(&files, |a, b| pairs::kind_of_files(&initial, [a, b]));
    compared.compare(&queues, queues::Case::pair);
    compared.outcome.set_lines(compared.frequency);
    Ok(compared.outcome)
}

/// What was found by comparing recordings.
struct Compared {
    places: Places,
    outcome: Outcome,
    frequency: BTreeMap<Shared, Pairs>,
}

impl Compared {
    /// Compares each call of one CPU with each of the other; `kind` gives that of a pair that commutes.
    fn compare<C: Recorded>(
        &mut self,
        [ours, theirs]: &[Recordings<C>; 2],
        kind: impl Fn(&C, &C) -> Option<Kind>,
    ) {
        for (case, recording) in ours {
            self.outcome.note_call(case.name(), recording);
            for (other, other_recording) in theirs {
                let Some(kind) = kind(case, other) else {
                    self.outcome.others += 1;
                    continue;
                };
                let shared = pairs::shared(&mut self.places, recording, other_recording);
                for line in &shared {
                    let pairs = self.frequency.entry(line.clone()).or_default();
                    pairs.all += 1;
                    pairs.apart += u64::from(kind == Kind::Apart);
                }
                let names = [case.name(), other.name()];
                self.outcome.note_pair(Pair {
                    names,
                    kind,
                    shared,
                });
            }
        }
    }
}
