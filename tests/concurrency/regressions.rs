//! What a review found.

use crate::{acl, make};
use uext4_testkit::image::mount;
use uext4_testkit::prelude::*;

/// Makes empty files until there are no inodes.
fn use_up_inodes(fs: &Ext4, dir: &InodeRef) {
    for i in 0.. {
        match make(fs, dir, format!("x{i}").as_bytes(), NewKind::Regular) {
            Ok(_) => {}
            Err(Errno::ENOSPC) => return,
            Err(why) => panic!("{why}"),
        }
    }
}

#[test]
fn a_whiteout_without_an_inode_changes_nothing() {
    for existing in [false, true] {
        let shape = Shape {
            inodes: Some(64),
            ..Shape::DEFAULT
        };
        let device = Arc::new(shape.make().expect("an image"));
        let fs = mount(device.clone()).expect("mounts");
        let root = fs.root().expect("there").clone();
        make(&fs, &root, b"a", NewKind::Regular).expect("is made");
        if existing {
            make(&fs, &root, b"b", NewKind::Regular).expect("is made");
        }
        use_up_inodes(&fs, &root);
        let caller = Caller::root();
        let moved = FileSystem::rename(
            &*fs,
            &caller,
            &root,
            b"a",
            &root,
            b"b",
            RenameFlags::WHITEOUT,
        );
        let moved = moved.map_err(|e| e.errno());
        let a = FileSystem::lookup(&*fs, &caller, &root, b"a").map(|node| node.ino);
        let b = FileSystem::lookup(&*fs, &caller, &root, b"b").map(|node| node.ino);
        drop(root);
        fs.end_on(&device);
        assert_eq!(moved, Err(Errno::ENOSPC), "{existing}");
        assert!(a.is_ok(), "{a:?}");
        assert_eq!(b.is_ok(), existing);
    }
}

#[test]
fn power_lost_while_a_range_is_put_in() {
    let shape = Shape {
        bytes: 64 << 20,
        ..Shape::SMALL_JOURNAL[0]
    };
    let device = Arc::new(RecordDevice::new(shape.make().expect("an image")).expect("records"));
    let fs = mount(Arc::clone(&device) as Arc<dyn BlockDevice>).expect("mounts");
    let root = fs.root().expect("there").clone();
    let file = make(&fs, &root, b"f", NewKind::Regular).expect("is made");
    let blocks = 60_000;
    for at in (0..blocks).step_by(2) {
        fs.put(&file, at * 1024, b"x");
    }
    fs.sync().expect("syncs");
    let start = device.ops_len();
    let (stop, fs) = (AtomicBool::new(false), &*fs);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs.sync().expect("syncs");
            }
        });
        for _ in 0..10 {
            fs.fallocate(&file, Fallocate::InsertRange, 0, 3 * 1024)
                .expect("is put in");
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop((file, root));
    let log = device.log();
    let mut replayer = log.replayer();
    let step = ((log.ops.len() - start) / 30).max(1);
    for at in (start..log.ops.len()).step_by(step) {
        let image = Arc::new(replayer.image_at(&Cut::at(at)));
        let fs = mount(Arc::clone(&image) as Arc<_>).expect("recovers");
        fs.end_on(&image);
    }
}

#[test]
fn space_that_is_being_trimmed_is_no_lack_of_space() {
    let device = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let fs = mount(device.clone()).expect("mounts");
    let root = fs.root().expect("there").clone();
    let (stop, fs_ref) = (AtomicBool::new(false), &*fs);
    let written = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs_ref.blocks.trim(0, u64::MAX, 0).expect("trims");
            }
        });
        let file = make(fs_ref, &root, b"f", NewKind::Regular).expect("is made");
        let written = (0..2000u64)
            .map(|at| {
                fs_ref
                    .files
                    .write(&file, at % 1000 * 4096, &[7; 4096], true)
                    .map(drop)
            })
            .enumerate()
            .map(|(i, done)| {
                if i % 100 == 99 {
                    fs_ref.files.truncate(&file, 0).expect("cuts");
                }
                done
            })
            .find(Result::is_err);
        stop.store(true, Ordering::Relaxed);
        written
    });
    assert!(written.is_none(), "{written:?}");
    drop(root);
    fs.end_on(&device);
}

#[test]
fn a_list_that_finds_no_block_leaves_no_orphan() {
    let device = Arc::new(Shape::DEFAULT.make().expect("an image"));
    let fs = mount(device.clone()).expect("mounts");
    let (root, caller) = (fs.root().expect("there").clone(), Caller::root());
    let dir = make(&fs, &root, b"d", NewKind::Directory).expect("is made");
    let name = b"system.posix_acl_default";
    FileSystem::setxattr(&*fs, &caller, &dir, name, &acl(60), XattrFlags::empty()).expect("is set");
    let full = make(&fs, &root, b"full", NewKind::Regular).expect("is made");
    let mut at = 0;
    while let Ok(n) = fs.files.write(&full, at, &vec![1; 1 << 20], true) {
        at += n as u64;
    }
    let inodes = |fs: &Ext4| FileSystem::statfs(fs).expect("known").inodes_free;
    fs.sync().expect("syncs");
    let before = inodes(&fs);
    let made = fs.tmpfile(&caller, &dir, 0o600).map(drop);
    assert!(made.is_err(), "there is no space");
    for kind in [NewKind::Regular, NewKind::Directory] {
        assert_eq!(make(&fs, &dir, b"n", kind).map(drop), Err(Errno::ENOSPC));
    }
    assert_eq!(inodes(&fs), before);
    drop((dir, root, full));
    fs.end_on(&device);
}

