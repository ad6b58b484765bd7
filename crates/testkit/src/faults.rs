//! The fault sweep: every call of the device in a long workload fails, once or from then on.
//!
//! # Data model
//! The workload is a chain of segments: each is a mount, some operations and an unmount, on the image that the
//! one before left. A run repeats one segment, with one call failing. The device has a cache that loses
//! writes, and says so once ([`VolatileDevice`]): it is the file system that must remember.
//!
//! # What must hold
//! Nothing panics or hangs. Once the device has lost anything, no call that guarantees durability returns `Ok`,
//! however often it is made. After a power loss the image recovers, the verifier finds nothing, and all that
//! was guaranteed is there.

use crate::device::{AfterLoss, FaultCall, FaultPlan, FaultRule, LostData, VolatileDevice};
use crate::explore::base::{BLOCK, Base, CONFIGS};
use crate::external::*;
use crate::image::mount;
use crate::model::Model;
use crate::operation::{Op, apply};
use crate::verdict::{Guarantee, History};
use crate::workload::{Habits, Worker};
use crate::{oracle, tree};

/// Operations of a segment, of all its threads together.
pub const OPERATIONS: usize = 100;

/// Rounds of calls that guarantee something, after the first failure.
const ROUNDS_AFTERWARDS: usize = 3;

/// Of how many runs e2fsck is asked about one.
const FSCK_ONE_IN: u64 = 40;

/// The kinds of calls that fail.
pub const CALLS: [FaultCall; 4] = [
    FaultCall::Read,
    FaultCall::Write,
    FaultCall::Flush,
    FaultCall::Discard,
];

/// A part of the workload.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The image at its start.
    image: Vec<u8>,
    /// What is in it, for each thread.
    models: Vec<Model>,
    /// Decides what the threads do.
    seed: u64,
    /// How many calls of each kind it takes, in the order of [`CALLS`].
    pub calls: [u64; 4],
}

/// Which call of a segment fails.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The kind.
    pub call: FaultCall,
    /// The number, from 1.
    pub number: u64,
    /// Whether all later ones of its kind fail too.
    pub for_good: bool,
    /// What reads see of what was lost.
    pub lost_data: LostData,
}

/// What runs came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Runs.
    pub runs: u64,
    /// Of those, runs in which the call was made, and failed.
    pub failed: u64,
    /// Of those, runs in which the device lost something.
    pub lost: u64,
    /// Guarantees that held.
    pub guarantees: u64,
}

impl Outcome {
    /// Adds another.
    pub fn add(&mut self, other: &Outcome) {
        self.runs += other.runs;
        self.failed += other.failed;
        self.lost += other.lost;
        self.guarantees += other.guarantees;
    }
}

