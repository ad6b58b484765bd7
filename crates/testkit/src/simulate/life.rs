//! From one mount to its end.

use super::plan::Plan;
use super::power::PoweredDevice;
use super::tally::Tally;
use crate::device::{AfterLoss, FaultCall, FaultPlan, FaultRule, LostData, VolatileDevice};
use crate::external::*;
use crate::image::{Shape, mount_in};
use crate::model::Model;
use crate::operation::Op;
use crate::oracle;
use crate::tree::{self, Tree};
use crate::verdict::{Guarantee, History, own_part};
use crate::workload::{Habits, Worker, check_contested, contest, read_contested};
use shuttle::thread;
use uext4_sync::clock;

/// Threads that change names which all contend for.
pub(super) const CONTENDERS: usize = 3;

/// Levels of contested names: directories move into each other.
const CONTEST_DEPTH: usize = 3;

/// What earlier lives left.
pub(super) struct Past {
    /// The device.
    pub image: Vec<u8>,
    /// What each worker's part is, if the last life was unmounted.
    pub models: Vec<Model>,
    /// What each worker did in the last life, if that did not end well.
    pub done: Vec<Done>,
    pub ending: Ending,
}

impl Past {
    fn lost(left: &MemoryDevice, done: Vec<Done>) -> Past {
        Past {
            image: left.snapshot(),
            models: Vec::new(),
            done,
            ending: Ending::Loss,
        }
    }
}

/// The name and directory of a worker.
pub(super) fn worker_name(index: usize) -> String {
    format!("t{index}")
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Unmounted: all is there.
    Unmount,
    /// By a power loss or a failed device: what was guaranteed is there.
    Loss,
}

/// What a life does.
pub(super) struct Life<'p> {
    plan: &'p Plan,
    shape: &'p Shape,
    number: usize,
    rng: Rng,
}

/// What a worker did in a life.
pub(super) struct Done {
    history: History,
    guarantees: Vec<Guarantee>,
    /// The step of its last operation that returned well.
    step: usize,
    attempted: usize,
    operations: usize,
}

/// What the threads of a life share.
struct Stage<'s> {
    plan: &'s Plan,
    life: usize,
    fs: &'s Ext4,
    device: &'s PoweredDevice,
    faults: &'s FaultPlan,
    /// Syncs until the power is lost soon after one; it is not after zero.
    syncs_left: AtomicU64,
}

