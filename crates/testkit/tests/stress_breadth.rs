//! Several threads on one inode and on one directory, with what decides how data and attributes are kept changing
//! beneath them. `UEXT4_STRESS` sets how many rounds.

use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uext4_block::{BlockDevice, Cut, RecordDevice};
use uext4_ext4::{DataMode, Ext4, InodeRef};
use uext4_ondisk::InodeFlags;
use uext4_testkit::aligned::Aligned;
use uext4_testkit::crash::{Plan, examine, record};
use uext4_testkit::image::{Shape, mount, mount_as, mount_in};
use uext4_testkit::{env_number, oracle};
use uext4_vfs::attr::{NewKind, NewNode, RenameFlags, SetAttr, XattrFlags};
use uext4_vfs::caller::Caller;
use uext4_vfs::errno::Errno;
use uext4_vfs::filesystem::FileSystem;
use uext4_vfs::io::{Fallocate, IoFlags};

fn make(fs: &Ext4, dir: &InodeRef, name: &[u8], kind: NewKind<'_>) -> Result<InodeRef, Errno> {
    let new = NewNode { mode: 0o755, kind };
    FileSystem::create(fs, &Caller::root(), dir, name, &new).map_err(|e| e.errno())
}

fn journal(fs: &Ext4, file: &InodeRef, on: bool) {
    let flags = fs.flags(file);
    let flags = match on {
        true => flags | InodeFlags::JOURNAL_DATA,
        false => flags - InodeFlags::JOURNAL_DATA,
    };
    fs.set_flags(&Caller::root(), file, flags).expect("is set");
}

