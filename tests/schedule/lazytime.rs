//! Lazy timestamps, schedule by schedule: look-ups of neighbours in the inode cache against eviction,
//! loading and reuse. No timestamp is lost, and none is written over a number's next inode.
use crate::file_system::{Base, FILE, Shape, TIME, assert_clean, explore, lock, mount};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Mutex;
use uext4_testkit::prelude::*;

use uext4_vfs::Timestamp;

/// One group, with four inodes in a block of its table.
const SMALL: Shape = Shape {
    bytes: 3 << 20,
    inodes: 64,
    files: 8,
    features: "",
};

type Device = Arc<RecordDevice<Arc<MemoryDevice>>>;

fn options(icache: IcacheVariant) -> MountOptions {
    MountOptions {
        icache,
        lazytime: true,
        atime: AtimeUpdate::Strict,
        // Nothing unused stays in memory.
        inodes_max: 1,
        ..MountOptions::default()
    }
}

/// The access times that reading left, by name.
#[derive(Default)]
struct Seen(Mutex<BTreeMap<String, Timestamp>>);

impl Seen {
    /// Reads a file of the root.
    fn read(&self, fs: &Ext4, name: &str) -> InodeRef {
        let top = fs.namei.root().expect("root").clone();
        let file = fs.namei.lookup(&Caller::root(), &top, name.as_bytes());
        let file = file.expect("lookup");
        fs.files.read(&file, 0, &mut [0]).expect("read");
        let atime = fs.attributes.attr(&file).atime;
        assert!(atime.sec > TIME, "{name} was read at {atime:?}");
        let mut seen = lock(&self.0);
        let last = seen.entry(name.to_owned()).or_insert(atime);
        *last = atime.max(*last);
        file
    }

    fn copy(&self) -> BTreeMap<String, Timestamp> {
        lock(&self.0).clone()
    }
}

fn assert_times(fs: &Ext4, times: &BTreeMap<String, Timestamp>) {
    let top = fs.namei.root().expect("root").clone();
    for (name, seen) in times {
        let file = fs.namei.lookup(&Caller::root(), &top, name.as_bytes());
        let atime = fs.attributes.attr(&file.expect("lookup")).atime;
        assert!(atime >= *seen, "{name}: {seen:?} was lost for {atime:?}");
    }
}

/// Threads read files of one inode-table block, and evict each other's; one makes and unlinks files,
/// which reuses a number of the next block.
fn evict_and_reuse(base: &Base, variant: IcacheVariant) {
    let device = base.device();
    let fs = mount(device.clone(), options(variant));
    let seen = Arc::new(Seen::default());
    let readers = [["file-0", "file-5"], ["file-1", "file-0"]].map(|names| {
        let (fs, seen) = (Arc::clone(&fs), Arc::clone(&seen));
        thread::spawn(move || names.map(|name| drop(seen.read(&fs, name))))
    });
    let maker = {
        let fs = Arc::clone(&fs);
        thread::spawn(move || {
            let root = Caller::root();
            let top = fs.namei.root().expect("root").clone();
            for name in [b"1", b"2"] {
                let made = fs.namei.create(&root, &top, name, &FILE).expect("create");
                // Pending in an inode that goes.
                fs.files.read(&made, 0, &mut [0]).expect("read");
            }
            fs.namei.unlink(&root, &top, b"1").expect("unlink");
            fs.namei.unlink(&root, &top, b"file-2").expect("unlink");
            fs.namei.create(&root, &top, b"3", &FILE).expect("create");
        })
    };
    for reader in readers {
        reader.join().expect("no panic");
    }
    maker.join().expect("no panic");
    fs.unmount().expect("unmount");
    let report = assert_clean(&*device);
    assert_eq!(report.inodes_used, base.inodes_used + 1);
    let fs = mount(device, options(variant));
    assert_times(&fs, &seen.copy());
    fs.unmount().expect("unmount");
}

/// Threads read and then sync all or the file: what was pending when that began is on the device when
/// it returns, even if another thread is writing it.
fn sync_and_evict(base: &Base, variant: IcacheVariant) {
    let device: Device = Arc::new(RecordDevice::new(base.device()).expect("record"));
    let fs = mount(device.clone(), options(variant));
    let seen = Arc::new(Seen::default());
    let readers = [["file-0", "file-5"], ["file-1", "file-0"]].map(|names| {
        let (fs, device, seen) = (Arc::clone(&fs), device.clone(), Arc::clone(&seen));
        thread::spawn(move || {
            names.map(|name| {
                let file = seen.read(&fs, name);
                let mut times = seen.copy();
                if name == names[0] {
                    fs.sync().expect("sync");
                } else {
                    times.retain(|other, _| other == name);
                    fs.files.fsync(&file, false).expect("fsync");
                }
                (device.ops_len(), times)
            })
        })
    });
    let synced: Vec<_> = readers
        .into_iter()
        .flat_map(|reader| reader.join().expect("no panic"))
        .collect();
    fs.unmount().expect("unmount");
    assert_clean(&*device);

    let log = device.log();
    let mut replayer = log.replayer();
    for (at, times) in synced {
        let cut = Cut::at(at).seeded(thread_rng().r#gen());
        let image = Arc::new(replayer.image_at(&cut));
        let fs = mount(image.clone(), options(variant));
        assert_times(&fs, &times);
        fs.unmount().expect("unmount");
        assert_clean(&*image);
    }
}

fn explore_variants(scenario: fn(&Base, IcacheVariant)) {
    let base = Base::make(SMALL);
    for variant in IcacheVariant::ALL {
        let base = Arc::clone(&base);
        explore(move || scenario(&base, variant));
    }
}

#[test]
fn shuttle_evict_and_reuse() {
    explore_variants(evict_and_reuse);
}

#[test]
fn shuttle_sync_and_evict() {
    explore_variants(sync_and_evict);
}
