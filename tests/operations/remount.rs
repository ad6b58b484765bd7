//! Options that change while a file system is in use: read-only means a clean image that nothing changes, and what was
//! durable before stays so.

use uext4_testkit::device::fault::{FaultCall, FaultDevice, FaultErrno, FaultPlan, FaultRule};
use uext4_testkit::prelude::*;

fn mount(device: &Arc<MemoryDevice>, options: MountOptions) -> Arc<Ext4> {
    Ext4::mount(Arc::clone(device) as _, options).expect("mounts")
}

fn create(fs: &Ext4, name: &str) -> uext4_vfs::Result<InodeRef> {
    let new = NewNode {
        mode: 0o644,
        kind: NewKind::Regular,
    };
    let root = fs.top();
    FileSystem::create(fs, &Caller::root(), &root, name.as_bytes(), &new)
}

fn read_only(value: bool) -> MountOptions {
    with(|o: &mut MountOptions| o.read_only = value)
}

/// What is on the device now is as after an unmount.
fn assert_clean(device: &MemoryDevice) {
    let sb = uext4_ext4::read_superblock(device).expect("a superblock");
    assert!(!sb.incompat.contains(Incompat::RECOVER));
    oracle::fsck_device(device).expect("clean");
}

#[test]
fn read_only_is_clean_and_writable_again_recovers() {
    let no_journal = Shape {
        name: "no journal",
        mke2fs: Some("-t ext4 -O ^has_journal -I 256"),
        ..Shape::DEFAULT
    };
    for shape in [Shape::DEFAULT, no_journal] {
        let device = Arc::new(shape.make().expect("an image"));
        let fs = mount(&device, MountOptions::default());
        let file = create(&fs, "f").expect("makes it");
        FileSystem::write(&*fs, &file, 0, b"before").expect("writes");
        for round in 0..3 {
            fs.remount(&read_only(true)).expect("becomes read-only");
            assert!(fs.volume.is_read_only());
            assert_clean(&device);
            let refused = FileSystem::write(&*fs, &file, 0, b"refused");
            assert_eq!(refused.map_err(|e| e.errno()), Err(Errno::EROFS));
            let refused = create(&fs, "g").map(drop);
            assert_eq!(refused.map_err(|e| e.errno()), Err(Errno::EROFS));
            let mut data = [0; 6];
            FileSystem::read(&*fs, &file, 0, &mut data).expect("reads");
            assert_eq!(&data, b"before");
            FileSystem::fsync(&*fs, &file, false).expect("has nothing to do");
            fs.remount(&read_only(true)).expect("is so already");
            fs.remount(&read_only(false)).expect("becomes writable");
            let name = format!("round{round}");
            let made = create(&fs, &name).expect("makes it");
            FileSystem::fsync(&*fs, &made, false).expect("durable");
        }
        fs.crash();
        drop((file, fs));
        if shape.name == no_journal.name {
            continue;
        }
        let fs = mount(&device, MountOptions::default());
        for round in 0..3 {
            let root = fs.top();
            let name = format!("round{round}");
            FileSystem::lookup(&*fs, &Caller::root(), &root, name.as_bytes()).expect("recovered");
        }
        fs.unmount().expect("unmounts");
        assert_clean(&device);
    }
}

