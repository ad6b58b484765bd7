//! The rows of a section's document.

use super::super::result::Report;
use crate::chart::{Kind, number};
use crate::histogram::LatencyUs;
use crate::locks::LockRow;
use crate::spread::Spread;
use crate::tables::count;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

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
    block_size: Option<u64>,
    /// Namespaces alive.
    pub live: Option<u64>,
    queues: Option<u64>,
    /// Of `fuse`.
    workload: Option<String>,
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
    /// The kernel's function that does the same.
    #[serde(default)]
    pub function: String,
    /// How often.
    pub calls: u64,
    /// How often for each operation.
    pub per_op: f64,
    /// All calls together; stages lie within each other.
    pub total_us: u64,
}

/// The fields of a row that a template may name.
pub const FIELDS: [&str; 11] = [
    "arm",
    "variant",
    "mode",
    "op",
    "threads",
    "block_size",
    "live",
    "queues",
    "workload",
    "ops_per_s",
    "cost_ns",
];

/// The fields that are compared, each with the values that are kept.
pub type Keep = BTreeMap<String, Vec<String>>;

impl Row {
    /// A field as text; empty where the row lacks it.
    pub fn field(&self, name: &str) -> String {
        let number = |value: Option<u64>| value.map_or_else(String::new, |n| n.to_string());
        // A variant of direct I/O is named with the mode of its mount.
        let (variant, mode) = self.variant.split_once('/').unwrap_or((&self.variant, ""));
        match name {
            "arm" => self.variant.clone(),
            "variant" => variant.to_owned(),
            "mode" => mode.to_owned(),
            "op" => self.op.clone(),
            "threads" => self.threads.to_string(),
            "block_size" => number(self.block_size),
            "live" => number(self.live),
            "queues" => number(self.queues),
            "workload" => self.workload.clone().unwrap_or_default(),
            "ops_per_s" => count(self.ops_per_s.median),
            "cost_ns" => self.cost_ns.map_or_else(String::new, count),
            _ => String::new(),
        }
    }

    /// A template with the fields that it names in braces.
    pub fn filled(&self, template: &str) -> String {
        let fill = |text: String, name| text.replace(&format!("{{{name}}}"), &self.field(name));
        FIELDS.into_iter().fold(template.to_owned(), fill)
    }
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
        let Some(document) = report.document(section) else {
            return Ok(Rows::default());
        };
        let rows = document.get("rows").cloned().unwrap_or_default();
        serde_json::from_value(rows).map(Rows)
    }

    /// Those that `keep` wants.
    pub fn filter(mut self, keep: impl Fn(&Row) -> bool) -> Rows {
        self.0.retain(keep);
        self
    }

    /// Those whose fields have the values.
    pub fn keep(self, values: &Keep) -> Rows {
        self.filter(|row| {
            let mut fields = values.iter();
            fields.all(|(field, values)| values.contains(&row.field(field)))
        })
    }

    /// How many variants and peers there are.
    pub fn variants(&self) -> usize {
        let names: BTreeSet<&str> = self.0.iter().map(|row| &*row.variant).collect();
        names.len()
    }

    /// The counts of threads.
    pub fn counts(&self) -> BTreeSet<u64> {
        self.0.iter().map(|row| row.threads).collect()
    }

    /// Those of the most threads.
    pub fn busiest(self) -> Rows {
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
