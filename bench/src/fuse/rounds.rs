//! Turns: in each round, for each workload, every target in turn.

use super::interrupt::Interrupt;
use super::location::Location;
use super::scratch::Scratch;
use super::tar::Tarball;
use super::target::Target;
use super::workload::{Figure, Workload};
use super::{FuseArgs, FuseRow, create, randrw, seq};
use crate::report::Row;
use crate::rounds::{Turn, interleave};
use crate::sample::{Cell, Sample};
use crate::variants::{Named, once};
use anyhow::Context as _;

/// The figures of one target and operation, over the rounds.
struct Series {
    workload: Workload,
    op: &'static str,
    threads: usize,
    target: usize,
    cell: Cell,
}

/// All of the run.
pub struct Rounds<'a> {
    args: &'a FuseArgs,
    targets: &'a [Target],
    workloads: Vec<Workload>,
    interrupt: Interrupt,
    scratch: Scratch,
    tarball: Option<Tarball>,
    series: Vec<Series>,
}

impl<'a> Rounds<'a> {
    /// Makes what all turns share.
    pub fn new(args: &'a FuseArgs, targets: &'a [Target]) -> anyhow::Result<Rounds<'a>> {
        let interrupt = Interrupt::watch()?;
        let scratch = Scratch::make(&args.dir, "fuse")?;
        let workloads = once(&args.workload.0);
        let tarball = match workloads.contains(&Workload::Tar) {
            true => Some(Tarball::make(&scratch, args.tar_files)?),
            false => None,
        };
        Ok(Rounds {
            args,
            targets,
            workloads,
            interrupt,
            scratch,
            tarball,
            series: Vec::new(),
        })
    }

    /// Runs all turns; the rows of an operation together.
    pub fn run(mut self) -> anyhow::Result<Vec<FuseRow>> {
        let (targets, workloads) = (self.targets, self.workloads.clone());
        let label = |turn: Turn| {
            let name = targets[turn.series].name();
            format!("{name}, {}", workloads[turn.case].name())
        };
        let times = [self.args.iterations, workloads.len(), targets.len()];
        interleave(times, label, |turn| {
            let (workload, target) = (workloads[turn.case], &targets[turn.series]);
            if target.does(workload) {
                let figures = self.turn(workload, target, turn.round);
                self.interrupt.check()?;
                self.add(workload, turn.series, figures.with_context(|| label(turn))?)?;
            }
            Ok(())
        })?;
        self.series.sort_by_key(|series| series.workload as usize);
        Ok(self.rows())
    }

    fn turn(
        &self,
        workload: Workload,
        target: &Target,
        round: usize,
    ) -> anyhow::Result<Vec<Figure>> {
        let args = self.args;
        let files = match (workload, &self.tarball) {
            (Workload::Create, _) => args.files * args.clients as u64 + args.clients as u64,
            (Workload::Tar, Some(tarball)) => tarball.entries,
            _ => 1,
        };
        // Directories are spread over groups, which must not fill up.
        let mut location = Location::make(target, &self.scratch, args.image_size, 2 * files)?;
        let figures = match (workload, &self.tarball) {
            (Workload::Create, _) => create::run(location.dir(), args.clients, args.files)?,
            (Workload::Randrw, _) => randrw::run(location.dir(), args, round)?,
            (Workload::Seq, _) => seq::run(location.dir(), args.seq_size)?,
            (Workload::Tar, Some(tarball)) => tarball.run(&mut location)?,
            (Workload::Tar, None) => Vec::new(),
        };
        location.finish()?;
        Ok(figures)
    }

    fn add(
        &mut self,
        workload: Workload,
        target: usize,
        figures: Vec<Figure>,
    ) -> anyhow::Result<()> {
        for Figure { op, threads, work } in figures {
            let sample = Sample::take(None, false, || Ok(work))?;
            let key = (workload, op, threads, target);
            let same = |s: &&mut Series| (s.workload, s.op, s.threads, s.target) == key;
            if let Some(series) = self.series.iter_mut().find(same) {
                series.cell.push(sample, false);
                continue;
            }
            let mut cell = Cell::default();
            cell.push(sample, false);
            self.series.push(Series {
                workload,
                op,
                threads,
                target,
                cell,
            });
        }
        Ok(())
    }

    /// In the order of the workloads, operations, counts of threads and targets.
    fn rows(&self) -> Vec<FuseRow> {
        let mut keys = Vec::new();
        for series in &self.series {
            let key = (series.workload, series.op, series.threads);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let mut rows = Vec::new();
        for key in keys {
            let mut of_key: Vec<&Series> = self
                .series
                .iter()
                .filter(|s| (s.workload, s.op, s.threads) == key)
                .collect();
            of_key.sort_by_key(|series| series.target);
            for series in of_key {
                let name = self.targets[series.target].name();
                rows.push(FuseRow {
                    row: Row::of(&name, series.op, series.threads, &series.cell),
                    workload: series.workload.name(),
                });
            }
        }
        rows
    }
}
