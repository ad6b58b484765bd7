//! What is printed.

use super::Run;
use super::execution::Phase;
use crate::report::Document;
use crate::tables::table;
use crate::transfers::TransfersArgs;
use crate::variants::Named as _;
use anyhow::Result;
use serde::Serialize;
use std::io::Write;
use uext4_sync::stat::{LockStat, Mode};
use uext4_sync::transfers::{Moved, Site};

/// A run's phase; all figures are for each operation.
#[derive(Serialize)]
struct Row {
    workload: &'static str,
    #[serde(rename = "variant")]
    variant: String,
    op: &'static str,
    cpus: usize,
    ops: u64,
    transfers: f64,
    acquisitions: f64,
    contended: f64,
    bitmap_accesses: f64,
    places: Vec<PlaceRow>,
    locks: Vec<LockRow>,
}

/// Locks of a class.
#[derive(Serialize)]
struct LockRow {
    class: &'static str,
    mode: &'static str,
    acquisitions: f64,
    contended: f64,
}

/// Where lines move to.
#[derive(Serialize)]
struct PlaceRow {
    place: String,
    transfers: f64,
}

/// What a line is accessed by, in words.
fn words(site: Site) -> String {
    match site {
        Site::Atomic { file, line } => format!("{file}:{line}"),
        Site::Lock(class) => format!("lock {class}"),
    }
}

impl Row {
    fn of(args: &TransfersArgs, run: &Run) -> Row {
        let phase: &Phase = &run.phase;
        let place = |moved: &Moved| PlaceRow {
            place: words(moved.site),
            transfers: phase.per_op(moved.count),
        };
        let lock = |row: &LockStat| LockRow {
            class: row.class,
            mode: match row.mode {
                Mode::Shared => "shared",
                Mode::Exclusive => "exclusive",
            },
            acquisitions: phase.per_op(row.acquisitions),
            contended: phase.per_op(row.contended),
        };
        Row {
            workload: run.workload.name(),
            variant: run.variant.clone(),
            op: phase.op,
            cpus: run.cpus,
            ops: phase.ops,
            transfers: phase.transfers(),
            acquisitions: phase.acquisitions(),
            contended: phase.contended(),
            bitmap_accesses: phase.bitmap_accesses(),
            locks: phase.locks_of_engine().map(lock).collect(),
            places: phase
                .moved_of_engine()
                .take(args.lines)
                .map(place)
                .collect(),
        }
    }

    fn cells(&self) -> Vec<String> {
        let places = self.places.iter();
        let places: Vec<_> = places
            .map(|place| format!("{} {:.2}", place.place, place.transfers))
            .collect();
        vec![
            format!("{} {}", self.workload, self.op)
                .trim_end()
                .to_owned(),
            self.variant.clone(),
            self.cpus.to_string(),
            format!("{:.2}", self.transfers),
            format!("{:.2}", self.acquisitions),
            format!("{:.2}", self.contended),
            format!("{:.2}", self.bitmap_accesses),
            places.join(", "),
        ]
    }
}

/// Prints a row for each phase of each run.
pub fn print(args: &TransfersArgs, runs: &[Run], out: &mut dyn Write) -> Result<()> {
    let rows: Vec<Row> = runs.iter().map(|run| Row::of(args, run)).collect();
    if args.json {
        return Document::new("transfers", rows).print_json(out);
    }
    let header = "for each|variant|CPUs|lines moved|locks|waits and retries|inode bitmap accesses|most of them at";
    let cells = rows.iter().map(Row::cells);
    Ok(writeln!(out, "{}", table(header, cells))?)
}
