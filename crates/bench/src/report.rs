//! Rows, JSON and tables.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use uext4_sync::stat::{self, LockStat};

/// Minimum, median and maximum.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// The one in the middle.
    pub median: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |i: usize| sorted.get(i).copied().unwrap_or(0.0);
        Spread {
            min: at(0),
            median: at(sorted.len() / 2),
            max: at(sorted.len().saturating_sub(1)),
        }
    }
}

/// A lock class in a row.
#[derive(Clone, Debug, Serialize)]
pub struct LockRow {
    /// Class and mode.
    pub class: String,
    /// How often it was taken.
    pub acquisitions: u64,
    /// How often the first try failed.
    pub contended: u64,
    /// Total waiting, in microseconds.
    pub wait_us: u64,
    /// Total holding, in microseconds.
    pub hold_us: u64,
}

impl From<&LockStat> for LockRow {
    fn from(s: &LockStat) -> LockRow {
        let mode = match s.mode {
            stat::Mode::Shared => "-R",
            stat::Mode::Exclusive => "",
        };
        LockRow {
            class: format!("{}{mode}", s.class),
            acquisitions: s.acquisitions,
            contended: s.contended,
            wait_us: s.wait_ns / 1000,
            hold_us: s.hold_ns / 1000,
        }
    }
}

/// The lock table, the longest waiting first; `ops` gives acquisitions per operation.
pub fn lock_table(locks: &[LockRow], ops: u64) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "class",
        "acquisitions",
        "per op",
        "contended",
        "wait us",
        "hold us",
    ]);
    for lock in locks {
        table.add_row([
            lock.class.clone(),
            lock.acquisitions.to_string(),
            format!("{:.2}", lock.acquisitions as f64 / ops.max(1) as f64),
            lock.contended.to_string(),
            lock.wait_us.to_string(),
            lock.hold_us.to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The machine a figure is from.
#[derive(Clone, Debug, Serialize)]
pub struct Host {
    /// CPUs that may be used.
    pub cpus: usize,
    /// The model of the CPU.
    pub cpu: String,
    /// The kernel.
    pub kernel: String,
}

impl Host {
    /// This machine.
    pub fn here() -> Host {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo")
            .lines()
            .find_map(|l| {
                l.strip_prefix("model name")
                    .map(|m| m.trim_matches([' ', '\t', ':']).to_owned())
            })
            .unwrap_or_default();
        Host {
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            cpu,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}