/// A file whose blocks each hold a version; what was written last is what is read, and what was synced survives.
#[test]
fn data_goes_one_way_or_the_other() {
    for round in 0..env_number("UEXT4_STRESS", 3) {
        let shape = Shape::SMALL_JOURNAL[round as usize % 2];
        let size = u64::from(shape.block_size);
        let inner = shape.make().expect("an image");
        let device = Arc::new(RecordDevice::new(inner).expect("records"));
        let fs = mount_as(Arc::clone(&device) as Arc<dyn BlockDevice>, round + 1).expect("mounts");
        let root = fs.root().expect("there");
        let file = make(&fs, &root, b"f", NewKind::Regular).expect("is made");
        const BLOCKS: usize = 16;
        let versions: Vec<AtomicU64> = (0..BLOCKS).map(|_| AtomicU64::new(0)).collect();
        let stop = AtomicBool::new(false);
        let synced = std::sync::Mutex::new(Vec::<Vec<u64>>::new());
        std::thread::scope(|scope| {
            let (fs, file, root, versions, stop, device, synced) =
                (&*fs, &file, &root, &versions, &stop, &device, &synced);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(round);
                while !stop.load(Ordering::Relaxed) {
                    journal(fs, file, rng.bool());
                    if rng.u8(..4) == 0 {
                        let name = format!("other{}", rng.u8(..20));
                        let target = vec![b'y'; 200];
                        let _ = make(fs, root, name.as_bytes(), NewKind::Symlink(&target));
                        let name = format!("other{}", rng.u8(..20));
                        let _ = FileSystem::unlink(fs, &Caller::root(), root, name.as_bytes());
                    }
                }
            });
            scope.spawn(move || {
                let mut rng = Rng::with_seed(round + 100);
                let mut data = Aligned::new(size as usize);
                let data = data.bytes_mut();
                while !stop.load(Ordering::Relaxed) {
                    let block = rng.usize(..BLOCKS);
                    let before = versions[block].load(Ordering::SeqCst);
                    let flags = match rng.bool() {
                        true => IoFlags::DIRECT,
                        false => IoFlags::empty(),
                    };
                    let n = fs
                        .read_with(file, block as u64 * size, data, flags)
                        .expect("reads");
                    let after = versions[block].load(Ordering::SeqCst);
                    if n == 0 {
                        assert!(before <= 1);
                        continue;
                    }
                    let got = u64::from_le_bytes(data[..8].try_into().unwrap());
                    // A version is announced before it is written.
                    assert!(
                        got + 1 >= before && got <= after || got == 0 && block == 0,
                        "block {block}: {got}, not {before}..={after}"
                    );
                }
            });
            let mut rng = Rng::with_seed(round + 200);
            let mut data = Aligned::new(size as usize);
            let data = data.bytes_mut();
            let mut done = vec![0u64; BLOCKS];
            for step in 0..400 {
                let block = rng.usize(..BLOCKS);
                let version = done[block] + 1;
                versions[block].store(version, Ordering::SeqCst);
                data.fill(version as u8);
                data[..8].copy_from_slice(&version.to_le_bytes());
                let at = block as u64 * size;
                match rng.u8(..8) {
                    0 if block == 0 => {
                        fs.fallocate(file, Fallocate::ZeroRangeKeepSize, at, size)
                            .expect("is zeroed");
                        fs.write(file, at, data, true).expect("writes");
                    }
                    1..4 => {
                        fs.write_with(file, at, data, IoFlags::DIRECT, true)
                            .expect("writes");
                    }
                    4 => {
                        fs.write(file, at, &data[..100], true).expect("writes");
                    }
                    _ => {
                        fs.write(file, at, data, true).expect("writes");
                    }
                }
                done[block] = version;
                if step % 20 == 19 {
                    fs.fsync(file, rng.bool()).expect("syncs");
                    let mut synced = synced.lock().unwrap();
                    synced.push(done.clone());
                    device.mark(synced.len() as u64);
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        drop((file, root));
        let log = device.log();
        let mut rng = Rng::with_seed(round);
        let mut replayer = log.replayer();
        let mut places: Vec<usize> = (0..25)
            .map(|_| rng.usize(log.ops.len() / 8..log.ops.len()))
            .collect();
        places.push(log.ops.len());
        places.sort_unstable();
        let synced = synced.lock().unwrap();
        for at in places {
            let cut = Cut::at(at).seeded(rng.u64(..));
            let image = Arc::new(replayer.image_at(&cut));
            let marks = log.marks_before(&cut);
            let Some(mark) = marks.last() else { continue };
            let fs = mount(Arc::clone(&image) as Arc<_>).expect("recovers");
            let root = fs.root().expect("there");
            let file = FileSystem::lookup(&*fs, &Caller::root(), &root, b"f").expect("there");
            for (block, want) in synced[mark.value as usize - 1].iter().enumerate() {
                let mut bytes = [0; 8];
                fs.read(&file, block as u64 * size, &mut bytes)
                    .expect("reads");
                let got = u64::from_le_bytes(bytes);
                assert!(
                    got >= *want || got == 0 && block == 0,
                    "round {round}, {cut:?}, block {block}: {got}, not {want}"
                );
            }
            drop((file, root));
            fs.unmount().expect("unmounts");
            oracle::fsck_device(&image).expect("clean");
        }
    }
}

/// Small directories and files in inodes, that several threads fill, empty, move and give attributes.
#[test]
fn small_directories_are_moved_and_filled() {
    for round in 0..env_number("UEXT4_STRESS", 3) {
        let shapes = [
            Shape::INLINE[0],
            Shape::LARGE_VALUES[3],
            Shape::INLINE[2],
            Shape::INLINE[3],
        ];
        let shape = shapes[round as usize % shapes.len()];
        let device = Arc::new(shape.make().expect("an image"));
        let fs = mount_as(device.clone(), round + 1).expect("mounts");
        let root = fs.root().expect("there");
        for d in 0..4 {
            make(&fs, &root, format!("d{d}").as_bytes(), NewKind::Directory).expect("is made");
        }
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (fs, root) = (&*fs, &root);
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(round * 16 + thread);
                    let caller = Caller::root();
                    for _ in 0..800 {
                        let dir = format!("d{}", rng.u8(..4));
                        let Ok(dir) = FileSystem::lookup(fs, &caller, root, dir.as_bytes()) else {
                            continue;
                        };
                        let name = "n".repeat(rng.usize(1..20));
                        let name = name.as_bytes();
                        let node = FileSystem::lookup(fs, &caller, &dir, name);
                        match rng.u8(..12) {
                            0 => drop(make(fs, &dir, name, NewKind::Regular)),
                            1 | 2 => drop(make(fs, &dir, name, NewKind::Directory)),
                            3 => drop(FileSystem::unlink(fs, &caller, &dir, name)),
                            4 | 5 => drop(FileSystem::rmdir(fs, &caller, &dir, name)),
                            6 | 7 => {
                                let to = format!("d{}", rng.u8(..4));
                                let to = FileSystem::lookup(fs, &caller, root, to.as_bytes())
                                    .expect("there");
                                let flags = *rng
                                    .choice(&[
                                        RenameFlags::empty(),
                                        RenameFlags::EXCHANGE,
                                        RenameFlags::WHITEOUT,
                                    ])
                                    .unwrap();
                                let other = "n".repeat(rng.usize(1..20));
                                drop(FileSystem::rename(
                                    fs,
                                    &caller,
                                    &dir,
                                    name,
                                    &to,
                                    other.as_bytes(),
                                    flags,
                                ));
                            }
                            8 => {
                                if let Ok(node) = node {
                                    let value = vec![b'v'; rng.usize(..60)];
                                    drop(FileSystem::setxattr(
                                        fs,
                                        &caller,
                                        &node,
                                        b"user.a",
                                        &value,
                                        XattrFlags::empty(),
                                    ));
                                }
                            }
                            9 => {
                                if let Ok(node) = node {
                                    let name: &[u8] = *rng
                                        .choice(&[
                                            &b"system.posix_acl_default"[..],
                                            b"system.posix_acl_access",
                                        ])
                                        .unwrap();
                                    drop(FileSystem::setxattr(
                                        fs,
                                        &caller,
                                        &node,
                                        name,
                                        &acl(rng.u32(..6)),
                                        XattrFlags::empty(),
                                    ));
                                    let change = SetAttr {
                                        mode: Some(rng.u16(..0o1000)),
                                        ..SetAttr::default()
                                    };
                                    drop(FileSystem::setattr(fs, &caller, &node, &change));
                                }
                            }
                            10 => {
                                if let Ok(node) = node {
                                    let data = vec![b'd'; rng.usize(..200)];
                                    let flags = if rng.bool() {
                                        IoFlags::APPEND
                                    } else {
                                        IoFlags::empty()
                                    };
                                    drop(fs.write_with(&node, rng.u64(..100), &data, flags, true));
                                    drop(fs.truncate(&node, rng.u64(..150)));
                                }
                            }
                            _ => {
                                if let Ok(node) = node {
                                    let sub = make(fs, &node, b"sub", NewKind::Regular);
                                    drop(sub);
                                    drop(FileSystem::lookup(fs, &caller, &node, b".."));
                                    drop(FileSystem::unlink(fs, &caller, &node, b"sub"));
                                }
                            }
                        }
                    }
                });
            }
        });
        drop(root);
        fs.unmount().expect("unmounts");
        oracle::check(&*device).expect("clean");
        oracle::fsck_device(&device).expect("clean");
    }
}

