//! Block allocation, schedule by schedule, over whole file systems: no block is given twice, none is lost, counters are what
//! bitmaps say.
use crate::file_system::{self, Base, DIRS, FILE, Shape, assert_clean, explore, mount};
use shuttle::thread;
use uext4_testkit::prelude::*;

const BLOCK: u64 = 1024;

/// One group.
const SMALL: Shape = Shape {
    bytes: 3 << 20,
    inodes: 64,
    files: 0,
    features: "",
};

/// Two groups.
const TWO_GROUPS: Shape = Shape {
    bytes: 9 << 20,
    ..SMALL
};

/// Explores a scenario on fresh images, for each variant.
fn explore_variants(shape: Shape, scenario: fn(&Base, BallocVariant)) {
    let base = Base::make(shape);
    for variant in BallocVariant::ALL {
        let base = Arc::clone(&base);
        explore(move || scenario(&base, variant));
    }
}

fn mount_variant(base: &Base, balloc: BallocVariant) -> (Arc<MemoryDevice>, Arc<Ext4>) {
    let device = base.device();
    let options = MountOptions {
        balloc,
        ..MountOptions::default()
    };
    let fs = mount(device.clone(), options);
    (device, fs)
}

/// Runs `work` with a new file, in a thread for each directory, and waits for them.
fn with_files(fs: &Arc<Ext4>, work: impl Fn(&Ext4, &str, InodeRef) + Clone + Send + 'static) {
    let threads = DIRS.map(|name| {
        let (fs, work) = (Arc::clone(fs), work.clone());
        thread::spawn(move || {
            let dir = file_system::dir(&fs, name);
            let file = fs.namei.create(&Caller::root(), &dir, b"file", &FILE);
            work(&fs, name, file.expect("create"));
        })
    });
    for thread in threads {
        thread.join().expect("no panic");
    }
}

fn allocate(fs: &Ext4, file: &InodeRef, block: u64, blocks: u64) -> Result<(), Ext4Error> {
    let (at, len) = (block * BLOCK, blocks * BLOCK);
    fs.files.fallocate(file, Fallocate::Allocate, at, len)
}

/// Takes all blocks but a few, in a file of its own.
fn fill(fs: &Ext4, left: u64) -> InodeRef {
    let top = fs.namei.root().expect("root").clone();
    let file = fs.namei.create(&Caller::root(), &top, b"filler", &FILE);
    let file = file.expect("create");
    // A block in each group leads to the end of the groups.
    while let free @ 1.. = blocks_free(fs).saturating_sub(left) {
        let end = file.size() / BLOCK;
        allocate(fs, &file, end, free.min(64)).expect("room");
    }
    file
}

fn blocks_free(fs: &Ext4) -> u64 {
    fs.statfs().expect("statfs").blocks_free
}

/// Files grow and shrink in one group, are written and removed, and transactions end meanwhile.
fn grow_and_shrink(base: &Base, variant: BallocVariant) {
    let (device, fs) = mount_variant(base, variant);
    with_files(&fs, |fs, name, file| {
        allocate(fs, &file, 0, 3).expect("allocate");
        allocate(fs, &file, 3, 2).expect("allocate");
        if name == "a" {
            fs.sync().expect("sync");
        }
        fs.files.truncate(&file, BLOCK).expect("truncate");
        let data = [7; 2 * BLOCK as usize];
        fs.files
            .write(&file, 4 * BLOCK, &data, true)
            .expect("write");
        allocate(fs, &file, 0, 12).expect("allocate");
        if name == "c" {
            let dir = file_system::dir(fs, name);
            fs.namei
                .unlink(&Caller::root(), &dir, b"file")
                .expect("unlink");
        }
    });
    fs.unmount().expect("unmount");
    assert_clean(&*device);
}

/// Few blocks are free: each is found, by the last that searches for one.
fn last_blocks(base: &Base, variant: BallocVariant) {
    let (device, fs) = mount_variant(base, variant);
    let filler = fill(&fs, 9);
    with_files(&fs, |fs, _, file| {
        for block in 0.. {
            match allocate(fs, &file, block, 1) {
                Ok(()) => {}
                Err(Ext4Error::NoSpace) => break,
                Err(why) => panic!("{why}"),
            }
        }
    });
    assert_eq!(blocks_free(&fs), 0);
    drop(filler);
    fs.unmount().expect("unmount");
    assert_clean(&*device);
}

/// What one thread frees, others find, though they search before it is durable.
fn freed_blocks(base: &Base, variant: BallocVariant) {
    let (device, fs) = mount_variant(base, variant);
    let filler = fill(&fs, 3);
    let size = filler.size();
    with_files(&fs, move |fs, name, file| match name {
        "a" => {
            let top = fs.namei.root().expect("root").clone();
            let filler = fs.namei.lookup(&Caller::root(), &top, b"filler");
            let filler = filler.expect("the file");
            fs.files
                .truncate(&filler, size - 24 * BLOCK)
                .expect("truncate");
        }
        _ => {
            // All that is freed may come too late.
            let done = allocate(fs, &file, 0, 8);
            assert!(matches!(done, Ok(()) | Err(Ext4Error::NoSpace)), "{done:?}");
        }
    });
    drop(filler);
    let dir = file_system::dir(&fs, "a");
    let file = fs.namei.lookup(&Caller::root(), &dir, b"file");
    allocate(&fs, &file.expect("the file"), 0, 8).expect("blocks are free");
    fs.unmount().expect("unmount");
    assert_clean(&*device);
}

#[test]
fn shuttle_grow_and_shrink() {
    explore_variants(SMALL, grow_and_shrink);
}

#[test]
fn shuttle_grow_and_shrink_in_two_groups() {
    explore_variants(TWO_GROUPS, grow_and_shrink);
}

#[test]
fn shuttle_last_blocks() {
    explore_variants(SMALL, last_blocks);
}

#[test]
fn shuttle_freed_blocks() {
    explore_variants(SMALL, freed_blocks);
}
