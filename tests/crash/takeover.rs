//! A host that takes over, in the middle of what another one does to a mounted image in a store of objects.

use uext4_block::ObjectDevice;
use uext4_testkit::image::{mount, mount_in};
use uext4_testkit::object_store::{Bucket, HostStore};
use uext4_testkit::operation::Op;
use uext4_testkit::prelude::*;
use uext4_testkit::verdict::{Guarantee, History};

/// The device of a host. Each has a name of its own, as one process is both.
fn device(bucket: &Arc<Bucket>, host: &str, options: &OpenOptions) -> Result<Arc<ObjectDevice>> {
    let store = HostStore::new(bucket, 0);
    Ok(Arc::new(ObjectDevice::open(store, None, host, options)?))
}

fn take_over(seed: u64) -> Result<()> {
    let shape = Shape::ALL[(seed % Shape::ALL.len() as u64) as usize];
    let image = shape.make()?;
    let bucket = Arc::default();
    let first = device(&bucket, "first", &OpenOptions::create(image.len()))?;
    first.write_at(0, &image.snapshot())?;
    first.flush()?;
    let fs = mount_in(first, seed, None)?;
    let mkdir = |path: &str| Op::Mkdir {
        path: path.into(),
        mode: 0o755,
    };
    apply(&*fs, &mkdir("shared"))?;
    let habits = Habits {
        sync_percent: 20,
        ..Habits::of(&shape)
    };
    let mut worker = Worker::new(&fs, "t0", seed, habits)?;
    fs.sync()?;
    let mut history = History {
        name: "t0".to_owned(),
        states: vec![worker.model.clone()],
        changes: Vec::new(),
    };
    let mut guarantees: Vec<Guarantee> = Vec::new();
    for _ in 0..20 + seed * 7 % 60 {
        let (op, guarantee) = worker.step()?;
        if history.states.last().map(|last| last.step) < Some(worker.model.step) {
            history.states.push(worker.model.clone());
            history.changes.push(op);
        }
        guarantees.extend(guarantee);
    }
    let second = device(&bucket, "second", &OpenOptions::read_write())?;
    let taken = mount(Arc::clone(&second) as Arc<_>).context("recovery by the other host")?;
    let found = tree::of_fs(&*taken)?;
    if let Err(why) = history.judge(&found, &guarantees) {
        bail!("after the takeover: {why}");
    }
    // The first lives, and writes on.
    let is_synced = apply(&*fs, &mkdir("late")).is_ok() && fs.sync().is_ok();
    ensure!(!is_synced, "a host that was taken over syncs");
    drop(worker);
    fs.crash();
    taken.unmount()?;
    let again = mount(Arc::clone(&second) as Arc<_>)?;
    ensure!(
        tree::of_fs(&*again)? == found,
        "the other host's tree changed"
    );
    again.unmount()?;
    let file = tempfile::NamedTempFile::new()?;
    MemoryDevice::copy_of(&*second)?.save_to(file.path())?;
    oracle::fsck(file.path())?;
    Ok(())
}

#[test]
fn crash_takeovers_of_mounts() {
    for seed in 0..env_number("UEXT4_CRASH_RUNS", 20) {
        take_over(seed).unwrap_or_else(|e| panic!("seed {seed}: {e:#}"));
    }
}
