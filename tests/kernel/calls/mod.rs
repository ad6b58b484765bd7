//! The same random calls on the kernel's ext4 and on uext4, by the superuser and by users with all sorts of groups and
//! capabilities: the same answers, the same times changed by each, the same trees afterwards.
//!
//! A difference is reported with its seed; `UEXT4_CALL_SEED` is the first one, so that it and `UEXT4_CALL_SEQUENCES=1`
//! show it again. Needs root and a loop device, and skips, saying so, without.

mod ours;

use uext4_testkit::calls::mounted::{Mounted, write_whole_extents};
use uext4_testkit::calls::person::Person;
use uext4_testkit::calls::sequence::{Rules, Unprotected, assert_none, sequences};
use uext4_testkit::calls::side::Side;
use uext4_testkit::calls::thread;
use uext4_testkit::image;
use uext4_testkit::prelude::*;

/// Different differences until the test ends.
const DIFFERENCES_MAX: usize = 12;

/// Large enough that nothing runs out of space.
const LARGE: Shape = Shape {
    bytes: 128 << 20,
    ..Shape::DEFAULT
};

/// Inodes without room for attributes and for times after 2038, and small blocks that attributes fill.
const SHORT_INODES: Shape = Shape {
    name: "short inodes",
    mke2fs: Some("-t ext4 -b 1024 -I 128"),
    ..LARGE
};

/// Sequences on a new image; what was different.
fn run(shape: Shape, as_root: bool, count: u64) -> Vec<String> {
    thread::prepare();
    let device = Arc::new(shape.make().expect("an image"));
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let path = dir.path().join("image");
    device.save_to(&path).expect("saves");
    let mounted = oracle::KernelMount::new(&path, &dir.path().join("mount"), "rw,nodelalloc")
        .expect("mounts");
    write_whole_extents(mounted.dir());
    let fs = image::mount(Arc::clone(&device) as Arc<_>).expect("mounts");
    let mut kernel = Mounted::new(mounted.dir());
    let mut ours = ours::Ours::new(fs);
    // Where times are of whole seconds, a change is not seen.
    let ages = shape.mke2fs.is_none();
    let rules = Rules {
        who: &|rng: &mut Rng| Person::random(rng, as_root),
        leaves_out: &|_| false,
        ages,
        access_times: true,
    };
    let sides: &mut [&mut dyn Side; 2] = &mut [&mut kernel, &mut ours];
    let found = sequences(sides, count, &rules, as_root, DIFFERENCES_MAX);
    drop(kernel);
    ours.unmount().expect("unmounts");
    mounted.unmount().expect("unmounts");
    verify(&device, &path);
    found
}

fn verify(device: &MemoryDevice, path: &Path) {
    oracle::fsck(path).expect("the kernel's is clean");
    oracle::fsck_device(device).expect("clean");
}

fn compare(shape: Shape, as_root: bool) {
    require!(kernel_mounts());
    let _unprotected = Unprotected::turn_off();
    let count = env_number("UEXT4_CALL_SEQUENCES", 500);
    assert_none(move || run(shape, as_root, count));
}

#[test]
fn reftest_calls_by_the_superuser() {
    compare(LARGE, true);
}

#[test]
fn reftest_calls_by_users() {
    compare(LARGE, false);
}

#[test]
fn reftest_calls_on_short_inodes() {
    compare(SHORT_INODES, false);
}
