//! The lock table, with the columns of the kernel's lock statistics.

use crate::tables::{count, table};
use comfy_table::Table;
use serde::{Deserialize, Serialize};
use uext4_sync::stat::{LockStat, Mode};

/// A lock class in a row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LockRow {
    /// Class and mode; `-R` is shared.
    pub class: String,
    /// How often it was taken.
    pub acquisitions: u64,
    /// How often for each operation.
    pub per_op: f64,
    /// How often the first try failed.
    pub contended: u64,
    /// Total waiting, in microseconds.
    pub wait_us: u64,
    /// Total holding, in microseconds.
    pub hold_us: u64,
    #[serde(skip)]
    wait_ns: u64,
    #[serde(skip)]
    hold_ns: u64,
}

impl LockRow {
    /// A row for each class and mode that was used, the longest waiting first.
    pub fn all(stats: &[LockStat], ops: u64) -> Vec<LockRow> {
        stats
            .iter()
            .map(|s| {
                let mode = match s.mode {
                    Mode::Shared => "-R",
                    Mode::Exclusive => "",
                };
                LockRow {
                    class: format!("{}{mode}", s.class),
                    acquisitions: s.acquisitions,
                    per_op: s.acquisitions as f64 / ops.max(1) as f64,
                    contended: s.contended,
                    wait_us: s.wait_ns / 1000,
                    hold_us: s.hold_ns / 1000,
                    wait_ns: s.wait_ns,
                    hold_ns: s.hold_ns,
                }
            })
            .collect()
    }

    /// Total waiting, in nanoseconds.
    pub const fn wait_ns(&self) -> u64 {
        self.wait_ns
    }

    /// All of them together.
    fn total(rows: &[LockRow]) -> LockRow {
        let sum = |f: fn(&LockRow) -> u64| rows.iter().map(f).sum();
        LockRow {
            class: "TOTAL".to_owned(),
            acquisitions: sum(|r| r.acquisitions),
            per_op: rows.iter().map(|r| r.per_op).sum(),
            contended: sum(|r| r.contended),
            wait_us: sum(|r| r.wait_us),
            hold_us: sum(|r| r.hold_us),
            wait_ns: sum(|r| r.wait_ns),
            hold_ns: sum(|r| r.hold_ns),
        }
    }

    fn cells(&self) -> [String; 9] {
        let average = |ns: u64, times: u64| (ns / times.max(1)).to_string();
        let share = self.contended as f64 / self.acquisitions.max(1) as f64;
        [
            self.class.clone(),
            count(self.acquisitions as f64),
            format!("{:.2}", self.per_op),
            count(self.contended as f64),
            format!("{:.3}", share * 100.0),
            count(self.wait_us as f64),
            average(self.wait_ns, self.contended),
            count(self.hold_us as f64),
            average(self.hold_ns, self.acquisitions),
        ]
    }
}

/// How often locks of `class` were taken, shared or not.
pub fn acquisitions_of(rows: &[LockRow], class: &str) -> u64 {
    let is_it = |r: &&LockRow| r.class.trim_end_matches("-R") == class;
    let counts = rows.iter().filter(is_it).map(|r| r.acquisitions);
    counts.fold(0, u64::saturating_add)
}

/// The table, the longest waiting first, and under it the sum. Waiting is averaged over the contended
/// acquisitions, holding over all.
pub fn lock_table(rows: &[LockRow]) -> Table {
    let header =
        "class|acquisitions|per op|contended|cont. %|wait us|wait avg ns|hold us|hold avg ns";
    let total = LockRow::total(rows);
    table(header, rows.iter().chain([&total]).map(LockRow::cells))
}
