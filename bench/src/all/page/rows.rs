//! The rows of a section's document, chosen and turned into series and tables.

use crate::all::result::Report;
use crate::chart::{Kind, Mark, Point, Series, Table, number};
use crate::histogram::LatencyUs;
use crate::locks::LockRow;
use crate::report::Spread;
use crate::tables::count;
use serde::Deserialize;

/// A row of any workload, as far as the page shows it.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    /// The arm, or the peer.
    pub arm: String,
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
    ///
    /// # Errors
    /// The document is none that this version knows.
    pub fn read(report: &Report, section: &str) -> serde_json::Result<Rows> {
        match report.document(section) {
            Some(document) => {
                let rows = document.get("rows").cloned().unwrap_or_default();
                serde_json::from_value(rows).map(Rows)
            }
            None => Ok(Rows::default()),
        }
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that `keep` wants.
    pub fn filter(&self, keep: impl Fn(&Row) -> bool) -> Rows {
        Rows(self.0.iter().filter(|row| keep(row)).cloned().collect())
    }

    /// Those of an operation.
    pub fn op(&self, op: &str) -> Rows {
        self.filter(|row| row.op == op)
    }

    /// Those of an arm.
    pub fn arm(&self, arm: &str) -> Rows {
        self.filter(|row| row.arm == arm)
    }

    /// The arms' names, in their order.
    pub fn arms(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for row in &self.0 {
            if !names.contains(&row.arm) {
                names.push(row.arm.clone());
            }
        }
        names
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

    /// The median rate of an arm at a count.
    pub fn rate(&self, arm: &str, threads: u64) -> Option<f64> {
        let is_it = |row: &&Row| row.arm == arm && row.threads == threads;
        self.0.iter().find(is_it).map(|row| row.ops_per_s.median)
    }

    /// A line for each arm, of `y` over `x`.
    pub fn series(
        &self,
        mark: Mark,
        x: impl Fn(&Row) -> Option<f64>,
        y: impl Fn(&Row) -> Option<Spread>,
    ) -> Vec<Series> {
        let point = |row: &Row| {
            let (x, y) = (x(row)?, y(row)?);
            let spread = y.max > y.min;
            Some(Point {
                x,
                y: y.median,
                low: spread.then_some(y.min),
                high: spread.then_some(y.max),
            })
        };
        let of_arm = |arm: String| Series {
            points: self.arm(&arm).0.iter().filter_map(point).collect(),
            kind: kind_of(&arm),
            name: shown(&arm),
            mark,
        };
        self.arms().into_iter().map(of_arm).collect()
    }

    /// Rates over threads, a line for each arm.
    pub fn rates_by_threads(&self) -> Vec<Series> {
        let x = |row: &Row| Some(row.threads as f64);
        self.series(Mark::Line, x, |row| Some(row.ops_per_s))
    }

    /// Rates: a line for each count of threads, a column for each arm, minimum and maximum in brackets.
    pub fn rate_table(&self, what: &str) -> Table {
        self.table(what, |row| Some(row.threads), spread_text)
    }

    /// A line for each value of `key`, a column for each arm.
    pub fn table(
        &self,
        what: &str,
        key: impl Fn(&Row) -> Option<u64>,
        cell: impl Fn(&Row) -> String,
    ) -> Table {
        let arms = self.arms();
        let mut header = vec![what.to_owned()];
        header.extend(arms.iter().map(|arm| shown(arm)));
        let line = |value: u64| {
            let mut line = vec![count(value as f64)];
            for arm in &arms {
                let is_it = |row: &&Row| row.arm == *arm && key(row) == Some(value);
                line.push(self.0.iter().find(is_it).map_or_else(String::new, &cell));
            }
            line
        };
        Table {
            header,
            rows: self.values(&key).into_iter().map(line).collect(),
        }
    }

    /// Latencies at each percentile, a line for each row, named by `name`.
    pub fn latency_series(&self, name: impl Fn(&Row) -> String) -> Vec<Series> {
        let line = |row: &Row| {
            let values = percentiles(row.latency_us.as_ref()?);
            let point = |(x, y): (usize, f64)| Point {
                x: x as f64,
                y,
                low: None,
                high: None,
            };
            Some(Series {
                name: name(row),
                kind: kind_of(&row.arm),
                mark: Mark::Line,
                points: values.into_iter().enumerate().map(point).collect(),
            })
        };
        self.0.iter().filter_map(line).collect()
    }

    /// The same as figures.
    pub fn latency_table(&self, what: &str, name: impl Fn(&Row) -> String) -> Table {
        let mut header = vec![what.to_owned()];
        header.extend(PERCENTILES.map(|p| format!("{p} (us)")));
        let line = |row: &Row| {
            let values = percentiles(row.latency_us.as_ref()?);
            let mut line = vec![name(row)];
            line.extend(values.map(number::number));
            Some(line)
        };
        Table {
            header,
            rows: self.0.iter().filter_map(line).collect(),
        }
    }
}

/// What the axis of latencies has.
pub const PERCENTILES: [&str; 7] = ["p10", "p50", "p90", "p99", "p99.9", "p99.99", "max"];

fn percentiles(l: &LatencyUs) -> [f64; 7] {
    [l.p10, l.p50, l.p90, l.p99, l.p999, l.p9999, l.max]
}

/// Whether a name is a peer's.
fn kind_of(arm: &str) -> Kind {
    match arm {
        "peer" | "kernel" | "fuse2fs" | "bare" | "null-dev" | "null-uring" => Kind::Peer,
        _ => Kind::Arm,
    }
}

/// A name as the page shows it.
pub fn shown(arm: &str) -> String {
    match arm {
        "peer" | "kernel" => "Linux".to_owned(),
        "bare" => "bare device".to_owned(),
        "default" | "dioread_nolock" => "uext4".to_owned(),
        name => name.to_owned(),
    }
}

/// Median, and in brackets minimum and maximum.
pub fn spread_text(row: &Row) -> String {
    let Spread { min, median, max } = row.ops_per_s;
    number::spread(min, median, max)
}

/// Classes of locks that a table has of each arm.
const CLASSES: usize = 6;

/// What a table of locks is about.
pub fn lock_caption(what: &str) -> String {
    format!("Locks of {what}: of each arm the {CLASSES} classes that waited longest; -R is shared")
}

/// The lock tables of some rows, one below the other.
pub fn lock_table(rows: &Rows) -> Table {
    let header = [
        "arm: class",
        "acquisitions",
        "per op",
        "contended",
        "contended %",
        "wait avg (ns)",
        "hold avg (ns)",
    ];
    let mut lines = Vec::new();
    for row in &rows.0 {
        let mut locks: Vec<&LockRow> = row.locks.iter().collect();
        locks.sort_by_key(|lock| std::cmp::Reverse((lock.wait_us, lock.acquisitions)));
        for lock in locks.into_iter().take(CLASSES) {
            let average = |us: u64, times: u64| count(us as f64 * 1000.0 / times.max(1) as f64);
            let share = lock.contended as f64 / lock.acquisitions.max(1) as f64;
            lines.push(vec![
                format!("{}: {}", row.arm, lock.class),
                count(lock.acquisitions as f64),
                format!("{:.2}", lock.per_op),
                count(lock.contended as f64),
                format!("{:.3}", share * 100.0),
                average(lock.wait_us, lock.contended),
                average(lock.hold_us, lock.acquisitions),
            ]);
        }
    }
    Table {
        header: header.map(str::to_owned).to_vec(),
        rows: lines,
    }
}

/// The stages of a create, of each row.
pub fn stage_table(rows: &Rows) -> Table {
    let mut lines = Vec::new();
    for row in &rows.0 {
        for stage in &row.stages {
            let average_ns = stage.total_us as f64 * 1000.0 / stage.calls.max(1) as f64;
            lines.push(vec![
                format!("{}: {}", row.arm, stage.stage),
                count(stage.calls as f64),
                format!("{:.2}", stage.per_op),
                count(average_ns),
            ]);
        }
    }
    let header = ["arm: stage", "calls", "per op", "average (ns)"];
    Table {
        header: header.map(str::to_owned).to_vec(),
        rows: lines,
    }
}
