//! Swapping the boot loader's data beside commits, schedule by schedule: whatever a committed
//! transaction holds of an extent tree has the checksum of its owner at that time.
use crate::file_system::{self, Base, FILE, Shape, assert_clean, explore, mount};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use uext4_ondisk::ExtentNode;
use uext4_testkit::prelude::*;

const SMALL: Shape = Shape {
    bytes: 3 << 20,
    inodes: 64,
    files: 0,
    features: "",
};

/// One more than a root holds.
const EXTENTS: u64 = 5;

type Device = Arc<RecordDevice<Arc<MemoryDevice>>>;

/// A file with a hole before every block, so that its tree has a node.
fn fragmented(fs: &Ext4, name: &str) -> InodeRef {
    let dir = file_system::dir(fs, "a");
    let file = fs
        .namei
        .create(&Caller::root(), &dir, name.as_bytes(), &FILE)
        .expect("create");
    (0..EXTENTS).for_each(|i| append(fs, &file, i));
    assert_eq!(ExtentNode::new(&file.state().i_block).depth(), 1);
    file
}

fn append(fs: &Ext4, file: &InodeRef, extent: u64) {
    let size = u64::from(fs.volume.geometry().block_size);
    fs.files
        .write(file, (2 * extent + 1) * size, b"data", true)
        .expect("write");
}

/// Swaps while a transaction that changed the tree commits, a few times; then the power is lost at
/// the end of each commit and at two other moments.
fn swap_beside_commits(base: &Base) {
    let device: Device = Arc::new(RecordDevice::new(base.device()).expect("record"));
    let fs = mount(device.clone(), MountOptions::default());
    let file = fragmented(&fs, "file");
    fs.sync().expect("sync");
    let from = device.ops_len();
    let mut cuts = Vec::new();
    for round in 0..4 {
        // Every second round the file has what the boot loader had: a few extents, and no node.
        append(&fs, &file, EXTENTS + round);
        let tid = fs.volume.journal().running_tid();
        fs.volume.journal().request_commit(tid);
        fs.files.swap_boot(&Caller::root(), &file).expect("swap");
        fs.volume.journal().wait_commit(tid).expect("commit");
        cuts.push(device.ops_len());
    }
    drop(file);
    fs.unmount().expect("unmount");
    drop(fs);
    assert_clean(&*device);

    let log = device.log();
    cuts.extend([(); 2].map(|()| thread_rng().gen_range(from..=log.ops.len())));
    let mut replayer = log.replayer();
    for cut in cuts {
        let seed = thread_rng().r#gen();
        let image = Arc::new(replayer.image_at(&Cut::at(cut).seeded(seed)));
        let fs = mount(image.clone(), MountOptions::default());
        fs.unmount().expect("unmount");
        assert_clean(&*image);
    }
}

/// Two threads swap two files, of which the boot loader had none before: in some order.
fn two_swap(base: &Base) {
    let device = base.device();
    let fs = mount(device.clone(), MountOptions::default());
    let files = ["one", "two"].map(|name| fragmented(&fs, name));
    let swappers = files.clone().map(|file| {
        let fs = Arc::clone(&fs);
        thread::spawn(move || fs.files.swap_boot(&Caller::root(), &file).expect("swap"))
    });
    for swapper in swappers {
        swapper.join().expect("no panic");
    }
    let empty = files.iter().filter(|file| file.size() == 0).count();
    assert_eq!(
        empty, 1,
        "one has what the boot loader had, one the other's"
    );
    drop(files);
    fs.unmount().expect("unmount");
    drop(fs);
    assert_clean(&*device);
}

#[test]
fn shuttle_swap_beside_commits() {
    let base = Base::make(SMALL);
    explore(move || swap_beside_commits(&base));
}

#[test]
fn shuttle_two_swap() {
    let base = Base::make(SMALL);
    explore(move || two_swap(&base));
}
