//! The stages of creating a file, as the published lock study lists them.
//!
//! The published table has eight functions of the kernel. Its row of all spin locks is that of the group's lock here, whose
//! time is that of waiting; the lock table has the other classes.

use crate::locks::LockRow;
use crate::tables::{count, table};
use comfy_table::Table;
use serde::Serialize;
use uext4_sync::class;
use uext4_sync::probe::{Stage, StageStat};

/// The lock of a group, among the stages.
const GROUP_LOCK: &str = "group lock";

#[derive(Clone, Debug, Serialize)]
pub struct StageRow {
    /// Its name.
    pub stage: &'static str,
    /// The kernel's function in the published table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<&'static str>,
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
    /// A row for each stage that ran, and if one did, for the group's lock.
    pub fn all(stats: &[StageStat], locks: &[LockRow], ops: u64) -> Vec<StageRow> {
        let row = |stage, function, calls: u64, total_ns: u64| StageRow {
            stage,
            function,
            calls,
            per_op: calls as f64 / ops.max(1) as f64,
            total_us: total_ns / 1000,
            total_ns,
        };
        let ran = stats.iter().filter(|s| s.calls > 0);
        let mut rows: Vec<StageRow> = ran
            .map(|s| row(s.stage.name(), s.stage.published(), s.calls, s.total_ns))
            .collect();
        if rows.iter().any(|row| row.stage == Stage::Create.name())
            && let Some(lock) = locks.iter().find(|lock| lock.class == class::GROUP.name)
        {
            let function = Some("_raw_spin_lock");
            let lock = row(GROUP_LOCK, function, lock.acquisitions, lock.wait_ns());
            rows.insert(1, lock);
        }
        rows
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
            row.function.unwrap_or_default().to_owned(),
            count(row.calls as f64),
            format!("{:.2}", row.per_op),
            format!("{:.1}", row.total_ns as f64 / 1e6),
            (row.total_ns / row.calls.max(1)).to_string(),
        ]
    };
    table(
        "stage|in Linux|calls|per op|total ms|avg ns",
        rows.iter().map(cells),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions of the published table, in its order.
    const PUBLISHED: [&str; 8] = [
        "ext4_create",
        "_raw_spin_lock",
        "jbd2__journal_start",
        "jbd2_journal_get_write_access",
        "ext4_add_nondir",
        "ext4_add_entry",
        "ext4_dx_add_entry",
        "ext4_mark_inode_dirty",
    ];

    #[test]
    fn every_function_of_the_published_table_has_a_row() {
        let stats = Stage::ALL.map(|stage| StageStat {
            stage,
            calls: 10,
            total_ns: 1000,
        });
        let lock: LockRow = serde_json::from_str(
            r#"{"class":"group","acquisitions":20,"per_op":4,"contended":1,"wait_us":2,"hold_us":3}"#,
        )
        .unwrap();
        let rows = StageRow::all(&stats, &[lock], 5);
        let functions: Vec<&str> = rows.iter().filter_map(|row| row.function).collect();
        assert_eq!(functions, PUBLISHED);
        assert_eq!(per_op(&rows, Stage::WriteAccess), 2.0);
        assert_eq!(rows[1].per_op, 4.0);
    }
}
