//! Lazy timestamps: they stay in memory until one of five reasons writes them.

use crate::*;
use uext4_vfs::attr::Timestamp;

const OLD: TimeSet = TimeSet::At(Timestamp { sec: 1000, nsec: 0 });

fn options(icache: IcacheVariant) -> MountOptions {
    MountOptions {
        icache,
        lazytime: true,
        // Whatever CPU the test runs on, its inodes are neighbours.
        ialloc: IallocVariant::RetryLocked,
        ..MountOptions::default()
    }
}

fn set_old(fs: &Ext4, file: &InodeRef) {
    let change = with(|o: &mut SetAttr| (o.atime, o.mtime) = (Some(OLD), Some(OLD)));
    fs.files
        .setattr(&Caller::root(), file, &change)
        .expect("setattr");
}

/// Two files in one block of the inode table, both with a block and old times, durably.
fn two_files(fs: &Ext4) -> (InodeRef, InodeRef) {
    let top = fs.top();
    let make = |name: &[u8]| {
        let file = fs.make(&top, name, &FILE);
        fs.put(&file, 0, &[1; 4096]);
        set_old(fs, &file);
        file
    };
    let files = (make(b"a"), make(b"b"));
    assert_eq!((files.0.ino.0 - 1) / 16, (files.1.ino.0 - 1) / 16);
    fs.sync().expect("sync");
    files
}

/// What the mtime of `a` is after a crash that keeps what the journal has now.
fn mtime_after_crash(fs: Arc<Ext4>, path: &Path) -> i64 {
    fs.volume.journal().sync().expect("commit");
    fs.crash();
    drop(fs);
    let fs = mount(path, MountOptions::default());
    let file = fs.get(&fs.top(), b"a");
    let time = fs.attributes.attr(&file).mtime.sec;
    drop(file);
    fs.unmount().expect("unmount");
    drop(fs);
    fsck(path);
    time
}

/// Makes a timestamp pending, gives `reason` its chance, and says whether it was written.
fn is_written(options: MountOptions, reason: impl FnOnce(&Arc<Ext4>, InodeRef, &InodeRef)) -> bool {
    let path = image("32M", "-b 4096 -I 256");
    let fs = mount(&path, options);
    let (a, b) = two_files(&fs);
    fs.put(&a, 0, b"overwritten");
    assert!(fs.attributes.attr(&a).mtime.sec > 1000, "visible at once");
    reason(&fs, a, &b);
    drop(b);
    mtime_after_crash(fs, &path) > 1000
}

#[test]
fn without_a_reason_it_stays_in_memory() {
    for variant in IcacheVariant::ALL {
        assert!(!is_written(options(variant), |_, _, _| ()), "{variant}");
    }
    let eager = MountOptions::default();
    assert!(is_written(eager, |_, _, _| ()), "without lazytime");
}

#[test]
fn writing_the_inode_writes_it() {
    for variant in IcacheVariant::ALL {
        assert!(is_written(options(variant), |fs, a, _| {
            let change = with(|o: &mut SetAttr| o.mode = Some(0o600));
            fs.files
                .setattr(&Caller::root(), &a, &change)
                .expect("chmod");
        }));
    }
}

#[test]
fn writing_a_neighbour_writes_it() {
    for variant in IcacheVariant::ALL {
        assert!(
            is_written(options(variant), |fs, _, b| {
                let change = with(|o: &mut SetAttr| o.mode = Some(0o600));
                fs.files
                    .setattr(&Caller::root(), b, &change)
                    .expect("chmod");
            }),
            "{variant}"
        );
        assert!(is_written(options(variant), |fs, _, _| {
            let top = fs.top();
            fs.make(&top, b"c", &FILE);
        }));
    }
}

#[test]
fn a_sync_writes_it() {
    for variant in IcacheVariant::ALL {
        assert!(is_written(options(variant), |fs, a, _| {
            fs.files.fsync(&a, false).expect("fsync");
        }));
        assert!(is_written(options(variant), |fs, _, _| {
            fs.sync().expect("sync");
        }));
        assert!(!is_written(options(variant), |fs, a, _| {
            fs.files.fsync(&a, true).expect("fdatasync");
        }));
    }
}

