//! Probes: the points of the create path that a measurement observes, and the one place where it can slow the engine
//! down. Nothing else in the engine of a release exists for measuring or testing.
//!
//! When statistics are on ([`crate::stat`]), a probe counts how often its stage ran and for how long, as the published
//! lock study of inode allocation lists them. Times are inclusive: a create contains all the others. Counters are per
//! CPU shard, and for the whole process.
//!
//! [`set_delay`] makes starting a journal handle sleep, as it does while a transaction closes, and on request also getting
//! write access to an inode bitmap.

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
    BitmapWriteAccess,
    /// Getting journal write access to any block, that of an inode bitmap included.
    WriteAccess,
    /// What a new file needs after its inode: the directory entry, and the change of the directory.
    AddNonDirectory,
    /// Adding the directory entry.
    AddEntry,
    /// The same, in a directory with a tree of hashes.
    AddHashedEntry,
    /// Writing an inode into the inode table.
    MarkInodeDirty,
}

impl Stage {
    /// Every stage, in the order of the published table.
    pub const ALL: [Stage; 8] = [
        Stage::Create,
        Stage::JournalStart,
        Stage::BitmapWriteAccess,
        Stage::WriteAccess,
        Stage::AddNonDirectory,
        Stage::AddEntry,
        Stage::AddHashedEntry,
        Stage::MarkInodeDirty,
    ];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Create => "create",
            Stage::JournalStart => "journal start",
            Stage::BitmapWriteAccess => "journal write access",
            Stage::WriteAccess => "journal write access, any block",
            Stage::AddNonDirectory => "add file",
            Stage::AddEntry => "add entry",
            Stage::AddHashedEntry => "add hashed entry",
            Stage::MarkInodeDirty => "mark inode dirty",
        }
    }

    /// The function of the kernel in the published table that does the same; none for a stage that the table has no row of.
    pub const fn published(self) -> Option<&'static str> {
        match self {
            Stage::Create => Some("ext4_create"),
            Stage::JournalStart => Some("jbd2__journal_start"),
            Stage::BitmapWriteAccess => None,
            Stage::WriteAccess => Some("jbd2_journal_get_write_access"),
            Stage::AddNonDirectory => Some("ext4_add_nondir"),
            Stage::AddEntry => Some("ext4_add_entry"),
            Stage::AddHashedEntry => Some("ext4_dx_add_entry"),
            Stage::MarkInodeDirty => Some("ext4_mark_inode_dirty"),
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

/// Where the journal sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delay {
    /// Nowhere.
    #[default]
    None,
    /// In [`Stage::JournalStart`], for so long.
    Start(Duration),
    /// In [`Stage::JournalStart`] and in each [`Stage::BitmapWriteAccess`], also to a bitmap that the transaction has already.
    Access(Duration),
}

/// How long [`Stage::JournalStart`] and [`Stage::BitmapWriteAccess`] sleep, in nanoseconds.
static START_NS: AtomicU64 = AtomicU64::new(0);
static ACCESS_NS: AtomicU64 = AtomicU64::new(0);

/// Makes the journal sleep where `delay` says, in the whole process.
pub fn set_delay(delay: Delay) {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (start, access) = match delay {
        Delay::None => (0, 0),
        Delay::Start(time) => (ns(time), 0),
        Delay::Access(time) => (ns(time), ns(time)),
    };
    START_NS.store(start, Relaxed);
    ACCESS_NS.store(access, Relaxed);
}

/// As [`time`] of [`Stage::JournalStart`], which [`set_delay`] slows down.
#[inline(always)]
pub fn time_start() -> Timed {
    time_delayed(Stage::JournalStart, &START_NS)
}

/// As [`time`] of [`Stage::BitmapWriteAccess`], which [`set_delay`] slows down.
#[inline(always)]
pub fn time_bitmap_access() -> Timed {
    time_delayed(Stage::BitmapWriteAccess, &ACCESS_NS)
}

#[inline(always)]
fn time_delayed(stage: Stage, delay_ns: &AtomicU64) -> Timed {
    let timed = time(stage);
    let ns = delay_ns.load(Relaxed);
    if ns != 0 {
        sleep(ns);
    }
    timed
}

#[cold]
fn sleep(ns: u64) {
    std::thread::sleep(Duration::from_nanos(ns));
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