impl<'p> Life<'p> {
    pub fn new(plan: &'p Plan, shape: &'p Shape, number: usize) -> Life<'p> {
        let seed = plan.seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Life {
            plan,
            shape,
            number,
            rng: Rng::with_seed(seed),
        }
    }

    fn mount(&mut self, device: Arc<dyn BlockDevice>) -> Result<Arc<Ext4>> {
        let seed = match self.plan.variants {
            true => self.rng.u64(1..),
            false => 0,
        };
        let modes = [None, Some(DataMode::Journal), Some(DataMode::Writeback)];
        let data = self.rng.choice(modes).unwrap_or_default();
        mount_in(device, seed, data)
    }

    /// Mounts what the past left, and examines it; nothing more.
    pub fn examine(mut self, past: Past, tally: &mut Tally) -> Result<()> {
        let device = Arc::new(MemoryDevice::from_bytes(&past.image));
        let fs = self.mount(Arc::clone(&device) as Arc<_>).context("mount")?;
        judge(&fs, &past, tally)?;
        fs.unmount().context("unmount")?;
        wait_for_end(fs, &device);
        oracle::check(&*device).context("after recovery and unmount")
    }

    /// Before every other life after a loss: mounts a copy of what is left, and does nothing with it.
    fn recover_only(&mut self, past: &Past, tally: &mut Tally) -> Result<()> {
        if past.ending == Ending::Loss && self.rng.bool() {
            let copy = MemoryDevice::from_bytes(&past.image);
            let life = Life::new(self.plan, self.shape, self.number);
            life.examine(Past::lost(&copy, Vec::new()), tally)?;
        }
        Ok(())
    }

    /// Mounts what the past left, examines it, works on it, and ends.
    pub fn live(mut self, past: Past, tally: &mut Tally) -> Result<Past> {
        tally.lives += 1;
        self.recover_only(&past, tally)?;
        let faults = FaultPlan::new();
        let disk = self.disk(past.image.clone(), &faults);
        let (power_loss, syncs, fault) = self.choose_ending();
        let seed = self.rng.u64(..);
        let device = Arc::new(PoweredDevice::new(disk, power_loss, seed));
        let fs = self.mount(Arc::clone(&device) as Arc<_>).context("mount")?;
        let models = judge(&fs, &past, tally)?;
        drop(past);
        fault.into_iter().for_each(|rule| faults.add(rule));
        let stage = Stage {
            plan: self.plan,
            life: self.number,
            fs: &fs,
            device: &device,
            faults: &faults,
            syncs_left: AtomicU64::new(syncs),
        };
        let (mut done, models) = self.work(&stage, models)?;
        tally.operations += done.iter().map(|done| done.operations as u64).sum::<u64>();
        tally.attempted += done.iter().map(|done| done.attempted as u64).sum::<u64>();

        let crashes = device.is_off() || faults.failed() > 0 && self.rng.bool();
        let unmounted = match crashes {
            true => {
                fs.crash();
                None
            }
            false => Some(fs.unmount()),
        };
        wait_for_end(fs, &device);
        if let Some(left) = device.image() {
            tally.power_losses += 1;
            return Ok(Past::lost(left, done));
        }
        if faults.failed() > 0 {
            tally.faults += 1;
            if let Some(Ok(())) = unmounted {
                // So all that had returned is durable.
                for done in &mut done {
                    done.guarantees.push(Guarantee::Everything(done.step));
                }
            }
            let left = device.inner().after_power_loss(self.rng.u64(..));
            return Ok(Past::lost(&left, done));
        }
        unmounted.transpose().context("unmount")?;
        let left = device.inner().durable();
        oracle::check(&left).context("after unmount")?;
        self.let_time_pass();
        Ok(Past {
            image: left.snapshot(),
            models,
            done: Vec::new(),
            ending: Ending::Unmount,
        })
    }

    /// A device that holds `image`.
    fn disk(&mut self, image: Vec<u8>, faults: &FaultPlan) -> VolatileDevice {
        let lost_data = match self.rng.bool() {
            true => LostData::Cached,
            false => LostData::Evicted,
        };
        VolatileDevice::new(image, faults.clone(), AfterLoss::Fails, lost_data)
    }

    /// Before the next mount; or the clock is set back.
    fn let_time_pass(&mut self) {
        let now = clock::since_epoch();
        match self.rng.u8(..4) {
            0 => clock::set(now.saturating_sub(Duration::from_secs(self.rng.u64(..7200)))),
            _ => clock::advance(Duration::from_secs(self.rng.u64(..200_000))),
        }
    }

    /// The change before which the power is lost, or the sync after which it is (0: never), or a call that fails.
    fn choose_ending(&mut self) -> (u64, u64, Option<FaultRule>) {
        let far = self.rng.choice([20, 200, 1000]).unwrap_or(100);
        let nth = self.rng.u64(1..=far);
        let kind = self.rng.u8(..10);
        let call = [FaultCall::Read, FaultCall::Write, FaultCall::Flush][self.rng.usize(..3)];
        let rule = match self.rng.bool() {
            true => FaultRule::new(call).nth(nth),
            false => FaultRule::new(call).from_nth(nth),
        };
        match kind {
            0..=2 if self.plan.power_losses => (nth, 0, None),
            3..=4 if self.plan.power_losses => (0, self.rng.u64(1..8), None),
            5..=6 if self.plan.faults => (0, 0, Some(rule)),
            _ => (0, 0, None),
        }
    }

    /// Lets the workers work, beside the threads that contend. Gives also the models, where all that was done is known.
    fn work(&mut self, stage: &Stage<'_>, models: Vec<Model>) -> Result<(Vec<Done>, Vec<Model>)> {
        let habits = Habits {
            no_space: true,
            file_bytes_max: 24 << 10,
            sync_percent: *self.rng.choice(&[2, 8, 20]).unwrap_or(&8),
            direct_percent: *self.rng.choice(&[0, 0, 20]).unwrap_or(&0),
            journal_percent: *self.rng.choice(&[0, 0, 3]).unwrap_or(&0),
            ..Habits::default()
        };
        let count = self.rng.usize(10..200);
        let mut workers: Vec<_> = (0..)
            .zip(models)
            .map(|(index, model)| {
                let name = worker_name(index);
                Worker::resume(stage.fs, &name, self.rng.u64(..), habits, model)
            })
            .collect();
        let scripts: Vec<_> = workers.iter_mut().map(|w| w.script(count)).collect();
        let contenders = if self.plan.contest { CONTENDERS } else { 0 };
        let seeds: Vec<u64> = (0..contenders).map(|_| self.rng.u64(..)).collect();
        let done = thread::scope(|scope| {
            let tasks: Vec<_> = workers
                .iter_mut()
                .zip(&scripts)
                .enumerate()
                .map(|(index, (worker, script))| {
                    scope.spawn(move || stage.work(index, worker, script))
                })
                .collect();
            let others = seeds.iter().enumerate();
            let others: Vec<_> = others
                .map(|(index, &seed)| scope.spawn(move || stage.contend(index, seed, count)))
                .collect();
            let done: Vec<Result<Done>> = tasks.into_iter().map(joined).collect();
            let others: Vec<Result<usize>> = others.into_iter().map(joined).collect();
            (done, others)
        });
        let mut all = done.0.into_iter().collect::<Result<Vec<Done>>>()?;
        let contended = done.1.into_iter().sum::<Result<usize>>()?;
        if let Some(first) = all.first_mut() {
            first.operations += contended;
            first.attempted += contended;
        }
        for worker in &workers {
            let compared = worker.compare();
            if !stage.has_failed() {
                compared?;
            }
        }
        for worker in &mut workers {
            worker.close();
        }
        let models = workers.into_iter().map(|worker| worker.model.clone());
        Ok((all, models.collect()))
    }
}

