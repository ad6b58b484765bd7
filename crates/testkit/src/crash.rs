//! One crash run: a random workload on a recorded device, power losses, recovery, verdict.

use crate::device::{Cut, RecordDevice, RecordLog, RecordOp};
use crate::external::*;
use crate::image::{Shape, mount, mount_in};
use crate::operation::{Op, apply};
use crate::oracle;
use crate::tree;
use crate::verdict::{Guarantee, History};
use crate::workload::{Habits, Worker};
use std::sync::Mutex;

/// What to do in a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Decides everything but the interleaving of threads.
    pub seed: u64,
    /// The image.
    pub shape: Shape,
    /// What the journal does with data.
    pub data: Option<DataMode>,
    /// Threads.
    pub threads: usize,
    /// Operations of a thread.
    pub operations: usize,
    /// Share of direct writes, in percent; see [`Habits`].
    pub direct_percent: u8,
    /// Cuts at writes between flushes, besides those at each flush.
    pub cuts: usize,
    /// Of how many images, in a thousand, e2fsck and the kernel are asked.
    pub sample_permille: u32,
    /// Whether the kernel can be asked.
    pub kernel: bool,
    /// Whether a flush of the device is atomic.
    pub is_atomic: bool,
}

/// What a workload left.
#[derive(Debug)]
pub struct Recording {
    /// The device's log.
    pub log: RecordLog,
    /// What each thread did.
    pub histories: Vec<History>,
    /// The guarantees by number of their mark: thread and guarantee.
    pub guarantees: Vec<(usize, Guarantee)>,
}

/// What a run checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Images recovered.
    pub cuts: usize,
    /// Those of them that e2fsck and the kernel were asked about.
    pub sampled: usize,
    /// Guarantees made.
    pub guarantees: usize,
}

/// Runs the workload.
pub fn record(plan: &Plan) -> Result<Recording> {
    let device = RecordDevice::new(plan.shape.make()?)?;
    let device = Arc::new(device.atomic(plan.is_atomic));
    let fs = mount_in(Arc::clone(&device) as Arc<_>, plan.seed, plan.data)?;
    let mut rng = Rng::with_seed(plan.seed);
    apply(
        &*fs,
        &Op::Mkdir {
            path: b"shared".to_vec(),
            mode: 0o755,
        },
    )?;
    let habits = Habits {
        sync_percent: *rng.choice(&[3, 10, 25]).unwrap_or(&10),
        direct_percent: plan.direct_percent,
        ..Habits::of(&plan.shape)
    };
    let mut workers = Vec::new();
    for index in 0..plan.threads {
        workers.push(Worker::new(&fs, &format!("t{index}"), rng.u64(..), habits)?);
    }
    fs.sync()?;
    device.mark(u64::MAX);
    let run = WorkerRun {
        operations: plan.operations,
        device: &device,
    };
    let (histories, guarantees) = run_workers(workers, &run)?;
    if rng.bool() {
        fs.unmount()?;
    } else {
        fs.crash();
    }
    Ok(Recording {
        log: device.log(),
        histories,
        guarantees,
    })
}

/// Guarantees by number of their mark: worker and guarantee.
pub type Guarantees = Vec<(usize, Guarantee)>;

/// What workers on a recorded device share.
#[derive(Debug)]
pub struct WorkerRun<'d, D> {
    /// Operations of each.
    pub operations: usize,
    /// Where guarantees are marked by their number.
    pub device: &'d RecordDevice<D>,
}