/// Puts something around a device.
pub type Wrap = dyn Fn(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice>;

/// What a thread did up to its first failure, and what it was guaranteed.
struct Worked {
    history: History,
    guarantees: Vec<Guarantee>,
    /// What is there at the end, if nothing failed.
    model: Model,
}

/// Makes the segments of a workload of `threads` threads.
pub fn segments(count: usize, threads: usize) -> Result<Vec<Segment>> {
    let mut next = first_segment(threads)?;
    let mut all = Vec::new();
    for number in 0..count as u64 {
        next.seed = number * 64 + threads as u64;
        let plan = FaultPlan::new();
        let device = device(&next, &plan, LostData::Cached);
        let fs = mount(Arc::clone(&device) as Arc<_>)?;
        let worked = work(&fs, &next, &device)?;
        fs.unmount()?;
        drop(fs);
        next.calls = CALLS.map(|call| plan.calls(call));
        all.push(next.clone());
        next.image = device.durable().snapshot();
        next.models = worked.into_iter().map(|worked| worked.model).collect();
    }
    Ok(all)
}

/// A segment that begins with the directories of the threads.
fn first_segment(threads: usize) -> Result<Segment> {
    let base = Base::for_kind(CONFIGS[0], "random")?;
    let blocks = 0..base.image.len() / BLOCK as u64;
    let bytes: Vec<u8> = blocks
        .flat_map(|block| base.image.block(block).to_vec())
        .collect();
    let mut segment = Segment {
        image: bytes,
        models: Vec::new(),
        seed: 0,
        calls: [0; 4],
    };
    let device = device(&segment, &FaultPlan::new(), LostData::Cached);
    let fs = mount(Arc::clone(&device) as Arc<_>)?;
    let shared = Op::Mkdir {
        path: b"shared".to_vec(),
        mode: 0o755,
    };
    apply(&*fs, &shared)?;
    for thread in 0..threads {
        let worker = Worker::new(&fs, &format!("t{thread}"), 0, Habits::default())?;
        segment.models.push(worker.model.clone());
    }
    fs.unmount()?;
    drop(fs);
    segment.image = device.durable().snapshot();
    Ok(segment)
}

fn device(segment: &Segment, plan: &FaultPlan, lost_data: LostData) -> Arc<VolatileDevice> {
    let image = segment.image.clone();
    let after_loss = AfterLoss::Forgets;
    Arc::new(VolatileDevice::new(
        image,
        plan.clone(),
        after_loss,
        lost_data,
    ))
}

/// Runs a segment with a fault, and judges what is left.
pub fn run(segment: &Segment, fault: &Fault) -> Result<Outcome> {
    run_on(segment, fault, &|device| device)
}

/// As [`run`]; what `wrap` makes is between the file system and the device.
pub fn run_on(segment: &Segment, fault: &Fault, wrap: &Wrap) -> Result<Outcome> {
    let plan = FaultPlan::new();
    let device = device(segment, &plan, fault.lost_data);
    let rule = FaultRule::new(fault.call);
    plan.add(match fault.for_good {
        true => rule.from_nth(fault.number),
        false => rule.nth(fault.number),
    });
    let mut rng = Rng::with_seed(segment.seed ^ fault.number << 20);
    let worked = match mount(wrap(Arc::clone(&device) as Arc<_>)) {
        Ok(fs) => {
            let worked = work(&fs, segment, &device)?;
            use_on(&fs, &device)?;
            end(&fs, &device, rng.bool())?;
            worked
        }
        // What was there before is still guaranteed.
        Err(_) => segment
            .models
            .iter()
            .enumerate()
            .map(nothing_done)
            .collect(),
    };
    let mut outcome = Outcome {
        runs: 1,
        failed: u64::from(plan.failed() > 0),
        lost: u64::from(device.lost_bytes() > 0),
        guarantees: 0,
    };
    outcome.guarantees = recovers(&device, &worked, rng.u64(..))?;
    Ok(outcome)
}

fn nothing_done((thread, model): (usize, &Model)) -> Worked {
    Worked {
        history: History {
            name: format!("t{thread}"),
            states: vec![model.clone()],
            changes: Vec::new(),
        },
        guarantees: vec![Guarantee::Everything(model.step)],
        model: model.clone(),
    }
}

/// All threads work until something fails.
fn work(fs: &Arc<Ext4>, segment: &Segment, device: &VolatileDevice) -> Result<Vec<Worked>> {
    let threads = segment.models.len();
    let all: Result<Vec<Worked>> = std::thread::scope(|scope| {
        let workers: Vec<_> = segment
            .models
            .iter()
            .enumerate()
            .map(|each| {
                let seed = segment.seed * 16 + each.0 as u64;
                scope.spawn(move || one_thread(fs, each, seed, OPERATIONS / threads, device))
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .map(|worked| worked.map_err(|_| anyhow!("a thread panicked"))?)
            .collect()
    });
    all
}

fn one_thread(
    fs: &Ext4,
    each: (usize, &Model),
    seed: u64,
    operations: usize,
    device: &VolatileDevice,
) -> Result<Worked> {
    let habits = Habits {
        sync_percent: 15,
        direct_percent: 25,
        journal_percent: 2,
        file_bytes_max: 24 << 10,
        no_space: true,
        ..Habits::default()
    };
    let mut worked = nothing_done(each);
    let name = worked.history.name.clone();
    let mut worker = Worker::resume(fs, &name, seed, habits, each.1.clone());
    for _ in 0..operations {
        let lost = device.lost_bytes();
        // An operation that failed may have happened: nothing after it is compared.
        let Ok((op, guarantee)) = worker.step() else {
            break;
        };
        if worked.model.step < worker.model.step {
            worked.history.states.push(worker.model.clone());
            worked.history.changes.push(op.clone());
            worked.model = worker.model.clone();
        }
        if guarantee.is_some() && lost > 0 {
            bail!("{op:?} guaranteed something after {lost} bytes were lost");
        }
        worked.guarantees.extend(guarantee);
    }
    if let Some((op, model)) = worker.pending_after_failure() {
        worked.history.changes.push(op);
        worked.history.states.push(model);
    }
    worker.close();
    Ok(worked)
}

/// Continues with a mount of which something may have failed: whatever it answers, it guarantees nothing once
/// anything was lost.
fn use_on(fs: &Arc<Ext4>, device: &VolatileDevice) -> Result<()> {
    for round in 0..ROUNDS_AFTERWARDS {
        let path = format!("afterwards-{round}").into_bytes();
        let fsync = |data_only| Op::Fsync {
            path: path.clone(),
            data_only,
        };
        let create = Op::Create {
            path: path.clone(),
            mode: 0o600,
        };
        let write = Op::Write {
            path: path.clone(),
            at: 0,
            data: vec![round as u8; 3000],
            direct: false,
        };
        let root = Op::Fsync {
            path: Vec::new(),
            data_only: false,
        };
        for op in [create, write, fsync(true), root, fsync(false), Op::Syncfs] {
            let lost = device.lost_bytes();
            let done = apply(&**fs, &op);
            let guarantees = matches!(op, Op::Fsync { .. } | Op::Syncfs);
            if guarantees && done.is_ok() && lost > 0 {
                bail!("{op:?} returned Ok after {lost} bytes were lost");
            }
        }
        let lost = device.lost_bytes();
        let synced = fs.sync();
        ensure!(
            synced.is_err() || lost == 0,
            "sync returned Ok after a loss"
        );
        // Reading continues, or fails; it doesn't panic.
        let _ = tree::of_fs(&**fs);
    }
    Ok(())
}

fn end(fs: &Arc<Ext4>, device: &VolatileDevice, unmounts: bool) -> Result<()> {
    if !unmounts {
        fs.crash();
        return Ok(());
    }
    let lost = device.lost_bytes();
    let ended = fs.unmount();
    ensure!(
        ended.is_err() || lost == 0,
        "unmount returned Ok after a loss"
    );
    Ok(())
}

/// After a power loss everything guaranteed is there; how much that was.
fn recovers(device: &VolatileDevice, worked: &[Worked], seed: u64) -> Result<u64> {
    let left = Arc::new(device.after_power_loss(seed));
    let fs = mount(Arc::clone(&left) as Arc<_>).context("recovery")?;
    let found = tree::of_fs(&*fs).context("walk after recovery")?;
    let mut guarantees = 0;
    for worked in worked {
        let judged = worked.history.judge(&found, &worked.guarantees);
        judged.map_err(|why| anyhow!(why))?;
        guarantees += worked.guarantees.len() as u64;
    }
    fs.unmount().context("unmount after recovery")?;
    drop(fs);
    oracle::check(&*left)?;
    if seed.is_multiple_of(FSCK_ONE_IN) {
        oracle::fsck_device(&left)?;
    }
    Ok(guarantees)
}
