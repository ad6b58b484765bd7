//! Recording the calls, and comparing their lines.
//!
//! | module | holds |
//! | --- | --- |
//! | `cases`, `call` | the initial state; the calls, on the engine and on the model |
//! | `cpu`, `record`, `unsafe_fork` | virtual CPUs; recording a call in a copy of the process |
//! | `every_cpu` | the same calls on all CPUs |
//! | `pairs`, `place` | pairs that commute, lines that they share, and whose code shares them |
//! | `report` | what is printed |

mod call;
mod cases;
mod cpu;
mod every_cpu;
mod pairs;
mod place;
mod record;
mod report;
mod unsafe_fork;

use super::ConflictsArgs;
use crate::variants::Variant;
use anyhow::{Context as _, Result, ensure};
use cases::Case;
use cpu::Cpu;
use pairs::{Kind, Pair};
use place::Places;
use record::{Recording, record};
use report::{Outcome, Pairs, Report};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use uext4_sync::virtual_cpus;

/// As [`super::run`].
pub fn run(args: &ConflictsArgs, out: &mut dyn Write) -> Result<()> {
    let cpus = usize::from(args.cpus);
    virtual_cpus::set_count(cpus);
    if args.every_cpu {
        for variant in args.variants.variants() {
            let found = every_cpu::measure(cpus, &variant.options)?;
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
    let mut outcomes = Vec::new();
    for variant in args.variants.variants() {
        outcomes.push(measure(args, [a, b], &variant)?);
    }
    let report = Report { args, outcomes };
    report.print(out)?;
    report.pass_gate()
}

/// Records the calls in one variant and compares them.
fn measure(args: &ConflictsArgs, on: [usize; 2], variant: &Variant) -> Result<Outcome> {
    let maker = (0..).find(|cpu| !on.contains(cpu)).unwrap_or(0);
    let cpus = [Cpu::start(on[0])?, Cpu::start(on[1])?, Cpu::start(maker)?];
    let world = cases::world(&cpus, &variant.options, args.cold)?;
    let mut recordings: [Vec<(Case, Recording)>; 2] = Default::default();
    for (which, cpu) in cpus.iter().enumerate().take(on.len()) {
        for case in cases::cases(which) {
            if !case.name().contains(&args.only) {
                continue;
            }
            let (call, world) = (case.call.clone(), Arc::clone(&world));
            let recording = cpu.run(move || {
                let mut buffer = call.buffer();
                // Recordings share what they hold within one thread only.
                let recorded = record(|| call.run(&world, &mut buffer))?;
                Ok(recorded)
            });
            let recording = recording.with_context(|| case.name())?;
            recordings[which].push((case, recording));
        }
    }
    let initial = cases::model();
    let mut places = Places::default();
    let mut outcome = Outcome::new(variant.name.clone());
    let mut frequency: BTreeMap<_, Pairs> = BTreeMap::new();
    let [ours, theirs] = &recordings;
    for (case, recording) in ours {
        outcome.note_call(case, recording);
        for (other, other_recording) in theirs {
            if !pairs::commute(&initial, [case, other]) {
                outcome.others += 1;
                continue;
            }
            let shared = pairs::shared(&mut places, recording, other_recording);
            let pair = Pair {
                cases: [case, other],
                shared,
            };
            for shared in &pair.shared {
                let pairs = frequency.entry(shared.clone()).or_default();
                pairs.all += 1;
                pairs.apart += u64::from(pair.kind() == Kind::Apart);
            }
            outcome.note_pair(&pair);
        }
    }
    outcome.set_lines(frequency);
    Ok(outcome)
}
