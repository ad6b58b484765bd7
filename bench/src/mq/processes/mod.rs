//! The same from process to process: through a mount of queues, beside the kernel's.
//!
//! # Data model
//! A target for each mount, and one for the kernel. Each is set up once and takes turns with the others. The
//! processes of a pair are this program, started again ([`client`]).
//!
//! | module | holds |
//! | --- | --- |
//! | `target` | pairs of processes and what is between them |
//! | [`client`] | a process |
//! | `home` | queues that have names, mounted or the kernel's |
//! | `cost`, `usage` | what a message costs, what threads took |

pub mod client;
pub mod cost;
mod home;
mod target;
mod usage;

use super::{Case, MqArgs, MqRow};
use crate::fuse::interrupt::Interrupt;
use crate::peer::Peer;
use crate::report::Row;
use crate::rounds::{Turn, interleave};
use crate::sample::{Cell, Sample};
use crate::variants::{Named, once};
use anyhow::{Context as _, bail, ensure};
use cost::Cost;
use std::fs::File;
use std::io::ErrorKind;
use std::process::{Command, Stdio};
use target::Target;

/// The variant that is ours, in results.
const OURS: &str = "mounted";

/// The runs of a target and case.
#[derive(Default)]
struct Series {
    cell: Cell,
    cost: Cost,
}

/// Runs all cases in all targets: their names, and the rows of each target together.
pub(super) fn run(args: &MqArgs, cases: &[Case]) -> anyhow::Result<(Vec<String>, Vec<MqRow>)> {
    check_machine()?;
    let interrupt = Interrupt::watch()?;
    let mut targets = targets(args)?;
    let series = measure(args, &mut targets, cases, &interrupt)?;
    let mut rows = Vec::new();
    for (target, of_series) in targets.iter().zip(&series) {
        for (&Case { op, pairs }, series) in cases.iter().zip(of_series) {
            rows.push(MqRow {
                row: Row::of(&target.name, op.name(), 2 * pairs, &series.cell),
                queues: pairs,
                cost: Some(series.cost.per_message()),
            });
        }
    }
    let names = targets.iter().map(|target| target.name.clone()).collect();
    targets.into_iter().try_for_each(Target::finish)?;
    Ok((names, rows))
}

/// Whether directories can be mounted.
fn check_machine() -> anyhow::Result<()> {
    match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => {
            bail!("--mounted needs /dev/fuse, which is not here: as root, `modprobe fuse` makes it")
        }
        Err(e) => bail!("--mounted needs /dev/fuse, which only root may open here: {e}"),
    }
    let mut fusermount3 = Command::new("fusermount3");
    fusermount3.arg("-V").stdin(Stdio::null());
    ensure!(
        rustix::process::geteuid().is_root() || fusermount3.output().is_ok(),
        "--mounted needs root or fusermount3: run it as root, or install the package fuse3"
    );
    Ok(())
}

fn targets(args: &MqArgs) -> anyhow::Result<Vec<Target>> {
    let mut targets = Vec::new();
    let threads = once(&args.threads);
    match threads.as_slice() {
        [] => targets.push(Target::mounted(args, OURS, None)?),
        [one] => targets.push(Target::mounted(args, OURS, Some(*one))?),
        several => {
            for &threads in several {
                let name = format!("{OURS}-{threads}");
                targets.push(Target::mounted(args, &name, Some(threads))?);
            }
        }
    }
    if let Some(Peer::Kernel) = args.peer {
        match Target::of_kernel(args, Peer::Kernel.name()) {
            Ok(target) => targets.push(target),
            Err(e) => eprintln!("note: no rows of kernel: {e:#}"),
        }
    }
    Ok(targets)
}

/// For each target, the runs of each case.
fn measure(
    args: &MqArgs,
    targets: &mut [Target],
    cases: &[Case],
    interrupt: &Interrupt,
) -> anyhow::Result<Vec<Vec<Series>>> {
    for target in &mut *targets {
        for &case in cases {
            let done = target.run(case, args.time / 10);
            interrupt.check()?;
            done.with_context(|| target.name.clone())?;
        }
    }
    let empty = || cases.iter().map(|_| Series::default()).collect();
    let mut all: Vec<Vec<Series>> = targets.iter().map(|_| empty()).collect();
    let names: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
    let label = |turn: Turn| {
        let Case { op, pairs } = cases[turn.case];
        format!("{}, {}, {pairs} pairs", names[turn.series], op.name())
    };
    interleave([args.iterations, cases.len(), names.len()], label, |turn| {
        let done = targets[turn.series].run(cases[turn.case], args.time);
        interrupt.check()?;
        let (work, cost) = done.with_context(|| label(turn))?;
        let series = &mut all[turn.series][turn.case];
        let sample = Sample::take(None, false, || Ok(work))?;
        series.cell.push(sample, false);
        series.cost = series.cost.plus(cost);
        Ok(())
    })?;
    Ok(all)
}
