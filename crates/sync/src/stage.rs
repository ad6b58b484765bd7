//! How often the stages of creating a file ran, and how long they took, as the published lock study of
//! inode allocation lists them.
//!
//! Counters are sharded by CPU and for the whole process, as those of [`crate::stat`], with which they
//! are switched on and off. Times are inclusive: a create holds all the others.

use crate::percpu::cpu;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SHARDS: usize = 8;

/// A stage of creating a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// All of it.
    Create,
    /// Starting the journal handle.
    JournalStart,
    /// Getting journal write access to an inode bitmap.
    JournalWriteAccess,
    /// Adding the directory entry.
    AddEntry,
    /// Writing an inode into the inode table.
    MarkInodeDirty,
}

impl Stage {
    /// Every stage, in the order of the published table.
    pub const ALL: [Stage; 5] = [
        Stage::Create,
        Stage::JournalStart,
        Stage::JournalWriteAccess,
        Stage::AddEntry,
        Stage::MarkInodeDirty,
    ];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Create => "create",
            Stage::JournalStart => "journal start",
            Stage::JournalWriteAccess => "journal write access",
            Stage::AddEntry => "add entry",
            Stage::MarkInodeDirty => "mark inode dirty",
        }
    }
}

struct Counters {
    calls: AtomicU64,
    ns: AtomicU64,
}

static COUNTERS: [CachePadded<[Counters; Stage::ALL.len()]>; SHARDS] = [const {
    CachePadded::new(
        [const {
            Counters {
                calls: AtomicU64::new(0),
                ns: AtomicU64::new(0),
            }
        }; Stage::ALL.len()],
    )
}; SHARDS];

/// What a stage took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageStat {
    /// Which one.
    pub stage: Stage,
    /// How often it ran.
    pub calls: u64,
    /// How long, in nanoseconds, all calls together.
    pub total_ns: u64,
}

/// Counts a stage from now until it is dropped, if statistics are on.
#[must_use]
pub struct Timed {
    stage: Stage,
    /// 0 when nothing is counted.
    since_ns: u64,
}

/// Starts counting a call of `stage`. Costs one relaxed load when statistics are off.
#[inline(always)]
pub fn time(stage: Stage) -> Timed {
    Timed {
        stage,
        since_ns: if crate::stat::is_enabled() {
            crate::stat::now_ns()
        } else {
            0
        },
    }
}

impl Drop for Timed {
    #[inline(always)]
    fn drop(&mut self) {
        if self.since_ns != 0 {
            count(self.stage, self.since_ns);
        }
    }
}

#[cold]
fn count(stage: Stage, since_ns: u64) {
    let c = &COUNTERS[cpu() % SHARDS][stage as usize];
    c.calls.fetch_add(1, Relaxed);
    c.ns.fetch_add(crate::stat::now_ns() - since_ns, Relaxed);
}

/// Every stage.
pub fn snapshot() -> Vec<StageStat> {
    Stage::ALL
        .into_iter()
        .map(|stage| {
            let of = |f: fn(&Counters) -> &AtomicU64| {
                COUNTERS
                    .iter()
                    .map(|shard| f(&shard[stage as usize]).load(Relaxed))
                    .sum()
            };
            StageStat {
                stage,
                calls: of(|c| &c.calls),
                total_ns: of(|c| &c.ns),
            }
        })
        .collect()
}

/// Sets every counter to zero.
pub(crate) fn reset() {
    for c in COUNTERS.iter().flat_map(|shard| shard.iter()) {
        c.calls.store(0, Relaxed);
        c.ns.store(0, Relaxed);
    }
}
