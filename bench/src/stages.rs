//! The stages of creating a file, as the published lock study lists them.

use crate::tables::{count, table};
use comfy_table::Table;
use serde::Serialize;
use uext4_sync::probe::{Stage, StageStat};

#[derive(Clone, Debug, Serialize)]
pub struct StageRow {
    /// Its name.
    pub stage: &'static str,
    /// How often it ran.
    pub calls: u64,
    /// How often for each operation.
    pub per_op: f64,
    /// All calls together, in microseconds; stages lie within each other.
    pub total_us: u64,
    #[serde(skip)]
    total_ns: u64,
}

impl StageRow {
    /// A row for each stage that ran.
    pub fn all(stats: &[StageStat], ops: u64) -> Vec<StageRow> {
        stats
            .iter()
            .filter(|s| s.calls > 0)
            .map(|s| StageRow {
                stage: s.stage.name(),
                calls: s.calls,
                per_op: s.calls as f64 / ops.max(1) as f64,
                total_us: s.total_ns / 1000,
                total_ns: s.total_ns,
            })
            .collect()
    }
}

/// How often a stage ran for each operation.
pub fn per_op(rows: &[StageRow], stage: Stage) -> f64 {
    let row = rows.iter().find(|r| r.stage == stage.name());
    row.map_or(0.0, |r| r.per_op)
}

pub fn stage_table(rows: &[StageRow]) -> Table {
    let cells = |row: &StageRow| {
        [
            row.stage.to_owned(),
            count(row.calls as f64),
            format!("{:.2}", row.per_op),
            format!("{:.1}", row.total_ns as f64 / 1e6),
            (row.total_ns / row.calls.max(1)).to_string(),
        ]
    };
    table("stage|calls|per op|total ms|avg ns", rows.iter().map(cells))
}
