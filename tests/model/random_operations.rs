//! Random operations against the model: alone with remounts, many threads at once, without space,
//! without inodes, and on a device that fails. `UEXT4_STRESS_SECONDS` and `UEXT4_MODEL_RUNS` make it
//! longer.

use uext4_block::ObjectDevice;
use uext4_testkit::image::{mount, mount_as};
use uext4_testkit::nbd_server::NbdServer;
use uext4_testkit::object_store::HostStore;
use uext4_testkit::prelude::*;
use uext4_testkit::verdict::Guarantee;
use uext4_testkit::verdict::History;
use uext4_testkit::workload::{contest, remounts_on};

fn shared() -> Op {
    Op::Mkdir {
        path: b"shared".to_vec(),
        mode: 0o755,
    }
}

fn clean(device: &MemoryDevice) -> Result<()> {
    oracle::check(device)?;
    oracle::fsck_device(device)
}

#[test]
fn reftest_random_operations_with_remounts() {
    let runs = env_number("UEXT4_MODEL_RUNS", 10);
    for seed in 0..runs {
        let shape = Shape::ALL[(seed % 5) as usize];
        let done = remounts(seed, shape);
        done.with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

#[test]
fn reftest_block_maps_with_remounts() {
    let runs = env_number("UEXT4_MODEL_RUNS", 7);
    for seed in 0..runs {
        let shape = Shape::BLOCK_MAPPED[seed as usize % Shape::BLOCK_MAPPED.len()];
        let done = remounts(seed, shape);
        done.with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

#[test]
fn reftest_inline_data_with_remounts() {
    let runs = env_number("UEXT4_MODEL_RUNS", 15);
    for seed in 0..runs {
        let shape = Shape::INLINE[seed as usize % Shape::INLINE.len()];
        let done = remounts(seed, shape);
        done.with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

#[test]
fn reftest_large_values_with_remounts() {
    let runs = env_number("UEXT4_MODEL_RUNS", 8);
    for seed in 0..runs {
        let shape = Shape::LARGE_VALUES[seed as usize % Shape::LARGE_VALUES.len()];
        let done = remounts(seed, shape);
        done.with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

#[test]
fn reftest_clusters_with_remounts() {
    let runs = env_number("UEXT4_MODEL_RUNS", 15);
    for seed in 0..runs {
        let shape = Shape::BIGALLOC[seed as usize % Shape::BIGALLOC.len()];
        let done = remounts(seed, shape);
        done.with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

/// What a server has.
#[test]
fn reftest_nbd_with_remounts() {
    let runs = env_number("UEXT4_MODEL_RUNS", 3);
    for seed in 0..runs {
        let shape = Shape::ALL[(seed % 5) as usize];
        let image = shape.make().expect("an image");
        let server = require!(some NbdServer::new(image.len()));
        image.save_to(server.file()).expect("it is served");
        let device = open_image(Path::new(&server.name()), &OpenOptions::read_write());
        let done = remounts_on(device.expect("it opens"), seed, shape);
        done.with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
        oracle::fsck(&server.file()).unwrap();
    }
}

/// On an image in a store of objects.
#[test]
fn reftest_objects_with_remounts() {
    for seed in 0..env_number("UEXT4_MODEL_RUNS", 3) {
        let shape = Shape::ALL[(seed % 5) as usize];
        let image = shape.make().expect("an image");
        let store = HostStore::new(&Arc::default(), seed);
        let options = OpenOptions::create(image.len());
        let device = ObjectDevice::open(store, None, "image", &options).expect("it opens");
        device.write_at(0, &image.snapshot()).expect("it is there");
        let device = Arc::new(device);
        let done = remounts_on(Arc::clone(&device) as Arc<_>, seed, shape);
        done.with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
        let file = tempfile::NamedTempFile::new().expect("a file");
        let image = MemoryDevice::copy_of(&*device).expect("it is read");
        image.save_to(file.path()).expect("it is written");
        oracle::fsck(file.path()).unwrap();
    }
}

fn remounts(seed: u64, shape: Shape) -> Result<()> {
    remounts_on(Arc::new(shape.make()?), seed, shape)
}

#[test]
fn stress_eight_threads() {
    stress_on(Shape::DEFAULT);
}

/// Files of several threads in clusters.
#[test]
fn stress_eight_threads_in_clusters() {
    stress_on(Shape::BIGALLOC[2]);
}

/// Files leave their inodes, and values come and go, beside all others.
#[test]
fn stress_eight_threads_on_what_inodes_hold() {
    stress_on(Shape::LARGE_VALUES[3]);
}

fn stress_on(shape: Shape) {
    let seconds = env_number("UEXT4_STRESS_SECONDS", 3);
    let shape = Shape {
        bytes: 256 << 20,
        ..shape
    };
    let device = Arc::new(shape.make().unwrap());
    let fs = mount(Arc::clone(&device) as Arc<_>).unwrap();
    apply(&*fs, &shared()).unwrap();
    apply(
        &*fs,
        &Op::Mkdir {
            path: b"contested".to_vec(),
            mode: 0o755,
        },
    )
    .unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    let steps: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|index| {
                let fs = &*fs;
                let habits = Habits::of(&shape);
                scope.spawn(move || stress(fs, index, habits, end).unwrap())
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    println!("{steps} operations in {seconds} s");
    fs.unmount().unwrap();
    drop(fs);
    clean(&device).unwrap();
}

fn stress(fs: &Ext4, index: u64, habits: Habits, end: Instant) -> Result<u64> {
    let habits = Habits {
        no_space: true,
        sync_percent: 3,
        ..habits
    };
    let mut worker = Worker::new(fs, &format!("t{index}"), index, habits)?;
    let mut rng = fastrand::Rng::with_seed(index);
    let mut steps = 0;
    while Instant::now() < end {
        worker.step()?;
        contest(fs, &mut rng, 1)?;
        steps += 2;
    }
    worker.close();
    // Others still work, so only what is this worker's is compared; the walk may meet names that go.
    worker
        .compare()
        .or_else(|_| worker.compare())
        .or_else(|_| worker.compare())?;
    Ok(steps)
}

/// A name that was created belongs to exactly one thread, until that one removes it.
#[test]
fn stress_names_are_created_once() {
    let device = Arc::new(Shape::DEFAULT.make().unwrap());
    let fs = mount_as(Arc::clone(&device) as Arc<_>, fastrand::u64(..)).unwrap();
    apply(&*fs, &shared()).unwrap();
    let owned = std::sync::Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (fs, owned) = (&*fs, &owned);
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                let mut mine = Vec::new();
                for _ in 0..1500 {
                    let name = rng.u8(..40);
                    let path = format!("shared/name-{name}").into_bytes();
                    match apply(fs, &Op::Create { path, mode: 0o600 }) {
                        Ok(_) => {
                            assert!(owned.lock().unwrap().insert(name), "{name} created twice");
                            mine.push(name);
                        }
                        Err(e) => assert!(e == Errno::EEXIST, "{e:?}"),
                    }
                    if rng.bool()
                        && let Some(name) = mine.pop()
                    {
                        assert!(owned.lock().unwrap().remove(&name));
                        let path = format!("shared/name-{name}").into_bytes();
                        apply(fs, &Op::Unlink { path, keep: false }).unwrap();
                    }
                }
            });
        }
    });
    let dir = uext4_testkit::operation::find(&*fs, b"shared").unwrap();
    let left: BTreeSet<_> = tree::names(&*fs, &dir, 1000).unwrap().into_iter().collect();
    let want = owned.into_inner().unwrap();
    let want: BTreeSet<_> = want
        .iter()
        .map(|n| format!("name-{n}").into_bytes())
        .collect();
    assert_eq!(left, want);
    drop(dir);
    fs.unmount().unwrap();
    drop(fs);
    clean(&device).unwrap();
}

#[test]
fn fault_no_space_never_corrupts() {
    for seed in 0..env_number("UEXT4_MODEL_RUNS", 4) {
        let shape = Shape {
            bytes: 8 << 20,
            journal_bytes: Some(4 << 20),
            ..Shape::DEFAULT
        };
        fill_and_empty(seed, shape)
            .with_context(|| format!("seed {seed}"))
            .unwrap();
    }
}

fn fill_and_empty(seed: u64, shape: Shape) -> Result<()> {
    let device = Arc::new(shape.make()?);
    let fs = mount_as(Arc::clone(&device) as Arc<_>, seed)?;
    apply(&*fs, &shared())?;
    let habits = Habits {
        no_space: true,
        file_bytes_max: 1 << 20,
        ..Habits::of(&shape)
    };
    let free = fs.statfs()?.blocks_free;
    let mut worker = Worker::new(&fs, "t0", seed, habits)?;
    for round in 0..4 {
        let (path, mut full) = (format!("t0/big{round}").into_bytes(), false);
        apply(
            &*fs,
            &Op::Create {
                path: path.clone(),
                mode: 0o600,
            },
        )?;
        let create = Op::Create {
            path: path.clone(),
            mode: 0o600,
        };
        worker.model.apply(&create).map_err(|e| anyhow!("{e}"))?;
        while !full {
            let node = uext4_testkit::operation::find(&*fs, &path)?;
            let at = fs.getattr(&node)?.size;
            full = match FileSystem::write(&*fs, &node, at, &[3; 50_000]) {
                Ok(n) => n < 50_000,
                Err(e) if e == Errno::ENOSPC => true,
                Err(e) => return Err(e.into()),
            };
        }
        let node = uext4_testkit::operation::find(&*fs, &path)?;
        let size = fs.getattr(&node)?.size as usize;
        drop(node);
        let write = Op::Write {
            path: path.clone(),
            at: 0,
            data: vec![3; size],
            direct: false,
        };
        worker.model.apply(&write).map_err(|e| anyhow!("{e}"))?;
        for _ in 0..60 {
            worker
                .step()
                .with_context(|| format!("round {round}, full"))?;
        }
        worker.compare()?;
        // The random operations may have moved or removed it.
        for (path, entry) in worker.model.tree() {
            if entry.data.len() > 1 << 20 {
                let gone = Op::Unlink { path, keep: false };
                apply(&*fs, &gone)?;
                worker.model.apply(&gone).map_err(|e| anyhow!("{e}"))?;
            }
        }
        for _ in 0..40 {
            worker
                .step()
                .with_context(|| format!("round {round}, emptied"))?;
        }
        // What is open without a name takes space, which the directory may need for the next one.
        worker.close();
    }
    worker.close();
    worker.compare()?;
    drop(worker);
    fs.syncfs()?;
    anyhow::ensure!(fs.statfs()?.blocks_free <= free, "space out of nothing");
    fs.unmount()?;
    drop(fs);
    clean(&device)
}

/// A map needs blocks of pointers beside those of data, at every place where there may be none.
#[test]
fn fault_no_space_with_block_maps() {
    for seed in 0..env_number("UEXT4_MODEL_RUNS", 4) {
        let shape = Shape {
            bytes: 16 << 20,
            ..Shape::BLOCK_MAPPED[seed as usize % Shape::BLOCK_MAPPED.len()]
        };
        fill_and_empty(seed, shape)
            .with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

/// A value needs blocks and an inode.
#[test]
fn fault_no_space_with_large_values() {
    for seed in 0..env_number("UEXT4_MODEL_RUNS", 4) {
        let shape = Shape {
            bytes: 16 << 20,
            ..Shape::LARGE_VALUES[seed as usize % Shape::LARGE_VALUES.len()]
        };
        fill_and_empty(seed, shape)
            .with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

/// A conversion needs a block where there may be none.
#[test]
fn fault_no_space_with_inline_data() {
    for seed in 0..env_number("UEXT4_MODEL_RUNS", 5) {
        let shape = Shape {
            bytes: 16 << 20,
            ..Shape::INLINE[seed as usize % Shape::INLINE.len()]
        };
        fill_and_empty(seed, shape)
            .with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

/// A block may be free in a cluster of its file where no cluster is.
#[test]
fn fault_no_space_with_clusters() {
    for seed in 0..env_number("UEXT4_MODEL_RUNS", 5) {
        let shape = Shape {
            bytes: 24 << 20,
            ..Shape::BIGALLOC[seed as usize % Shape::BIGALLOC.len()]
        };
        fill_and_empty(seed, shape)
            .with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

#[test]
fn fault_inodes_run_out() {
    let shape = Shape {
        inodes: Some(256),
        bytes: 16 << 20,
        ..Shape::DEFAULT
    };
    let device = Arc::new(shape.make().unwrap());
    let fs = mount(Arc::clone(&device) as Arc<_>).unwrap();
    let (root, top) = (Caller::root(), FileSystem::root(&*fs).unwrap().clone());
    let new = NewNode {
        mode: 0o600,
        kind: NewKind::Regular,
    };
    for round in 0..3 {
        let mut made = Vec::new();
        let error = loop {
            let name = format!("{round}-{}", made.len()).into_bytes();
            match FileSystem::create(&*fs, &root, &top, &name, &new) {
                Ok(_) => made.push(name),
                Err(e) => break e,
            }
        };
        assert!(error == Errno::ENOSPC, "{error:?}");
        assert!(made.len() > 200, "{}", made.len());
        assert_eq!(fs.statfs().unwrap().inodes_free, 0);
        for name in &made {
            FileSystem::unlink(&*fs, &root, &top, name).unwrap();
        }
    }
    drop(top);
    fs.unmount().unwrap();
    drop(fs);
    clean(&device).unwrap();
}

#[test]
fn fault_device_errors_lose_nothing_guaranteed() {
    for seed in 0..env_number("UEXT4_FAULT_RUNS", 60) {
        let shape = Shape::ALL[fastrand::Rng::with_seed(seed).usize(..5)];
        device_error(seed, shape)
            .with_context(|| format!("seed {seed}"))
            .unwrap();
    }
}

#[test]
fn fault_device_errors_with_block_maps() {
    for seed in 0..env_number("UEXT4_FAULT_RUNS", 30) {
        let shape = Shape::BLOCK_MAPPED[seed as usize % Shape::BLOCK_MAPPED_JOURNALED];
        device_error(seed, shape)
            .with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

#[test]
fn fault_device_errors_with_inline_data() {
    for seed in 0..env_number("UEXT4_FAULT_RUNS", 30) {
        let shape = Shape::INLINE[seed as usize % Shape::INLINE.len()];
        device_error(seed, shape)
            .with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

#[test]
fn fault_device_errors_with_large_values() {
    for seed in 0..env_number("UEXT4_FAULT_RUNS", 30) {
        let shape = Shape::LARGE_VALUES[seed as usize % Shape::LARGE_VALUES.len()];
        device_error(seed, shape)
            .with_context(|| format!("seed {seed}, {}", shape.name))
            .unwrap();
    }
}

/// One call of the device fails, or all from one on; what was guaranteed before or after it holds.
fn device_error(seed: u64, shape: Shape) -> Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    // Has chosen the shape.
    rng.usize(..5);
    let device = Arc::new(shape.make()?);
    let plan = FaultPlan::new();
    let failing = FaultDevice::new(Arc::clone(&device), plan.clone());
    let fs = mount(Arc::new(failing))?;
    apply(&*fs, &shared())?;
    let mut worker = Worker::new(
        &fs,
        "t0",
        seed,
        Habits {
            sync_percent: 20,
            ..Habits::of(&shape)
        },
    )?;
    fs.sync()?;
    let call = [FaultCall::Read, FaultCall::Write, FaultCall::Flush][rng.usize(..3)];
    let rule = FaultRule::new(call);
    let n = rng.u64(1..40);
    plan.add(if rng.bool() {
        rule.nth(n)
    } else {
        rule.from_nth(n)
    });
    let (mut states, mut changes) = (vec![worker.model.clone()], Vec::new());
    let mut guarantees: Vec<Guarantee> = Vec::new();
    for _ in 0..60 {
        // An operation that failed may have happened in part: nothing after it is compared.
        let Ok((op, guarantee)) = worker.step() else {
            break;
        };
        if states
            .last()
            .is_some_and(|last| last.step < worker.model.step)
        {
            states.push(worker.model.clone());
            changes.push(op);
        }
        guarantees.extend(guarantee);
    }
    if let Some((op, model)) = worker.pending_after_failure() {
        changes.push(op);
        states.push(model);
    }
    worker.close();
    drop(worker);
    plan.clear();
    if rng.bool() {
        let _ = fs.unmount();
    } else {
        fs.crash();
    }
    drop(fs);
    let fs = mount(Arc::clone(&device) as Arc<_>).context("recovery")?;
    let found = tree::of_fs(&*fs)?;
    let history = History {
        name: "t0".into(),
        states,
        changes,
    };
    history
        .judge(&found, &guarantees)
        .map_err(|why| anyhow!("{call:?} {n}: {why}"))?;
    fs.unmount()?;
    drop(fs);
    clean(&device)
}
