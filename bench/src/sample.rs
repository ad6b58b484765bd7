//! One run, measured.

use crate::histogram::Histogram;
use crate::locks::LockRow;
use crate::memory;
use crate::report::Row;
use crate::stages::StageRow;
use serde::Serialize;
use uext4_ext4::Ext4;
use uext4_sync::{probe, stat};

/// What a run did, and how long it took.
#[derive(Debug, Default)]
pub struct Work {
    /// Operations.
    pub ops: u64,
    /// Wall-clock time.
    pub seconds: f64,
    /// Of the operations whose latency was measured.
    pub latency: Histogram,
}

/// What reached the device through the journal.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct JournalCost {
    /// Transactions committed.
    pub commits: u64,
    /// Bytes written to the log.
    pub journal_bytes: u64,
    /// Bytes written in place.
    pub checkpoint_bytes: u64,
}

impl JournalCost {
    fn of(fs: &Ext4) -> JournalCost {
        let stats = fs.volume.journal().stats();
        JournalCost {
            commits: stats.commits,
            journal_bytes: stats.journal_bytes,
            checkpoint_bytes: stats.checkpoint_bytes,
        }
    }

    fn since(self, before: JournalCost) -> JournalCost {
        JournalCost {
            commits: self.commits - before.commits,
            journal_bytes: self.journal_bytes - before.journal_bytes,
            checkpoint_bytes: self.checkpoint_bytes - before.checkpoint_bytes,
        }
    }

    /// Both together.
    pub fn plus(self, other: JournalCost) -> JournalCost {
        JournalCost {
            commits: self.commits + other.commits,
            journal_bytes: self.journal_bytes + other.journal_bytes,
            checkpoint_bytes: self.checkpoint_bytes + other.checkpoint_bytes,
        }
    }
}

/// One run, measured.
#[derive(Debug)]
pub struct Sample {
    /// What was done.
    pub work: Work,
    /// What it cost the journal, where there is one.
    pub journal: Option<JournalCost>,
    /// Locks, if they were counted.
    pub locks: Vec<LockRow>,
    /// Stages of creating, if they were counted.
    pub stages: Vec<StageRow>,
    /// Resident when it ended.
    pub resident_bytes: u64,
}

impl Sample {
    /// Runs `work` and measures; `counted` counts locks and stages. A peer has no `fs`.
    pub fn take(
        fs: Option<&Ext4>,
        counted: bool,
        work: impl FnOnce() -> anyhow::Result<Work>,
    ) -> anyhow::Result<Sample> {
        let cost = || fs.map(JournalCost::of);
        let before = cost();
        stat::reset();
        stat::enable(counted);
        let result = work();
        stat::enable(false);
        let work = result?;
        let journal = cost()
            .zip(before)
            .map(|(after, before)| after.since(before));
        let (mut locks, mut stages) = (Vec::new(), Vec::new());
        if counted {
            locks = LockRow::all(&stat::snapshot(), work.ops);
            stages = StageRow::all(&probe::snapshot(), work.ops);
        }
        Ok(Sample {
            work,
            journal,
            locks,
            stages,
            resident_bytes: memory::resident_bytes(),
        })
    }

    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.work.ops as f64 / self.work.seconds.max(1e-9)
    }
}

/// The runs of one variant and one case.
#[derive(Debug, Default)]
pub struct Cell {
    /// Those that give the figures.
    pub plain: Vec<Sample>,
    /// The one that counted locks.
    pub counted: Option<Sample>,
}

impl Cell {
    /// Adds a run.
    pub fn push(&mut self, sample: Sample, counted: bool) {
        match counted {
            true => self.counted = Some(sample),
            false => self.plain.push(sample),
        }
    }
}

/// A cell for each variant and case.
#[derive(Debug)]
pub struct Grid {
    cases: usize,
    cells: Vec<Cell>,
}

impl Grid {
    /// All empty.
    pub fn new(all_series: usize, cases: usize) -> Grid {
        Grid {
            cases,
            cells: (0..all_series * cases).map(|_| Cell::default()).collect(),
        }
    }

    /// Adds a run.
    pub fn push(&mut self, series: usize, case: usize, sample: Sample, counted: bool) {
        self.cells[series * self.cases + case].push(sample, counted);
    }

    /// A row of `op` for each variant and count of threads, the counts of a variant together.
    pub fn rows(&self, variants: &[String], op: &'static str, counts: &[usize]) -> Vec<Row> {
        let mut rows = Vec::new();
        for (series, variant) in variants.iter().enumerate() {
            for (case, &count) in counts.iter().enumerate() {
                rows.push(Row::of(variant, op, count, self.cell(series, case)));
            }
        }
        rows
    }

    /// The runs of a variant and case.
    pub fn cell(&self, series: usize, case: usize) -> &Cell {
        &self.cells[series * self.cases + case]
    }
}
