//! One run, measured.

use crate::histogram::Histogram;
use crate::locks::LockRow;
use crate::memory;
use crate::stages::StageRow;
use crate::workers::Done;
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

impl From<Done<(u64, Histogram)>> for Work {
    /// What workers did together, each its operations and the latencies of some.
    fn from(done: Done<(u64, Histogram)>) -> Work {
        let seconds = done.seconds;
        let none = Work {
            seconds,
            ..Work::default()
        };
        done.results
            .into_iter()
            .fold(none, |mut all, (ops, latency)| {
                all.ops += ops;
                all.latency.add(&latency);
                all
            })
    }
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

    fn with(self, other: JournalCost, sum: fn(u64, u64) -> u64) -> JournalCost {
        JournalCost {
            commits: sum(self.commits, other.commits),
            journal_bytes: sum(self.journal_bytes, other.journal_bytes),
            checkpoint_bytes: sum(self.checkpoint_bytes, other.checkpoint_bytes),
        }
    }

    /// Both together.
    pub fn plus(self, other: JournalCost) -> JournalCost {
        self.with(other, u64::saturating_add)
    }
}

/// One run, measured.
#[derive(Debug)]
pub struct Sample {
    /// What was done.
    pub work: Work,
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
            .map(|(after, before)| after.with(before, u64::saturating_sub));
        let (mut locks, mut stages) = (Vec::new(), Vec::new());
        if counted {
            locks = LockRow::all(&stat::snapshot(), work.ops);
            stages = StageRow::all(&probe::snapshot(), &locks, work.ops);
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