impl Stage<'_> {
    /// Whether a call of the device has failed: from then on errors are expected. After a power loss they are not: the device works on, and
    /// what it left was kept before.
    fn has_failed(&self) -> bool {
        self.faults.failed() > 0
    }

    /// A worker's operations, until the power is lost, or one fails after a call of the device did.
    fn work(&self, index: usize, worker: &mut Worker<'_>, script: &[Op]) -> Result<Done> {
        let mut done = Done {
            history: History {
                name: worker_name(index),
                states: vec![worker.model.clone()],
                changes: Vec::new(),
            },
            guarantees: Vec::new(),
            step: worker.model.step,
            attempted: 0,
            operations: 0,
        };
        let mut is_skipped = false;
        for (number, op) in script.iter().enumerate() {
            if self.device.is_off() {
                break;
            }
            done.attempted += 1;
            let was_skipped = is_skipped;
            is_skipped = self.plan.skipped.contains((self.life, index), number)
                || was_skipped && moves_synced_data(op);
            if is_skipped {
                continue;
            }
            let examined = match number % 4 {
                0 => worker.examine(),
                _ => Ok(()),
            };
            match examined.and_then(|()| worker.apply(op)) {
                Ok(guarantee) => {
                    done.operations += 1;
                    done.note(op, &worker.model);
                    // What returned after the loss says nothing of what it left.
                    if !self.device.is_off() && guarantee.is_some() {
                        done.guarantees.extend(guarantee);
                        self.note_sync(number);
                    }
                }
                Err(_) if self.has_failed() => {
                    if let Some((op, model)) = worker.pending_after_failure() {
                        done.history.changes.push(op);
                        done.history.states.push(model);
                    }
                    break;
                }
                Err(why) => return Err(why.context(format!("operation {number}"))),
            }
        }
        Ok(done)
    }

    /// Counts a sync that has returned; the power may be lost soon after it.
    fn note_sync(&self, number: usize) {
        let left = self.syncs_left.load(Ordering::SeqCst);
        self.syncs_left
            .store(left.saturating_sub(1), Ordering::SeqCst);
        if left == 1 {
            self.device.lose_soon(number as u64 % 4 + 1);
        }
    }

    /// Changes what all contend for, and the clock.
    fn contend(&self, index: usize, seed: u64, count: usize) -> Result<usize> {
        let mut rng = Rng::with_seed(seed);
        let place = (self.life, self.plan.threads + index);
        for number in 0..count {
            if self.device.is_off() {
                return Ok(number);
            }
            let mut one = Rng::with_seed(rng.u64(..));
            if self.plan.skipped.contains(place, number) {
                continue;
            }
            if one.u8(..30) == 0 {
                clock::advance(Duration::from_millis(one.u64(..100_000_000)));
            }
            let done = match one.u8(..12) {
                0 => self.read_contested(&mut one),
                _ => contest(self.fs, &mut one, CONTEST_DEPTH),
            };
            match done {
                Err(_) if self.has_failed() => return Ok(number),
                done => done.with_context(|| format!("the contest's operation {number}"))?,
            }
        }
        Ok(count)
    }

    /// Lists, reads and syncs what others change.
    fn read_contested(&self, rng: &mut Rng) -> Result<()> {
        let dir = crate::operation::find(self.fs, b"contested")?;
        for name in tree::names(self.fs, &dir, 1000)? {
            match self.fs.lookup(&Caller::root(), &dir, &name) {
                Ok(node) => {
                    read_contested(self.fs, &node)?;
                    if rng.u8(..8) == 0 {
                        self.fs.fsync(&node, rng.bool())?;
                    }
                }
                Err(e) if e == Errno::ENOENT => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.fs.statfs()?;
        Ok(())
    }
}

impl Done {
    fn note(&mut self, op: &Op, model: &Model) {
        self.step = model.step;
        let last = self.history.states.last();
        if last.is_some_and(|last| last.step < model.step) {
            self.history.states.push(model.clone());
            self.history.changes.push(op.clone());
        }
    }
}

/// Whether what a crash may leave of an operation is only known if the sync before it was done.
fn moves_synced_data(op: &Op) -> bool {
    use Fallocate::{CollapseRange, InsertRange};
    matches!(
        op,
        Op::Fallocate {
            what: CollapseRange | InsertRange,
            ..
        }
    )
}

fn joined<T>(task: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    task.join().map_err(|_| anyhow!("a thread panicked"))?
}

/// Compares what is mounted with what must be there; gives the models of what was found.
fn judge(fs: &Ext4, past: &Past, tally: &mut Tally) -> Result<Vec<Model>> {
    let found = tree::of_fs(fs).context("walk after the mount")?;
    check_contested(&found)?;
    let part = |index: usize| own_part(&worker_name(index), &found);
    for (index, model) in past.models.iter().enumerate() {
        let want = own_part(&worker_name(index), &model.tree());
        tree::same("unmounted / found", &want, &part(index))?;
    }
    for done in &past.done {
        tally.guarantees += done.guarantees.len() as u64;
        let judged = done.history.judge(&found, &done.guarantees);
        judged.map_err(|why| anyhow!("after a loss: {why}"))?;
    }
    let models = (0..past.done.len()).map(|index| {
        let mut own = part(index);
        own.extend(directory(&found, b"shared"));
        Model::of_tree(&own).map_err(|e| anyhow!("a model of what was found: {e}"))
    });
    match past.ending {
        Ending::Unmount => Ok(past.models.clone()),
        Ending::Loss => models.collect(),
    }
}

/// A directory without what is in it.
fn directory(tree: &Tree, path: &[u8]) -> Option<(Vec<u8>, tree::Entry)> {
    tree.get(path).map(|entry| (path.to_vec(), entry.clone()))
}

/// Drops a file system, and waits until its threads have ended, the last of which may shut it down.
fn wait_for_end<D>(fs: Arc<Ext4>, device: &Arc<D>) {
    drop(fs);
    while Arc::strong_count(device) > 1 {
        thread::yield_now();
    }
}