fn acl(users: u32) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    let mut entry = |tag: u16, id: u32| {
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&7u16.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    };
    entry(1, u32::MAX);
    for user in 0..users {
        entry(2, 1000 + user);
    }
    entry(4, u32::MAX);
    entry(0x10, u32::MAX);
    entry(0x20, u32::MAX);
    value
}

/// Large values of several files come and go where there is hardly space.
#[test]
fn large_values_where_space_is_short() {
    for round in 0..env_number("UEXT4_STRESS", 3) {
        let shape = Shape {
            bytes: 24 << 20,
            ..Shape::LARGE_VALUES[[1usize, 3, 0][round as usize % 3]]
        };
        let device = Arc::new(shape.make().expect("an image"));
        let fs = mount_as(device.clone(), round + 1).expect("mounts");
        let root = fs.root().expect("there");
        for d in 0..4 {
            make(&fs, &root, format!("f{d}").as_bytes(), NewKind::Regular).expect("is made");
        }
        let full = make(&fs, &root, b"full", NewKind::Regular).expect("is made");
        let mut at = 0;
        while let Ok(n) = fs.write(&full, at, &vec![1; 64 << 10], true) {
            at += n as u64;
        }
        fs.truncate(&full, at - (300 << 10)).expect("cuts");
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let (fs, root) = (&*fs, &root);
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(round * 16 + thread);
                    let caller = Caller::root();
                    for _ in 0..300 {
                        let name = format!("f{}", rng.u8(..4));
                        let Ok(node) = FileSystem::lookup(fs, &caller, root, name.as_bytes())
                        else {
                            drop(make(fs, root, name.as_bytes(), NewKind::Regular));
                            continue;
                        };
                        let attr = format!("user.{}", rng.u8(..6));
                        let value = vec![
                            rng.u8(..);
                            *rng.choice(&[10, 100, 900, 5000, 30_000, 65_000]).unwrap()
                        ];
                        match rng.u8(..10) {
                            0..6 => drop(FileSystem::setxattr(
                                fs,
                                &caller,
                                &node,
                                attr.as_bytes(),
                                &value,
                                XattrFlags::empty(),
                            )),
                            6 => drop(FileSystem::removexattr(fs, &caller, &node, attr.as_bytes())),
                            7 => match FileSystem::getxattr(fs, &caller, &node, attr.as_bytes()) {
                                Ok(value) => assert!(value.iter().all(|b| *b == value[0])),
                                Err(why) => assert_eq!(why.errno(), Errno::ENODATA),
                            },
                            8 => drop(FileSystem::unlink(fs, &caller, root, name.as_bytes())),
                            _ => fs.sync().expect("syncs"),
                        }
                    }
                });
            }
        });
        drop((root, full));
        fs.unmount().expect("unmounts");
        oracle::check(&*device).expect("clean");
        oracle::fsck_device(&device).expect("clean");
    }
}

