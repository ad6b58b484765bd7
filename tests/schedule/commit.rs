//! Commits in the midst of operations, schedule by schedule: what a committed transaction holds is a
//! consistent cut, and what was done before a sync is in it.
use crate::file_system::{self, Base, DIR, FILE, Shape, assert_clean, explore, lock, mount};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Mutex;
use uext4_testkit::prelude::*;

/// One group.
const SMALL: Shape = Shape {
    bytes: 3 << 20,
    inodes: 64,
    files: 0,
    features: "",
};

type Device = Arc<RecordDevice<Arc<MemoryDevice>>>;

/// What became of a name. Places are indices in the device's log.
#[derive(Debug, Default)]
struct Fate {
    /// A sync that began after it was created had returned here.
    there_from: Option<usize>,
    /// No thread had begun to unlink it before here.
    there_until: Option<usize>,
    /// Its unlink returned.
    unlinked: bool,
    /// A sync that began after that had returned here.
    gone_from: Option<usize>,
}

/// What the threads did, as far as it has returned.
#[derive(Default)]
struct History(Mutex<BTreeMap<String, Fate>>);

/// A thread's place: its directory, and where it notes what it does.
struct Worker<'a> {
    fs: &'a Ext4,
    device: &'a Device,
    history: &'a History,
    path: &'a str,
    dir: InodeRef,
}

impl Worker<'_> {
    fn full(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    fn create(&self, name: &str, is_dir: bool) -> InodeRef {
        let kind = if is_dir { &DIR } else { &FILE };
        let made = self
            .fs
            .namei
            .create(&Caller::root(), &self.dir, name.as_bytes(), kind)
            .expect("create");
        lock(&self.history.0).insert(self.full(name), Fate::default());
        made
    }

    fn unlink(&self, name: &str) {
        let at = self.device.ops_len();
        let full = self.full(name);
        if let Some(fate) = lock(&self.history.0).get_mut(&full) {
            fate.there_until = Some(at);
        }
        self.fs
            .namei
            .unlink(&Caller::root(), &self.dir, name.as_bytes())
            .expect("unlink");
        if let Some(fate) = lock(&self.history.0).get_mut(&full) {
            fate.unlinked = true;
        }
    }
}

impl History {
    /// Syncs, and notes what that guarantees.
    fn sync(&self, fs: &Ext4, device: &Device) -> usize {
        let before: Vec<_> = {
            let fates = lock(&self.0);
            fates.iter().map(|(n, f)| (n.clone(), f.unlinked)).collect()
        };
        fs.sync().expect("sync");
        let at = device.ops_len();
        let mut fates = lock(&self.0);
        for (name, unlinked) in before {
            if let Some(fate) = fates.get_mut(&name) {
                fate.there_from.get_or_insert(at);
                if unlinked {
                    fate.gone_from.get_or_insert(at);
                }
            }
        }
        at
    }

    /// What a power loss before operation `cut` must leave, and must not.
    fn assert_kept(&self, fs: &Ext4, cut: usize) {
        let top = fs.namei.root().expect("root").clone();
        let find = |path: &str| {
            let root = Caller::root();
            path.split('/').try_fold(top.clone(), |dir, name| {
                fs.namei.lookup(&root, &dir, name.as_bytes())
            })
        };
        for (name, fate) in lock(&self.0).iter() {
            let found = find(name);
            if fate.there_from.is_some_and(|from| from <= cut)
                && fate.there_until.is_none_or(|until| cut < until)
            {
                assert!(found.is_ok(), "{name} is lost at {cut}: {fate:?}");
            }
            if fate.gone_from.is_some_and(|from| from <= cut) {
                assert!(
                    matches!(found, Err(Ext4Error::NotFound)),
                    "{name} is back at {cut}: {fate:?}"
                );
            }
        }
    }
}

