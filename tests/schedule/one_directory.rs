//! Changes and look-ups in one directory, schedule by schedule: leaves are split beside both, and numbers of inodes come again.
use crate::file_system::{Base, DIR, FILE, Shape, assert_clean, dir, explore_part, mount};
use shuttle::thread;
use uext4_testkit::prelude::*;
use uext4_vfs::walk::WalkFlags;

/// Blocks of 1 KiB, so that few names fill a leaf; few inodes, so that their numbers come again at once.
const SMALL: Shape = Shape {
    bytes: 3 << 20,
    inodes: 64,
    files: 0,
    features: "",
};

/// Bytes of a name: seven fill a leaf.
const NAME_BYTES: usize = 120;
/// Names in the directory before, and in the one below it.
const NAMES: usize = 12;
const CHILD: &str = "child";

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
    let below = fs.make(&dir, CHILD, &DIR);
    for i in 0..NAMES {
        fs.make(&below, &name(i), &FILE);
    }
    for dir in [dir, below] {
        assert!(dir.flags().contains(InodeFlags::INDEX));
    }
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

/// All search for the same name, which may be known not to exist then, make it, remove it and make a directory of it: one at a time has it.
#[test]
fn one_name_is_one_thing() {
    explore_one(3, |fs, dir, _| {
        let (me, same) = (Caller::root(), name(500));
        if let Err(why) = fs.namei.lookup(&me, dir, &same) {
            assert!(matches!(why, Ext4Error::NotFound), "{why}");
        }
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

/// Files move between a directory and one below, which another thread tries to remove: no thread waits for ever.
#[test]
fn renames_of_files_beside_the_removal_of_a_directory() {
    explore_one(3, |fs, dir, t| {
        let (me, flags) = (Caller::root(), RenameFlags::empty());
        let below = fs.get(dir, CHILD);
        let rename = |from: (&InodeRef, usize), to: (&InodeRef, usize)| {
            let (old, new) = (name(from.1), name(to.1));
            let done = fs.namei.rename(&me, from.0, &old, to.0, &new, flags);
            done.expect("renames");
        };
        match t {
            0 => (0..3).for_each(|i| rename((&below, i), (dir, 700 + i))),
            1 => (3..6).for_each(|i| rename((dir, i), (&below, 700 + i))),
            _ => {
                let done = fs.namei.rmdir(&me, dir, CHILD.as_bytes());
                assert!(matches!(done, Err(Ext4Error::NotEmpty)), "{done:?}");
            }
        }
    });
}

/// Two names are exchanged: a thread that finds the new one first does not find the old second.
#[test]
fn an_exchange_is_one_change() {
    explore_one(2, |fs, dir, t| {
        let (a, b) = (name(1), name(2));
        if t == 0 {
            let (me, flags) = (Caller::root(), RenameFlags::EXCHANGE);
            let done = fs.namei.rename(&me, dir, &a, dir, &b, flags);
            return done.expect("exchanges");
        }
        let (first, second) = (fs.get(dir, &a).ino, fs.get(dir, &b).ino);
        let later = (fs.get(dir, &a).ino, fs.get(dir, &b).ino);
        assert!(first != second || first == later.1, "between the two");
    });
}

/// A directory goes, and one that the user may not search gets its number: no path through the first leads into the second.
#[test]
fn a_path_never_leads_into_a_later_directory() {
    explore_one(2, |fs, dir, t| {
        let walk = |path: &[u8]| {
            let user = Caller::user(1000, 1000);
            let found = uext4_vfs::walk::resolve(fs, &user, None, path, WalkFlags::FOLLOW_LAST);
            assert!(found.is_err(), "another's file");
        };
        if t == 1 {
            return walk(b"a/passed/file");
        }
        drop(fs.make(dir, "passed", &DIR));
        walk(b"a/passed/file");
        fs.remove_dir(dir, b"passed");
        let secret = fs.make(dir, "secret", &NewNode { mode: 0o700, ..DIR });
        let file = fs.make(&secret, "file", &FILE);
        assert_eq!(fs.get(&secret, b"file").ino, file.ino);
        drop(file);
        walk(b"a/secret/file");
    });
}