#[test]
fn power_lost_with_all_data_in_the_journal() {
    for seed in 0..env_number("UEXT4_STRESS", 3) {
        let shapes = [
            Shape::INLINE[1],
            Shape::LARGE_VALUES[1],
            Shape::INLINE[4],
            Shape::BLOCK_MAPPED[0],
        ];
        let plan = Plan {
            seed,
            shape: shapes[seed as usize % shapes.len()],
            data: Some(DataMode::Journal),
            threads: 2,
            operations: 100,
            direct_percent: if seed % 2 == 0 { 30 } else { 0 },
            cuts: 20,
            sample_permille: 50,
            kernel: false,
        };
        let recording = record(&plan).expect("agrees");
        examine(&plan, &recording).expect("survives");
    }
}

/// A journaled file with much behind its end, deleted where the journal is small.
#[test]
fn a_journaled_file_with_much_behind_its_end_goes() {
    let shape = Shape {
        bytes: 512 << 20,
        ..Shape::SMALL_JOURNAL[1]
    };
    let device = Arc::new(shape.make().expect("an image"));
    let fs = mount(device.clone()).expect("mounts");
    let root = fs.root().expect("there");
    let file = make(&fs, &root, b"f", NewKind::Regular).expect("is made");
    journal(&fs, &file, true);
    fs.write(&file, 0, b"x", true).expect("writes");
    fs.fallocate(&file, Fallocate::AllocateKeepSize, 0, 200 << 20)
        .expect("allocates");
    drop(file);
    let before = fs.journal().stats().overruns;
    FileSystem::unlink(&*fs, &Caller::root(), &root, b"f").expect("goes");
    let after = fs.journal().stats().overruns;
    drop(root);
    fs.unmount().expect("unmounts");
    oracle::fsck_device(&device).expect("clean");
    assert_eq!(before, after, "more was changed than the handle asked for");
}

