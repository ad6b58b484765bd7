//! The rows of a section's document.

use crate::all::result::Report;
use crate::chart::{Kind, number};
use crate::histogram::LatencyUs;
use crate::locks::LockRow;
use crate::report::Spread;
use serde::Deserialize;
use std::collections::BTreeSet;

/// A row of any workload, as far as the page shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    /// The variant, or the peer.
    #[serde(rename = "arm")]
    pub variant: String,
    /// The operation.
    pub op: String,
    /// Threads, tasks or workers.
    pub threads: u64,
    /// Of the counted round.
    #[serde(default)]
    pub ops: u64,
    /// Over the rounds.
    pub ops_per_s: Spread,
    /// Where it was measured.
    pub latency_us: Option<LatencyUs>,
    /// Of the counted round.
    #[serde(default)]
    pub locks: Vec<LockRow>,
    /// Stages of creating, of the counted round.
    #[serde(default)]
    pub stages: Vec<Stage>,
    /// Bytes of a request.
    pub block_size: Option<u64>,
    /// Namespaces alive.
    pub live: Option<u64>,
    /// Queues.
    pub queues: Option<u64>,
    /// Of `fuse`.
    pub workload: Option<String>,
    /// What creating and dropping a namespace costs.
    pub cost_ns: Option<f64>,
    /// Over exclusive-first.
    pub gain_percent: Option<f64>,
}

/// How often a stage of creating ran, and how long.
#[derive(Clone, Debug, Deserialize)]
pub struct Stage {
    /// Its name.
    pub stage: String,
    /// How often.
    pub calls: u64,
    /// How often for each operation.
    pub per_op: f64,
    /// All calls together; stages lie within each other.
    pub total_us: u64,
}

/// Some rows, in their order.
#[derive(Clone, Debug, Default)]
pub struct Rows(pub Vec<Row>);

impl Rows {
    /// Those of a section; none if it has no document.
    pub fn of(report: &Report, section: &str) -> Rows {
        Rows::read(report, section).unwrap_or_default()
    }

    /// The same.
    pub fn read(report: &Report, section: &str) -> serde_json::Result<Rows> {
        match report.document(section) {
            Some(document) => {
                let rows = document.get("rows").cloned().unwrap_or_default();
                serde_json::from_value(rows).map(Rows)
            }
            None => Ok(Rows::default()),
        }
    }

    /// Those that `keep` wants.
    pub fn filter(&self, keep: impl Fn(&Row) -> bool) -> Rows {
        Rows(self.0.iter().filter(|row| keep(row)).cloned().collect())
    }

    /// Those of an operation.
    pub fn op(&self, op: &str) -> Rows {
        self.filter(|row| row.op == op)
    }

    /// How many variants and peers there are.
    pub fn variants(&self) -> usize {
        let names: BTreeSet<&str> = self.0.iter().map(|row| &*row.variant).collect();
        names.len()
    }

    /// The values of `key`, ascending, each once.
    pub fn values(&self, key: impl Fn(&Row) -> Option<u64>) -> Vec<u64> {
        let mut values: Vec<u64> = self.0.iter().filter_map(key).collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    /// The counts of threads, ascending.
    pub fn counts(&self) -> Vec<u64> {
        self.values(|row| Some(row.threads))
    }

    /// Those of the most threads.
    pub fn busiest(&self) -> Rows {
        let most = self.counts().last().copied();
        self.filter(|row| Some(row.threads) == most)
    }

    /// The median rate of a variant at a count of threads.
    pub fn rate(&self, variant: &str, threads: u64) -> Option<f64> {
        let mut rows = self.0.iter();
        let row = rows.find(|row| row.variant == variant && row.threads == threads)?;
        Some(row.ops_per_s.median)
    }
}

/// Whether a name is a peer's.
pub fn kind_of(variant: &str) -> Kind {
    match variant {
        "peer" | "kernel" | "fuse2fs" | "bare" | "null-dev" | "null-uring" => Kind::Peer,
        _ => Kind::Variant,
    }
}

/// A name as the page shows it.
pub fn shown(variant: &str) -> String {
    match variant {
        "peer" | "kernel" => "Linux".to_owned(),
        "bare" => "bare device".to_owned(),
        "default" | "dioread_nolock" => "uext4".to_owned(),
        name => name.to_owned(),
    }
}

/// A median, with minimum and maximum in brackets.
pub fn spread_text(spread: &Spread) -> String {
    number::spread(spread.min, spread.median, spread.max)
}