/// Runs workers, a thread for each: what they did, and what was guaranteed, by number of the mark.
pub fn run_workers<D: BlockDevice>(
    workers: Vec<Worker<'_>>,
    run: &WorkerRun<'_, D>,
) -> Result<(Vec<History>, Guarantees)> {
    let guarantees = Mutex::new(Vec::new());
    let histories: Result<Vec<History>> = std::thread::scope(|scope| {
        let guarantees = &guarantees;
        let threads: Vec<_> = workers
            .into_iter()
            .enumerate()
            .map(|(index, worker)| scope.spawn(move || work(run, index, worker, guarantees)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
            .collect()
    });
    let guarantees = guarantees.into_inner().map_err(|_| anyhow!("poisoned"))?;
    Ok((histories?, guarantees))
}

fn work<D: BlockDevice>(
    run: &WorkerRun<'_, D>,
    index: usize,
    mut worker: Worker<'_>,
    guarantees: &Mutex<Vec<(usize, Guarantee)>>,
) -> Result<History> {
    let (mut states, mut changes) = (vec![worker.model.clone()], Vec::new());
    for _ in 0..run.operations {
        let (op, guarantee) = worker.step()?;
        if states
            .last()
            .is_some_and(|last| last.step < worker.model.step)
        {
            states.push(worker.model.clone());
            changes.push(op);
        }
        if let Some(guarantee) = guarantee {
            let mut guarantees = guarantees.lock().map_err(|_| anyhow!("poisoned"))?;
            guarantees.push((index, guarantee));
            run.device.mark(guarantees.len() as u64 - 1);
        }
    }
    Ok(History {
        name: format!("t{index}"),
        states,
        changes,
    })
}

/// Cuts a recording everywhere that the plan says and judges what is left.
pub fn examine(plan: &Plan, recording: &Recording) -> Result<Tally> {
    let mut rng = Rng::with_seed(!plan.seed);
    let mut tally = Tally {
        guarantees: recording.guarantees.len(),
        ..Tally::default()
    };
    let mut replayer = recording.log.replayer();
    for cut in cuts(plan, &recording.log, &mut rng) {
        let image = match plan.is_atomic {
            true => replayer.image_at(&recording.log.last_flush(&cut)),
            false => replayer.image_at(&cut),
        };
        let sampled = rng.u32(..1000) < plan.sample_permille;
        judge(plan, recording, &cut, image, sampled)
            .with_context(|| format!("seed {}, {}, {cut:?}", plan.seed, plan.shape.name))?;
        tally.cuts += 1;
        tally.sampled += usize::from(sampled);
    }
    Ok(tally)
}

/// Whether any image is caught when the device lies about flushes.
pub fn canary_is_caught(plan: &Plan, recording: &Recording) -> Result<bool> {
    let mut rng = Rng::with_seed(plan.seed);
    let mut replayer = recording.log.replayer().ignore_flushes();
    for cut in cuts(plan, &recording.log, &mut rng) {
        let image = replayer.image_at(&cut);
        if judge(plan, recording, &cut, image, false).is_err() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn cuts(plan: &Plan, log: &RecordLog, rng: &mut Rng) -> Vec<Cut> {
    let start = log
        .ops
        .iter()
        .position(|op| matches!(op, RecordOp::Mark(u64::MAX)));
    let start = start.unwrap_or(0);
    let mut places: Vec<usize> = (start..log.ops.len())
        .filter(|at| matches!(log.ops[*at], RecordOp::Flush { .. }))
        .flat_map(|at| [at, at + 1])
        .collect();
    places.push(log.ops.len());
    places.extend((0..plan.cuts).map(|_| rng.usize(start..=log.ops.len())));
    places.sort_unstable();
    let with_seed = places.into_iter().map(|at| match rng.u8(..8) {
        0 => Cut::at(at),
        _ => Cut::at(at).seeded(rng.u64(..)),
    });
    with_seed.collect()
}

fn judge(
    plan: &Plan,
    recording: &Recording,
    cut: &Cut,
    image: MemoryDevice,
    sampled: bool,
) -> Result<()> {
    let before = image.clone();
    let device = Arc::new(image);
    let fs = mount(Arc::clone(&device) as Arc<_>).context("recovery")?;
    let found = tree::of_fs(&*fs).context("walk after recovery")?;
    let marks = recording.log.marks_before(cut);
    for (index, history) in recording.histories.iter().enumerate() {
        let guarantees: Vec<Guarantee> = marks
            .iter()
            .filter_map(|mark| recording.guarantees.get(usize::try_from(mark.value).ok()?))
            .filter(|(thread, _)| *thread == index)
            .map(|(_, guarantee)| *guarantee)
            .collect();
        if let Err(why) = history.judge(&found, &guarantees) {
            bail!("{why}");
        }
    }
    fs.unmount().context("unmount after recovery")?;
    drop(fs);
    oracle::check(&*device).context("after recovery and unmount")?;
    if sampled {
        ask_others(plan, &before, &device, &found)?;
    }
    Ok(())
}

/// e2fsck agrees that our recovery is clean, and its own recovery leaves the same tree.
fn ask_others(
    plan: &Plan,
    before: &MemoryDevice,
    after: &MemoryDevice,
    found: &tree::Tree,
) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    after.save_to(&ours)?;
    oracle::fsck(&ours).context("e2fsck after our recovery")?;
    // Neither repairs a superblock whose write was torn from the journal, as our recovery does.
    if !plan.kernel || uext4_ext4::read_superblock(before).is_err() {
        return Ok(());
    }
    before.save_to(&theirs)?;
    let said = oracle::repair(&theirs).context("e2fsck of the image before recovery")?;
    let mut their_tree = oracle::kernel_tree(&theirs, &dir.path().join("mount"))?;
    oracle::restore_attributes(&said, found, &mut their_tree);
    if let Some(difference) = tree::difference(found, &their_tree) {
        bail!("our recovery / e2fsck's: {difference}\n{said}");
    }
    before.save_to(&theirs)?;
    let mount = oracle::KernelMount::new(&theirs, &dir.path().join("mount"), "rw")?;
    let kernel = tree::of_dir(mount.dir());
    mount.unmount()?;
    match tree::difference(found, &kernel?) {
        Some(difference) => bail!("our recovery / the kernel's: {difference}"),
        None => Ok(()),
    }
}