/// Two threads make, link and unlink while a third syncs twice; then the power is lost at each sync's
/// end and at some other moment.
fn power_loss(base: &Base, variant: IallocVariant) {
    let device: Device = Arc::new(RecordDevice::new(base.device()).expect("record"));
    let options = MountOptions {
        ialloc: variant,
        ..MountOptions::default()
    };
    let fs = mount(device.clone(), options.clone());
    let history = Arc::new(History::default());
    let workers = ["a", "b"].map(|path| {
        let (fs, device, history) = (Arc::clone(&fs), device.clone(), Arc::clone(&history));
        thread::spawn(move || {
            let worker = Worker {
                dir: file_system::dir(&fs, path),
                fs: &fs,
                device: &device,
                history: &history,
                path,
            };
            let first = worker.create("1", false);
            let open = worker.create("2", path == "b");
            drop(first);
            worker.unlink("1");
            if path == "a" {
                // An orphan for a while.
                worker.unlink("2");
            }
            worker.create("3", false);
            drop(open);
        })
    });
    let syncer = {
        let (fs, device, history) = (Arc::clone(&fs), device.clone(), Arc::clone(&history));
        thread::spawn(move || [(); 2].map(|()| history.sync(&fs, &device)))
    };
    for worker in workers {
        worker.join().expect("no panic");
    }
    let mut cuts = syncer.join().expect("no panic").to_vec();
    cuts.push(history.sync(&fs, &device));
    fs.unmount().expect("unmount");
    assert_clean(&*device);

    let log = device.log();
    cuts.push(thread_rng().gen_range(0..=log.ops.len()));
    let mut replayer = log.replayer();
    for cut in cuts {
        let seed = thread_rng().r#gen();
        let image = Arc::new(replayer.image_at(&Cut::at(cut).seeded(seed)));
        let fs = mount(image.clone(), options.clone());
        history.assert_kept(&fs, cut);
        fs.unmount().expect("unmount");
        assert_clean(&*image);
    }
}

/// Two threads sync files that they make, by fast commits where these can be, a third everything; then the power is lost at each
/// sync's end.
fn fast_commits(base: &Base) {
    const BYTES: usize = 700;
    let device: Device = Arc::new(RecordDevice::new(base.device()).expect("record"));
    let fs = mount(device.clone(), MountOptions::default());
    let writers = ["a", "b"].map(|path| {
        let (fs, device) = (Arc::clone(&fs), device.clone());
        thread::spawn(move || {
            let dir = file_system::dir(&fs, path);
            ["1", "2"].map(|name| {
                let file = fs.make(&dir, name, &FILE);
                let data = [name.as_bytes()[0]; BYTES];
                fs.files.write(&file, 0, &data, true).expect("writes");
                fs.files.fsync(&file, false).expect("durable");
                (path, name, device.ops_len())
            })
        })
    });
    let syncer = thread::spawn({
        let fs = Arc::clone(&fs);
        move || fs.sync().expect("sync")
    });
    let kept: Vec<_> = writers
        .into_iter()
        .flat_map(|writer| writer.join().expect("no panic"))
        .collect();
    syncer.join().expect("no panic");
    fs.unmount().expect("unmount");
    assert_clean(&*device);

    let log = device.log();
    let mut replayer = log.replayer();
    for (_, _, cut) in &kept {
        let seed = thread_rng().r#gen();
        let image = Arc::new(replayer.image_at(&Cut::at(*cut).seeded(seed)));
        let fs = mount(image.clone(), MountOptions::default());
        for (path, name, _) in kept.iter().filter(|(_, _, at)| at <= cut) {
            let file = fs.get(&file_system::dir(&fs, path), name);
            let mut data = [0; BYTES];
            let read = fs.files.read(&file, 0, &mut data).expect("reads");
            assert_eq!((read, data), (BYTES, [name.as_bytes()[0]; BYTES]));
        }
        fs.unmount().expect("unmount");
        assert_clean(&*image);
    }
}

/// The file system is dropped, not unmounted, while the commit thread reports to it which blocks are free.
fn dropped(base: &Base, variant: IallocVariant) {
    let device = base.device();
    let options = MountOptions {
        ialloc: variant,
        ..MountOptions::default()
    };
    let fs = mount(device.clone(), options.clone());
    let root = Caller::root();
    let dir = file_system::dir(&fs, "a");
    drop(fs.namei.create(&root, &dir, b"1", &DIR).expect("mkdir"));
    fs.namei.rmdir(&root, &dir, b"1").expect("rmdir");
    drop(dir);
    fs.volume
        .journal()
        .request_commit(fs.volume.journal().running_tid());
    // Lets the commit get somewhere.
    (0..thread_rng().gen_range(0..2000)).for_each(|_| assert!(!fs.volume.journal().is_aborted()));
    drop(fs);
    // The last reference unmounts it; if that is the commit thread, as far as it can.
    while Arc::strong_count(&device) > 1 {
        thread::yield_now();
    }
    let fs = mount(device.clone(), options);
    fs.unmount().expect("unmount");
    assert_clean(&*device);
}

fn explore_variants(scenario: fn(&Base, IallocVariant)) {
    let base = Base::make(SMALL);
    for variant in IallocVariant::ALL {
        let base = Arc::clone(&base);
        explore(move || scenario(&base, variant));
    }
}

#[test]
fn shuttle_power_loss() {
    explore_variants(power_loss);
}

#[test]
fn shuttle_fast_commits() {
    let base = Base::make(Shape {
        features: "fast_commit",
        ..SMALL
    });
    explore(move || fast_commits(&base));
}

#[test]
fn shuttle_dropped() {
    explore_variants(dropped);
}
