//! Rows and the JSON document, whose keys are a contract (docs/BENCHMARKS.md).

use crate::histogram::{Histogram, LatencyUs};
use crate::host::Host;
use crate::locks::{LockRow, lock_table};
use crate::memory;
use crate::sample::{Cell, JournalCost, Sample};
use crate::spread::Spread;
use crate::stages::{StageRow, stage_table};
use crate::tables::{ComparedRow, ratio, side_by_side};
use serde::Serialize;
use std::io::{self, Write};

/// The name of a directory of the host among the variants, or what it begins with.
pub const PEER: &str = "peer";

/// Which of the series is the peer that others are compared with: the first.
pub fn first_peer(names: &[String]) -> Option<usize> {
    names.iter().position(|name| name.starts_with(PEER))
}

/// One variant, operation and count of threads.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The variant's name.
    #[serde(rename = "arm")]
    pub variant: String,
    /// The operation.
    pub op: &'static str,
    /// Threads, tasks or workers.
    pub threads: usize,
    /// Rounds that gave the figures.
    pub iterations: usize,
    /// Operations of one round: of the one that counted locks, or else of the median one.
    pub ops: u64,
    /// How long that round took.
    pub seconds: f64,
    /// Over the rounds.
    pub ops_per_s: Spread,
    /// Of the rounds' rates.
    pub mean: f64,
    /// Of the rounds' rates.
    pub std_dev: f64,
    /// Of every operation whose latency was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<LatencyUs>,
    /// Of all rounds that gave the figures.
    #[serde(flatten)]
    pub journal: Option<JournalCost>,
    /// Resident when the last round ended.
    pub resident_bytes: u64,
    /// Of the round that counted.
    pub locks: Vec<LockRow>,
    /// Of the round that counted.
    pub stages: Vec<StageRow>,
}

impl Row {
    /// What the runs of a cell gave.
    pub fn of(variant: &str, op: &'static str, threads: usize, cell: &Cell) -> Row {
        let rates: Vec<f64> = cell.plain.iter().map(Sample::rate).collect();
        let n = rates.len().max(1) as f64;
        let mean = rates.iter().sum::<f64>() / n;
        let variance = rates.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / n;
        let mut latency = Histogram::default();
        for sample in &cell.plain {
            latency.add(&sample.work.latency);
        }
        let journal = cell.plain.iter().filter_map(|sample| sample.journal);
        let journal = journal.reduce(JournalCost::plus);
        let counted = cell.counted.as_ref();
        let shown = counted.or_else(|| median_of(&cell.plain));
        let last = counted.or(cell.plain.last());
        Row {
            variant: variant.to_owned(),
            op,
            threads,
            iterations: cell.plain.len(),
            ops: shown.map_or(0, |s| s.work.ops),
            seconds: shown.map_or(0.0, |s| s.work.seconds),
            ops_per_s: Spread::of(&rates),
            mean,
            std_dev: variance.sqrt(),
            latency_us: latency.latency(),
            journal,
            resident_bytes: last.map_or(0, |s| s.resident_bytes),
            locks: counted.map(|s| s.locks.clone()).unwrap_or_default(),
            stages: counted.map(|s| s.stages.clone()).unwrap_or_default(),
        }
    }

    /// Prints its lock and stage tables, if it has any.
    pub fn print_tables(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.locks.is_empty() {
            return Ok(());
        }
        let (variant, op, threads, ops) = (&self.variant, self.op, self.threads, self.ops);
        writeln!(out, "locks: {variant}, {op}, {threads} threads, {ops} ops")?;
        writeln!(out, "{}\n", lock_table(&self.locks))?;
        if !self.stages.is_empty() {
            writeln!(out, "stages: {variant}, {op}, {threads} threads, {ops} ops")?;
            writeln!(out, "{}\n", stage_table(&self.stages))?;
        }
        Ok(())
    }
}

/// The sample whose rate is in the middle.
fn median_of(samples: &[Sample]) -> Option<&Sample> {
    let mut sorted: Vec<&Sample> = samples.iter().collect();
    sorted.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    sorted.get(sorted.len() / 2).copied()
}

/// Prints what all did at each count of threads side by side, and the peer beside the others.
pub fn print_compared(
    what: &str,
    names: &[String],
    rows: &[Row],
    counts: &[usize],
    out: &mut dyn Write,
) -> io::Result<()> {
    let of_count = |&count: &usize| -> ComparedRow {
        let of_count = rows.iter().filter(|row| row.threads == count);
        (
            count.to_string(),
            of_count.map(|row| row.ops_per_s).collect(),
        )
    };
    let compared: Vec<ComparedRow> = counts.iter().map(of_count).collect();
    writeln!(out, "{}\n", side_by_side(what, names, &compared))?;
    print_ratios(names, &compared, &format!(" {what}"), out)
}

/// Prints how many times the first peer's median each other's is, where there is a peer; `what` follows the label.
pub fn print_ratios(
    names: &[String],
    compared: &[ComparedRow],
    what: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(first) = first_peer(names) else {
        return Ok(());
    };
    for (label, spreads) in compared {
        let Some(peer) = spreads.get(first) else {
            continue;
        };
        let all = names.iter().zip(spreads).enumerate();
        for (_, (name, spread)) in all.filter(|(series, _)| *series != first) {
            let (ratio, peer) = (ratio(spread.median, peer.median), &names[first]);
            writeln!(out, "{label}{what}: {name} over {peer}: {ratio}")?;
        }
    }
    writeln!(out)
}

#[derive(Debug, Serialize)]
pub struct Document<R> {
    /// The workload's name.
    pub benchmark: &'static str,
    /// Where it ran.
    pub host: Host,
    /// The most that was resident.
    pub peak_resident_bytes: u64,
    /// The figures.
    pub rows: Vec<R>,
}

impl<R: Serialize> Document<R> {
    /// Of rows just measured.
    pub fn new(benchmark: &'static str, rows: Vec<R>) -> Document<R> {
        Document {
            benchmark,
            host: Host::here(),
            peak_resident_bytes: memory::peak_resident_bytes(),
            rows,
        }
    }

    pub fn print_json(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)?;
        Ok(())
    }
}
