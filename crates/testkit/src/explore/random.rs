//! Long random workloads of several threads, on a log that wraps all the time.

use super::base::Base;
use super::judge::{Effort, Judge};
use super::others::Others;
use super::record::{Recording, START};
use super::results::Failed;
use super::shared::Shared;
use super::tally::Tally;
use crate::crash::{WorkerRun, run_workers};
use crate::device::{ForkDevice, RecordDevice};
use crate::external::*;
use crate::operation::{Op, apply};
use crate::workload::{Habits, Worker};

/// Operations of a thread.
const OPERATIONS: usize = 60;

/// Runs the workload of a seed. What threads do is decided by it, their interleaving is not.
pub fn record_seed(base: &Base, seed: u64) -> Result<Recording> {
    let mut rng = Rng::with_seed(seed);
    let device = Arc::new(ForkDevice::new(base.image.clone()));
    let device = Arc::new(RecordDevice::over(device, MemoryDevice::new(0)));
    let fs = base.mount(Arc::clone(&device) as Arc<_>)?;
    let habits = Habits {
        sync_percent: *rng.choice(&[3, 10, 25]).unwrap_or(&10),
        direct_percent: *rng.choice(&[0, 0, 40, 90]).unwrap_or(&0),
        journal_percent: *rng.choice(&[0, 5, 15]).unwrap_or(&0),
        file_bytes_max: 24 << 10,
        no_space: true,
        ..Habits::default()
    };
    let shared = Op::Mkdir {
        path: b"shared".to_vec(),
        mode: 0o755,
    };
    apply(&*fs, &shared)?;
    let threads = rng.usize(1..=4);
    let mut workers = Vec::new();
    for index in 0..threads {
        workers.push(Worker::new(&fs, &format!("t{index}"), rng.u64(..), habits)?);
    }
    fs.sync()?;
    device.mark(START);
    let run = WorkerRun {
        operations: OPERATIONS,
        device: &device,
    };
    let (histories, guarantees) = run_workers(workers, &run)?;
    match rng.bool() {
        true => fs.unmount()?,
        false => fs.crash(),
    }
    drop(fs);
    Ok(Recording {
        image: base.image.clone(),
        log: device.log(),
        histories,
        guarantees,
    })
}

/// Explores the workload of a seed, or nothing but one state of it.
pub fn explore_seed(
    base: &Base,
    seed: u64,
    (shared, others): (&Shared, &Others),
    only: Option<u64>,
    tally: &mut Tally,
) -> Result<(), Failed> {
    tally.sequences += 1;
    let failed = |state, why: String| Failed {
        number: seed,
        state,
        why,
    };
    let recording = record_seed(base, seed).map_err(|why| failed(None, format!("{why:#}")))?;
    let effort = Effort::of_long(base);
    let mut judge = Judge::new(base, &recording, effort, (&shared.seen, others), only);
    let done = judge.examine(seed);
    tally.add(&judge.tally);
    done.map_err(|failure| failed(Some(failure.state), failure.why))
}
