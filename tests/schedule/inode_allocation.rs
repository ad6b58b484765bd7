//! Inode allocation, schedule by schedule, over whole file systems: no number is given twice, none
//! is lost, counters are what bitmaps say.
use crate::file_system::{self, Base, DIR, DIRS, FILE, Live, Shape, assert_clean, explore, mount};
use shuttle::thread;
use uext4_ondisk::GroupFlags;
use uext4_testkit::prelude::*;

/// One group.
const SMALL: Shape = Shape {
    bytes: 3 << 20,
    inodes: 64,
    files: 0,
    features: "",
};

/// One group with one inode free.
const FULL: Shape = Shape {
    inodes: 32,
    files: 16,
    ..SMALL
};

/// Two groups, the first without a free inode and the second never used.
const FIRST_GROUP_FULL: Shape = Shape {
    bytes: 12 << 20,
    inodes: 64,
    files: 17,
    ..SMALL
};

/// Explores a scenario on fresh images, for each variant.
fn explore_variants(shape: Shape, scenario: fn(&Base, IallocVariant)) {
    let base = Base::make(shape);
    for variant in IallocVariant::ALL {
        let base = Arc::clone(&base);
        explore(move || scenario(&base, variant));
    }
}

fn mount_variant(base: &Base, ialloc: IallocVariant) -> (Arc<MemoryDevice>, Arc<Ext4>) {
    let device = base.device();
    let options = MountOptions {
        ialloc,
        ..MountOptions::default()
    };
    let fs = mount(device.clone(), options);
    (device, fs)
}

/// Runs `work` in a thread for each directory, and waits for them.
fn in_each_dir<T: Send + 'static>(
    fs: &Arc<Ext4>,
    work: impl Fn(&Ext4, &str) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let threads = DIRS.map(|name| {
        let (fs, work) = (Arc::clone(fs), work.clone());
        thread::spawn(move || work(&fs, name))
    });
    let joined = threads.into_iter().map(|t| t.join().expect("no panic"));
    joined.collect()
}

/// Whether the group's descriptor says that it has no inode bitmap yet.
fn is_unused(fs: &Ext4, group: GroupNo) -> bool {
    let geometry = fs.volume.geometry();
    let (block, at) = geometry.group_desc_location(group);
    let mut bytes = vec![0; usize::from(geometry.desc_size)];
    let offset = geometry.block_offset(block) + at as u64;
    fs.volume
        .device()
        .read_at(offset, &mut bytes)
        .expect("read");
    let desc = GroupDesc::decode(&bytes).expect("decode");
    desc.flags.contains(GroupFlags::INODE_UNINIT)
}

/// What is on the device is consistent, and has as many inodes more as there are live.
fn assert_used(device: &MemoryDevice, base: &Base, live: &Live) {
    let report = assert_clean(device);
    assert_eq!(report.inodes_used, base.inodes_used + live.count());
}

/// Threads create in directories of one group; one unlinks what is closed, one what is open.
fn create_and_unlink(base: &Base, variant: IallocVariant) {
    let (device, fs) = mount_variant(base, variant);
    let live = Arc::new(Live::default());
    let seen = Arc::clone(&live);
    in_each_dir(&fs, move |fs, name| {
        let root = Caller::root();
        let dir = file_system::dir(fs, name);
        let make = |file: &[u8]| {
            let made = fs.namei.create(&root, &dir, file, &FILE).expect("create");
            seen.created(&made);
            made
        };
        let first = make(b"1");
        let second = make(b"2");
        if name == "c" {
            return;
        }
        seen.unlinking(&first);
        if name == "a" {
            drop(first);
        }
        fs.namei.unlink(&root, &dir, b"1").expect("unlink");
        drop(make(b"3"));
        drop(second);
    });
    fs.unmount().expect("unmount");
    assert_used(&device, base, &live);
}

/// One number is free: one of three takers gets it, the others hear that there is none.
fn last_inode(base: &Base, variant: IallocVariant) {
    assert_eq!(base.inodes_free, 1);
    let (device, fs) = mount_variant(base, variant);
    let live = Arc::new(Live::default());
    let seen = Arc::clone(&live);
    let won = in_each_dir(&fs, move |fs, name| {
        let dir = file_system::dir(fs, name);
        let kind = if name == "c" { &DIR } else { &FILE };
        match fs.namei.create(&Caller::root(), &dir, b"new", kind) {
            Ok(made) => {
                seen.created(&made);
                true
            }
            Err(Ext4Error::NoInode) => false,
            Err(why) => panic!("{why}"),
        }
    });
    assert_eq!(won.into_iter().filter(|won| *won).count(), 1);
    fs.unmount().expect("unmount");
    assert_used(&device, base, &live);
}

/// One number is free, and goes from hand to hand.
fn last_inode_again(base: &Base, variant: IallocVariant) {
    let (device, fs) = mount_variant(base, variant);
    let live = Arc::new(Live::default());
    let seen = Arc::clone(&live);
    in_each_dir(&fs, move |fs, name| {
        let root = Caller::root();
        let dir = file_system::dir(fs, name);
        for keep in [false, true] {
            match fs.namei.create(&root, &dir, b"new", &FILE) {
                Ok(made) => {
                    seen.created(&made);
                    if !keep {
                        seen.unlinking(&made);
                        drop(made);
                        fs.namei.unlink(&root, &dir, b"new").expect("unlink");
                    }
                }
                Err(Ext4Error::NoInode) => {}
                Err(why) => panic!("{why}"),
            }
        }
    });
    assert!(live.count() <= 1);
    fs.unmount().expect("unmount");
    assert_used(&device, base, &live);
}

/// The parents' group is full, and the next was never used: threads load its bitmap, make it and
/// claim in it at once, and a commit closes among them.
fn unused_group(base: &Base, variant: IallocVariant) {
    let (device, fs) = mount_variant(base, variant);
    let first_full = base.inodes_free == u64::from(fs.volume.geometry().inodes_per_group);
    assert_eq!(
        is_unused(&fs, GroupNo(fs.volume.geometry().groups_count - 1)),
        first_full
    );
    let live = Arc::new(Live::default());
    let seen = Arc::clone(&live);
    in_each_dir(&fs, move |fs, name| {
        let dir = file_system::dir(fs, name);
        let kind = if name == "c" { &DIR } else { &FILE };
        let made = fs.namei.create(&Caller::root(), &dir, b"1", kind);
        seen.created(&made.expect("create"));
        if name == "a" {
            fs.sync().expect("sync");
        }
        let made = fs.namei.create(&Caller::root(), &dir, b"2", &FILE);
        seen.created(&made.expect("create"));
    });
    fs.unmount().expect("unmount");
    assert_used(&device, base, &live);
}

#[test]
fn shuttle_create_and_unlink() {
    explore_variants(SMALL, create_and_unlink);
}

/// Groups with room, whose bitmaps are on disk and not loaded: as above, but what is loaded is read.
#[test]
fn shuttle_unloaded_group() {
    explore_variants(SMALL, unused_group);
}

#[test]
fn shuttle_last_inode() {
    explore_variants(FULL, last_inode);
}

#[test]
fn shuttle_last_inode_again() {
    explore_variants(FULL, last_inode_again);
}

#[test]
fn shuttle_unused_group() {
    explore_variants(FIRST_GROUP_FULL, unused_group);
}