#[test]
fn eviction_writes_it() {
    for variant in IcacheVariant::ALL {
        let options = MountOptions {
            inodes_max: 8,
            ..options(variant)
        };
        assert!(
            is_written(options, |fs, a, _| {
                drop(a);
                let top = fs.top();
                // From block 2 of the inode table on, so that no neighbour is written.
                for i in 0..32 {
                    let name = format!("g{i}");
                    fs.make(&top, &name, &FILE);
                }
                // Another clock tick, or the times do not change.
                std::thread::sleep(Duration::from_millis(20));
                fs.put(&fs.get(&top, b"a"), 0, b"again");
                assert!(fs.table.has_pending_times(&fs.get(&top, b"a")));
                let dir = fs.make(&top, b"far", &DIR);
                for i in 0..400 {
                    let name = format!("f{i}");
                    fs.make(&dir, &name, &FILE);
                }
            }),
            "{variant}"
        );
    }
}

#[test]
fn age_writes_it() {
    for variant in IcacheVariant::ALL {
        let options = MountOptions {
            lazytime_max_age: Duration::from_millis(20),
            ..options(variant)
        };
        assert!(is_written(options, |fs, a, _| {
            while fs.table.has_pending_times(&a) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }));
    }
}

#[test]
fn unmounting_writes_it() {
    let path = image("32M", "-b 4096 -I 256");
    let fs = mount(&path, options(IcacheVariant::PerBucket));
    let (a, b) = two_files(&fs);
    fs.put(&a, 0, b"overwritten");
    drop((a, b));
    path.end(fs);
    let fs = path.mount();
    assert!(mtime_after_crash(fs, &path) > 1000);
}

#[test]
fn a_deleted_inode_is_not_written_over_the_next() {
    for variant in IcacheVariant::ALL {
        let path = image("32M", "-b 4096 -I 256");
        let fs = mount(&path, options(variant));
        let top = fs.top();
        let (a, _b) = two_files(&fs);
        let number = a.ino;
        fs.put(&a, 0, b"pending");
        drop(a);
        fs.remove(&top, b"a");
        let next = fs.make(&top, b"a", &DIR);
        assert_eq!(next.ino, number, "the number is used again");
        drop((next, top, _b));
        fs.sync().expect("sync");
        path.end(fs);
    }
}

#[test]
fn reading_follows_the_rule_for_access_times() {
    for (rule, lazytime) in [
        (AtimeUpdate::Relative, false),
        (AtimeUpdate::Relative, true),
        (AtimeUpdate::Strict, true),
        (AtimeUpdate::Never, false),
    ] {
        let path = image("32M", "-b 4096 -I 256");
        let options = MountOptions {
            atime: rule,
            lazytime,
            ..options(IcacheVariant::PerBucket)
        };
        let fs = mount(&path, options);
        let (a, b) = two_files(&fs);
        let atime = |file: &InodeRef| fs.attributes.attr(file).atime;
        let mut data = [0; 10];
        fs.files.read(&a, 0, &mut data).expect("read");
        assert_eq!(atime(&a).sec > 1000, rule != AtimeUpdate::Never, "{rule:?}");
        // Read again: the time of the first reading is after the last change and not a day old.
        let change = SetAttr {
            mtime: Some(OLD),
            ctime: Some(OLD),
            atime: Some(TimeSet::At(Timestamp {
                sec: fs.attributes.attr(&a).ctime.sec - 60,
                nsec: 0,
            })),
            ..SetAttr::default()
        };
        fs.files
            .setattr(&Caller::root(), &a, &change)
            .expect("setattr");
        let before = atime(&a);
        fs.files.read(&a, 0, &mut data).expect("read");
        assert_eq!(atime(&a) != before, rule == AtimeUpdate::Strict, "{rule:?}");
        drop((a, b));
        path.end(fs);
    }
}