/// Anything that takes blocks, where there are never more than a few.
#[test]
fn everything_runs_out_of_space() {
    for round in 0..env_number("UEXT4_STRESS", 6) {
        let shapes = [
            Shape::SMALL_JOURNAL[0],
            Shape::LARGE_VALUES[1],
            Shape::INLINE[1],
            Shape::BLOCK_MAPPED[0],
            Shape::LARGE_VALUES[3],
            Shape::BLOCK_MAPPED[2],
        ];
        let shape = Shape {
            bytes: 24 << 20,
            ..shapes[round as usize % shapes.len()]
        };
        let device = Arc::new(shape.make().expect("an image"));
        let data = (round % 4 == 3).then_some(DataMode::Journal);
        let fs = mount_in(device.clone(), round + 1, data).expect("mounts");
        let root = fs.root().expect("there");
        let full = make(&fs, &root, b"full", NewKind::Regular).expect("is made");
        let dir = make(&fs, &root, b"d", NewKind::Directory).expect("is made");
        let files: Vec<InodeRef> = (0..4)
            .map(|i| {
                make(&fs, &root, format!("f{i}").as_bytes(), NewKind::Regular).expect("is made")
            })
            .collect();
        journal(&fs, &files[3], true);
        let block = fs.superblock().geometry.block_size as usize;
        let mut at = 0;
        while fs.write(&full, at, &vec![1; block], true).is_ok() {
            at += block as u64;
        }
        let (mut rng, caller) = (Rng::with_seed(round), Caller::root());
        for step in 0..3000 {
            if step % 5 == 0 && at > 0 {
                at -= block as u64;
                fs.truncate(&full, at).expect("cuts");
            }
            let file = rng.choice(&files).unwrap();
            let offset = rng.u64(..2000) * block as u64;
            let len = rng.u64(1..5) * block as u64;
            let name = format!("{:0>200}", rng.u32(..4000));
            let name = name.as_bytes();
            match rng.u8(..16) {
                0..4 => drop(fs.write(file, offset, b"x", true)),
                4 => drop(fs.fallocate(file, Fallocate::PunchHole, offset, len)),
                5 => drop(fs.fallocate(file, Fallocate::InsertRange, offset, len)),
                6 => drop(fs.fallocate(file, Fallocate::CollapseRange, offset, len)),
                7 => drop(fs.fallocate(file, Fallocate::ZeroRange, offset, len)),
                8 => drop(fs.fallocate(file, Fallocate::AllocateKeepSize, offset, len * 4)),
                9 => drop(make(&fs, &dir, name, NewKind::Directory)),
                10 => drop(make(&fs, &dir, name, NewKind::Symlink(name))),
                11 | 12 => drop(FileSystem::link(&*fs, &caller, file, &dir, name)),
                13 => {
                    let value = vec![7; rng.usize(..3000)];
                    let attr = format!("user.{}", rng.u8(..8));
                    let flags = XattrFlags::empty();
                    let node = if rng.bool() { file } else { &dir };
                    let set =
                        FileSystem::setxattr(&*fs, &caller, node, attr.as_bytes(), &value, flags);
                    if set.is_err() {
                        drop(FileSystem::removexattr(
                            &*fs,
                            &caller,
                            node,
                            attr.as_bytes(),
                        ));
                    }
                }
                14 => {
                    let name = b"system.posix_acl_default";
                    let value = acl(rng.u32(..40));
                    drop(FileSystem::setxattr(
                        &*fs,
                        &caller,
                        &dir,
                        name,
                        &value,
                        XattrFlags::empty(),
                    ));
                }
                _ => {
                    let flags = RenameFlags::WHITEOUT;
                    drop(FileSystem::rename(
                        &*fs, &caller, &dir, name, &root, b"moved", flags,
                    ));
                }
            }
            let sample = rng.u16(..600) == 0;
            if sample || step == 2999 {
                fs.sync().expect("syncs");
                let image = Arc::new((*device).clone());
                let fs = mount(image.clone()).expect("recovers");
                fs.unmount().expect("unmounts");
                drop(fs);
                oracle::check(&*image)
                    .unwrap_or_else(|e| panic!("round {round}, step {step}: {e:#}"));
                oracle::fsck_device(&image).expect("clean");
            }
        }
        drop((root, full, dir, files));
        fs.unmount().expect("unmounts");
        oracle::check(&*device).expect("clean");
        oracle::fsck_device(&device).expect("clean");
    }
}