#[test]
fn what_runs_beside_a_remount_is_done_or_refused() {
    let device = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let options = with(|o: &mut MountOptions| o.atime = AtimeUpdate::Strict);
    let fs = mount(&device, options.clone());
    let (stop, made) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (fs, stop, made) = (&fs, &stop, &made);
            scope.spawn(move || {
                let refused = |e: uext4_vfs::Error| assert_eq!(e.errno(), Errno::EROFS);
                let root = fs.top();
                let mut own = None;
                for n in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    FileSystem::readdir(&**fs, &Caller::root(), &root, 0, &mut |_| true)
                        .expect("lists");
                    let name = format!("{thread}");
                    match create(fs, &name) {
                        Ok(file) => {
                            made.fetch_add(1, Ordering::Relaxed);
                            own = Some(file);
                        }
                        Err(e) if own.is_some() && e.errno() == Errno::EEXIST => {}
                        Err(e) => refused(e),
                    }
                    if let Some(file) = &own {
                        let written = FileSystem::write(&**fs, file, n % 50 * 1000, &[7; 5000]);
                        let _ = written.map(drop).map_err(refused);
                    }
                    // One thread alone: while a file has lost its name, nothing becomes read-only.
                    if thread == 0 && own.take().is_some() {
                        let user = Caller::root();
                        let removed = FileSystem::unlink(&**fs, &user, &root, name.as_bytes());
                        if removed.map_err(refused).is_err() {
                            own = FileSystem::lookup(&**fs, &user, &root, name.as_bytes()).ok();
                        }
                    }
                }
            });
        }
        let mut rounds = 0;
        while rounds < env_number("UEXT4_REMOUNTS", 20) {
            let wanted = MountOptions {
                read_only: true,
                ..options.clone()
            };
            match fs.remount(&wanted) {
                Ok(()) => {
                    let snapshot = MemoryDevice::clone(&device);
                    assert_clean(&snapshot);
                    fs.remount(&options).expect("becomes writable");
                    rounds += 1;
                    let before = made.load(Ordering::Relaxed);
                    while made.load(Ordering::Relaxed) == before {
                        std::thread::yield_now();
                    }
                }
                // A file has just lost its name.
                Err(e) => assert_eq!(e.errno(), Errno::EBUSY, "{e}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    fs.unmount().expect("unmounts");
    assert_clean(&device);
}

#[test]
fn what_a_remount_can_not_do_is_refused_and_changes_nothing() {
    let device = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let fs = mount(&device, MountOptions::default());
    let errno = |wanted: &MountOptions| fs.remount(wanted).map_err(|e| e.errno());
    let other_cache = MountOptions {
        cache_bytes: 1 << 20,
        ..read_only(true)
    };
    assert_eq!(errno(&other_cache), Err(Errno::EINVAL));
    assert!(!fs.volume.is_read_only());
    let nameless = FileSystem::tmpfile(&*fs, &Caller::root(), &fs.top(), 0o600);
    assert_eq!(errno(&read_only(true)), Err(Errno::EBUSY));
    assert!(!fs.volume.is_read_only());
    drop(nameless);
    assert_eq!(errno(&read_only(true)), Ok(()));
    fs.unmount().expect("unmounts");
    assert_clean(&device);
    let fs = mount(&device, read_only(true));
    let refused = fs.remount(&read_only(false)).map_err(|e| e.errno());
    assert_eq!(refused, Err(Errno::EROFS), "nothing was opened for writing");
    fs.unmount().expect("unmounts");
}

#[test]
fn after_a_device_that_failed_it_stays_as_it_is() {
    let memory = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let plan = FaultPlan::new();
    let device = FaultDevice::new(Arc::clone(&memory), plan.clone());
    let fs = Ext4::mount(Arc::new(device), MountOptions::default()).expect("mounts");
    let file = create(&fs, "f").expect("makes it");
    FileSystem::fsync(&*fs, &file, false).expect("durable");
    create(&fs, "g").expect("makes it");
    plan.add(FaultRule::new(FaultCall::Write));
    fs.remount(&read_only(true)).expect_err("the device fails");
    plan.clear();
    // The journal was aborted: neither way is it as if nothing had been.
    assert!(create(&fs, "h").is_err());
    fs.remount(&read_only(false)).expect_err("is damaged");
    FileSystem::fsync(&*fs, &file, false).expect_err("not after an abort");
    fs.unmount().expect_err("needs recovery");
    drop((file, fs));
    let fs = mount(&memory, MountOptions::default());
    let root = fs.top();
    FileSystem::lookup(&*fs, &Caller::root(), &root, b"f").expect("recovered");
    fs.unmount().expect("unmounts");
    assert_clean(&memory);
}

#[test]
fn on_a_full_host_it_stays_writable() {
    let memory = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let plan = FaultPlan::new();
    let device = FaultDevice::new(Arc::clone(&memory), plan.clone());
    let fs = Ext4::mount(Arc::new(device), MountOptions::default()).expect("mounts");
    create(&fs, "f").expect("makes it");
    // Inode tables and bitmaps, and not the log.
    let in_place = FaultRule::new(FaultCall::Write).within(4096..500 << 10);
    plan.add(in_place.errno(FaultErrno::NoSpace));
    let refused = fs.remount(&read_only(true)).map_err(|e| e.errno());
    assert_eq!(refused, Err(Errno::ENOSPC));
    assert!(!fs.volume.is_read_only());
    create(&fs, "g").expect("continues");
    plan.clear();
    let file = create(&fs, "h").expect("makes it");
    FileSystem::fsync(&*fs, &file, false).expect("durable");
    drop(file);
    fs.remount(&read_only(true)).expect("becomes read-only");
    assert_clean(&memory);
    fs.unmount().expect("unmounts");
}

#[test]
fn times_follow_the_options_of_the_moment() {
    let device = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let fs = mount(&device, MountOptions::default());
    let root = fs.top();
    let file = create(&fs, "f").expect("makes it");
    FileSystem::write(&*fs, &file, 0, b"data").expect("writes");
    let atime_changes = |node: &InodeRef| {
        let atime = || FileSystem::getattr(&*fs, node).expect("there").atime;
        let before = atime();
        // Longer than the clock of timestamps stands still.
        std::thread::sleep(Duration::from_millis(15));
        match node.is_dir() {
            true => FileSystem::readdir(&*fs, &Caller::root(), node, 0, &mut |_| true),
            false => FileSystem::read(&*fs, node, 0, &mut [0; 4]).map(drop),
        }
        .expect("reads");
        atime() != before
    };
    let with = |atime, nodiratime, lazytime| MountOptions {
        atime,
        nodiratime,
        lazytime,
        ..MountOptions::default()
    };
    for (options, of_file, of_dir) in [
        (with(AtimeUpdate::Strict, false, false), true, true),
        (with(AtimeUpdate::Strict, true, false), true, false),
        (with(AtimeUpdate::Never, false, false), false, false),
        (with(AtimeUpdate::Strict, false, true), true, true),
    ] {
        fs.remount(&options).expect("changes");
        assert_eq!(atime_changes(&file), of_file, "{options:?}");
        assert_eq!(atime_changes(&root), of_dir, "{options:?}");
    }
    assert!(fs.table.has_pending_times(&file), "lazily");
    fs.remount(&MountOptions::default()).expect("changes");
    assert!(
        !fs.table.has_pending_times(&file),
        "written when lazytime ends"
    );
    drop((root, file));
    fs.unmount().expect("unmounts");
    assert_clean(&device);
}