#[test]
fn blocks_that_a_journaled_file_has_can_be_written() {
    let shape = Shape {
        bytes: 16 << 20,
        ..Shape::SMALL_JOURNAL[0]
    };
    let device = Arc::new(shape.make().expect("an image"));
    let fs = mount(device.clone()).expect("mounts");
    let root = fs.root().expect("there").clone();
    let file = make(&fs, &root, b"f", NewKind::Regular).expect("is made");
    let flags = fs.files.flags(&file) | InodeFlags::JOURNAL_DATA;
    fs.files
        .set_flags(&Caller::root(), &file, flags)
        .expect("is set");
    let blocks = 400;
    fs.put(&file, 0, &vec![9; blocks * 1024]);
    // What was written is behind in the log and in memory, and reads as zeros.
    fs.fallocate(&file, Fallocate::ZeroRange, 0, blocks as u64 * 1024)
        .expect("is zeroed");
    let full = make(&fs, &root, b"full", NewKind::Regular).expect("is made");
    let mut at = 0;
    while let Ok(n) = fs.files.write(&full, at, &[1; 1024], true) {
        at += n as u64;
    }
    for block in (0..blocks).step_by(2) {
        let at = block as u64 * 1024 + 10;
        assert_eq!(
            fs.files.write(&file, at, b"new", true).ok(),
            Some(3),
            "{block}"
        );
    }
    let check = |fs: &Ext4, file: &InodeRef| {
        for block in 0..blocks {
            let mut bytes = [7; 20];
            fs.read(file, block as u64 * 1024, &mut bytes)
                .expect("reads");
            let want = match block % 2 {
                0 => *b"\0\0\0\0\0\0\0\0\0\0new\0\0\0\0\0\0\0",
                _ => [0; 20],
            };
            assert_eq!(bytes, want, "block {block}");
        }
    };
    check(&fs, &file);
    drop((file, full, root));
    fs.sync().expect("syncs");
    fs.crash();
    drop(fs);
    let fs = mount(device.clone()).expect("recovers");
    let root = fs.root().expect("there").clone();
    let file = FileSystem::lookup(&*fs, &Caller::root(), &root, b"f").expect("there");
    check(&fs, &file);
    drop((file, root));
    fs.end_on(&device);
}

#[test]
fn a_directory_that_finds_no_room_stays_whole() {
    for runs_out_of_blocks in [true, false] {
        let shape = Shape {
            bytes: if runs_out_of_blocks {
                6 << 20
            } else {
                64 << 20
            },
            ..Shape::SMALL_JOURNAL[0]
        };
        let device = Arc::new(shape.make().expect("an image"));
        let fs = mount(device.clone()).expect("mounts");
        let (root, caller) = (fs.root().expect("there").clone(), Caller::root());
        let dir = make(&fs, &root, b"d", NewKind::Directory).expect("is made");
        let file = make(&fs, &root, b"f", NewKind::Regular).expect("is made");
        let full = make(&fs, &root, b"full", NewKind::Regular).expect("is made");
        let mut at = 0;
        while runs_out_of_blocks && fs.files.write(&full, at, &[1; 1024], true).is_ok() {
            at += 1024;
        }
        let mut names = 0;
        let mut link_until_it_fails = || {
            let why = loop {
                let name = format!("{names:0>250}");
                match FileSystem::link(&*fs, &caller, &file, &dir, name.as_bytes()) {
                    Ok(()) => names += 1,
                    Err(why) => break why.errno(),
                }
            };
            assert_eq!(why, Errno::ENOSPC);
        };
        link_until_it_fails();
        // A block more each time: also where the index needs one and then the leaf finds none.
        for _ in 0..if runs_out_of_blocks { 300 } else { 0 } {
            at -= 1024;
            fs.resize(&full, at);
            link_until_it_fails();
        }
        drop((dir, file, full, root));
        fs.end_on(&device);
    }
}

#[test]
fn an_acl_pushes_data_out_of_a_full_inode() {
    for shape in [Shape::INLINE[0], Shape::INLINE[2], Shape::INLINE[4]] {
        let device = Arc::new(shape.make().expect("an image"));
        let fs = mount(device.clone()).expect("mounts");
        let root = fs.root().expect("there").clone();
        let file = make(&fs, &root, b"f", NewKind::Regular).expect("is made");
        fs.put(&file, 0, &[9; 100]);
        let is_inline = || file.flags().contains(InodeFlags::INLINE_DATA);
        let set = |name: &[u8], value: &[u8]| {
            let who = Caller::root();
            FileSystem::setxattr(&*fs, &who, &file, name, value, XattrFlags::empty())
        };
        // Just as much as the block takes beside an entry of one letter.
        let block = fs.volume.geometry().block_size as usize;
        let room = uext4_ondisk::XattrList::block_room(block) - 28;
        set(b"user.a", &vec![7; room - room % 4]).expect("fits the block");
        assert!(is_inline(), "{}", shape.name);
        set(b"system.posix_acl_access", &acl(2)).expect("fits where the data was");
        assert!(!is_inline(), "{}", shape.name);
        let mut back = vec![0; 100];
        fs.read(&file, 0, &mut back).expect("reads");
        assert_eq!(back, [9; 100], "{}", shape.name);
        drop((file, root));
        fs.end_on(&device);
    }
}
