//! What was measured of a variant, a count of live namespaces and a count of workers.

use crate::histogram::{Histogram, LatencyUs};
use crate::host;
use crate::report::Row;
use crate::sample::{Cell, Sample};
use serde::Serialize;

/// The runs of one row.
#[derive(Debug, Default)]
pub struct Runs {
    cell: Cell,
    create: Histogram,
    drop: Histogram,
}

impl Runs {
    /// Adds a run, with the latencies of creating and of dropping.
    pub fn push(&mut self, sample: Sample, (create, drop): (Histogram, Histogram), counted: bool) {
        if !counted {
            self.create.add(&create);
            self.drop.add(&drop);
        }
        self.cell.push(sample, counted);
    }
}

/// One variant, count of live namespaces and count of workers.
#[derive(Debug, Serialize)]
pub struct CloneRow {
    /// Creating and dropping.
    #[serde(flatten)]
    pub row: Row,
    /// Namespaces alive beside the workers'; nothing for the peer, which has none but those.
    pub live: Option<u64>,
    /// What creating one and dropping one costs: the time of the CPUs that the workers may use, over what
    /// they did in it.
    pub cost_ns: f64,
    /// Of creating alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_us: Option<LatencyUs>,
    /// Of dropping alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop_us: Option<LatencyUs>,
}

impl CloneRow {
    /// What the runs gave.
    pub fn of(variant: &str, live: Option<u64>, workers: usize, runs: &Runs) -> CloneRow {
        let row = Row::of(variant, "create+drop", workers, &runs.cell);
        let cpus = host::cpus().min(workers) as f64;
        CloneRow {
            cost_ns: cpus * 1e9 / row.ops_per_s.median.max(1e-9),
            row,
            live,
            create_us: runs.create.latency(),
            drop_us: runs.drop.latency(),
        }
    }
}
