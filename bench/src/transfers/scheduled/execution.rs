//! One run under the scheduler.

use super::workload::{self, Place};
use super::{Choice, TransfersArgs, Workload};
use anyhow::{Context as _, Result, anyhow};
use shuttle::scheduler::RandomScheduler;
use shuttle::sync::Barrier;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::sync::{Arc, Mutex, PoisonError};
use uext4_sync::probe::{self, Stage, StageStat};
use uext4_sync::stat::{self, LockStat};
use uext4_sync::transfers::{self, Moved};
use uext4_sync::{thread, virtual_cpus};

/// Stacks do not grow.
const STACK_BYTES: usize = 1 << 20;

/// What the operations of one phase came to, over all workers.
pub struct Phase {
    /// What they were.
    pub op: &'static str,
    /// How many.
    pub ops: u64,
    pub moved: Vec<Moved>,
    pub locks: Vec<LockStat>,
    pub stages: Vec<StageStat>,
}

impl Phase {
    /// That count for each operation.
    pub fn per_op(&self, count: u64) -> f64 {
        count as f64 / self.ops as f64
    }

    /// Lines that moved, but for those of the device, which is memory here.
    pub fn transfers(&self) -> f64 {
        self.per_op(self.moved_of_engine().map(|moved| moved.count).sum())
    }

    /// Where they moved, without the device.
    pub fn moved_of_engine(&self) -> impl Iterator<Item = &Moved> {
        self.moved.iter().filter(|moved| match moved.site {
            transfers::Site::Atomic { file, .. } => !file.starts_with("crates/block/"),
            transfers::Site::Lock(class) => class != workload::DEVICE_LOCK,
        })
    }

    /// Locks of each class, without the device's.
    pub fn locks_of_engine(&self) -> impl Iterator<Item = &LockStat> {
        let all = self.locks.iter();
        all.filter(|row| row.class != workload::DEVICE_LOCK)
    }

    /// Locks taken, atomic claims among them.
    pub fn acquisitions(&self) -> f64 {
        self.per_op(self.locks_of_engine().map(|row| row.acquisitions).sum())
    }

    /// Locks that were waited for, and atomic claims that failed.
    pub fn contended(&self) -> f64 {
        self.per_op(self.locks_of_engine().map(|row| row.contended).sum())
    }

    /// How often the journal was asked for write access to an inode bitmap, once for each attempt to claim an inode.
    pub fn bitmap_accesses(&self) -> f64 {
        let of_bitmap = |row: &&StageStat| row.stage == Stage::BitmapWriteAccess;
        self.per_op(
            self.stages
                .iter()
                .filter(of_bitmap)
                .map(|row| row.calls)
                .sum(),
        )
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::None;
    // A seed says it all.
    config.failure_persistence = FailurePersistence::None;
    config
}

/// Runs a workload on `cpus` workers, each on a virtual CPU of its own, and counts each of its phases.
///
/// # Errors
/// An operation that fails.
pub fn execute(
    args: &TransfersArgs,
    workload: Workload,
    choice: &Choice,
    cpus: usize,
) -> Result<Vec<Phase>> {
    // One more for what no worker does: mounting, and the journal's commits.
    virtual_cpus::set_count(cpus + 1);
    let result = Arc::new(Mutex::new(None));
    let out = Arc::clone(&result);
    let (items, choice) = (args.items, choice.clone());
    let scheduler = RandomScheduler::new_from_seed(args.seed, 1);
    Runner::new(scheduler, config()).run(move || {
        virtual_cpus::move_to(cpus);
        let counted = count(workload, &choice, cpus, items);
        *out.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
    });
    let counted = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    let counted = counted.ok_or_else(|| anyhow!("the scheduler ended the run"))?;
    counted.with_context(|| format!("{cpus} CPUs"))
}

fn count(workload: Workload, choice: &Choice, cpus: usize, items: u32) -> Result<Vec<Phase>> {
    let place = Arc::new(Place::make(workload, choice, cpus, items)?);
    // The workers and this task.
    let barrier = Arc::new(Barrier::new(cpus + 1));
    let phases = workload::phases(workload);
    let workers: Vec<_> = (0..cpus)
        .map(|worker| {
            let (place, barrier) = (Arc::clone(&place), Arc::clone(&barrier));
            thread::spawn(move || {
                virtual_cpus::move_to(worker);
                let prepared = place.prepare(worker);
                barrier.wait();
                let location = place.location();
                let started = prepared.and_then(|()| place.started(location.as_ref(), worker));
                let (mut task, mut result) = match started {
                    Ok(task) => (task, Ok(())),
                    Err(why) => (None, Err(why)),
                };
                barrier.wait();
                for phase in 0..phases.len() {
                    barrier.wait();
                    for item in 0..items {
                        let mut done = || place.run(worker, task.as_mut(), phase, item);
                        result = result.and_then(|()| done());
                    }
                    barrier.wait();
                }
                result
            })
        })
        .collect();
    let mut counted = Vec::new();
    barrier.wait();
    barrier.wait();
    for op in phases {
        stat::enable(true);
        stat::reset();
        transfers::reset();
        barrier.wait();
        barrier.wait();
        counted.push(Phase {
            op,
            ops: cpus as u64 * u64::from(items),
            moved: transfers::snapshot(),
            locks: stat::snapshot(),
            stages: probe::snapshot(),
        });
        stat::enable(false);
    }
    for worker in workers {
        let done = worker.join();
        done.map_err(|_| anyhow!("a worker panicked"))??;
    }
    Ok(counted)
}
