//! Probes: the points of the create path that a measurement observes, and the one place where it can slow the engine
//! down. Nothing else in the engine exists for measuring or testing.
//!
//! When statistics are on ([`crate::stat`]), a probe counts how often its stage ran and for how long, as the published
//! lock study of inode allocation lists them. Times are inclusive: a create contains all the others. Counters are per
//! CPU shard, and for the whole process.
//!
//! [`set_delay`] makes starting a journal handle and getting write access to an inode bitmap sleep, as they do while a
//! transaction closes.

use crate::counters::{is_enabled, now_ns};
use crate::percpu::cpu;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

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

/// How long [`Stage::JournalStart`] and [`Stage::JournalWriteAccess`] sleep, in nanoseconds.
static DELAY_NS: AtomicU64 = AtomicU64::new(0);

/// Makes the stages that wait for a closing transaction sleep for `delay`, in the whole process; zero for not at all.
pub fn set_delay(delay: Duration) {
    let ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
    DELAY_NS.store(ns, Relaxed);
}

/// As [`time`], for a stage that [`set_delay`] slows down.
#[inline(always)]
pub fn time_delayed(stage: Stage) -> Timed {
    let timed = time(stage);
    if DELAY_NS.load(Relaxed) != 0 {
        sleep();
    }
    timed
}

#[cold]
fn sleep() {
    std::thread::sleep(Duration::from_nanos(DELAY_NS.load(Relaxed)));
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
        since_ns: if is_enabled() { now_ns() } else { 0 },
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
    c.ns.fetch_add(now_ns() - since_ns, Relaxed);
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
