//! Changes and look-ups in one directory, schedule by schedule: leaves are split beside both, and numbers of inodes come again.
use crate::file_system::{Base, DIR, FILE, Shape, assert_clean, dir, explore_part, mount};
use shuttle::thread;
use uext4_testkit::prelude::*;

/// Blocks of 1 KiB, so that few names fill a leaf; few inodes, so that their numbers come again at once.
const SMALL: Shape = Shape {
    bytes: 3 << 20,
    inodes: 64,
    files: 0,
    features: "",
};

/// Bytes of a name: seven fill a leaf.
const NAME_BYTES: usize = 120;
/// Names in the directory before.
const NAMES: usize = 12;

fn name(i: usize) -> Vec<u8> {
    format!("{i:0>NAME_BYTES$}").into_bytes()
}

/// A directory `a` with a tree of hashes and leaves that are nearly full.
fn fill(device: &Arc<MemoryDevice>) {
    let fs = mount(device.clone(), MountOptions::default());
    let dir = dir(&fs, "a");
    for i in 0..NAMES {
        fs.make(&dir, &name(i), &FILE);
    }
    assert!(dir.flags().contains(InodeFlags::INDEX));
    drop(dir);
    fs.unmount().expect("unmount");
}

/// Runs `work` in a thread for each number, and verifies what is left.
fn explore_one(threads: usize, work: fn(&Ext4, &InodeRef, usize)) {
    let base = Base::make_used(SMALL, fill);
    for dir_lock in DirLockVariant::ALL {
        let base = Arc::clone(&base);
        explore_part(2, move || {
            let device = base.device();
            let options = MountOptions {
                dir_lock,
                ..MountOptions::default()
            };
            let fs = mount(device.clone(), options);
            let threads: Vec<_> = (0..threads)
                .map(|t| {
                    let fs = Arc::clone(&fs);
                    thread::spawn(move || work(&fs, &dir(&fs, "a"), t))
                })
                .collect();
            for t in threads {
                t.join().expect("no panic");
            }
            fs.unmount().expect("unmount");
            assert_clean(&*device);
        });
    }
}

/// Each makes names, finds those of before and its own, and one lists.
#[test]
fn leaves_are_split_beside_look_ups() {
    explore_one(3, |fs, dir, t| {
        if t == 2 {
            let names = uext4_testkit::tree::names(fs, dir, 1000).expect("lists");
            for i in 0..NAMES {
                let listed = names.iter().filter(|listed| **listed == name(i)).count();
                assert_eq!(listed, 1, "name {i}");
            }
            return;
        }
        for i in 0..4 {
            let new = name(100 * (t + 1) + i);
            let made = fs.make(dir, &new, &FILE);
            assert_eq!(fs.get(dir, &new).ino, made.ino);
            drop(fs.get(dir, &name(i)));
        }
    });
}

/// All make the same name, remove it and make a directory of it: one at a time has it.
#[test]
fn one_name_is_one_thing() {
    explore_one(3, |fs, dir, _| {
        let (me, same) = (Caller::root(), name(500));
        let made = match fs.namei.create(&me, dir, &same, &FILE) {
            Ok(made) => made,
            Err(why) => {
                assert!(matches!(why, Ext4Error::Exists), "{why}");
                return;
            }
        };
        assert_eq!(fs.get(dir, &same).ino, made.ino);
        fs.remove(dir, &same);
        drop(made);
        if fs.namei.create(&me, dir, &same, &DIR).is_ok() {
            fs.remove_dir(dir, &same);
        }
    });
}

/// A name is looked up while it goes and its inode becomes another's: it is found as what it was, or not at all.
#[test]
fn a_look_up_never_finds_what_another_name_has() {
    explore_one(3, |fs, dir, t| {
        let me = Caller::root();
        match t {
            0 => fs.remove(dir, &name(3)),
            1 => drop(fs.make(dir, &name(600), &DIR)),
            _ => match fs.namei.lookup(&me, dir, &name(3)) {
                Ok(found) => assert!(!found.is_dir(), "another's inode"),
                Err(why) => assert!(matches!(why, Ext4Error::NotFound), "{why}"),
            },
        }
    });
}
