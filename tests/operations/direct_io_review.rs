//! What a review of direct I/O, fallocate and seeking found.

use uext4_testkit::image::mount;
use uext4_testkit::prelude::*;
use uext4_vfs::ilock::{LockMode, ilock};
use uext4_vfs::{OpenFile, OpenFlags};

const MARK: u32 = 0x0012_3456;

fn create(fs: &Ext4, name: &[u8], mode: u16) -> InodeRef {
    let root = FileSystem::root(fs).unwrap().clone();
    let new = NewNode {
        mode,
        kind: NewKind::Regular,
    };
    FileSystem::create(fs, &Caller::root(), &root, name, &new).unwrap()
}

/// A mount where a file with a block of ones has another size on disk; none if that is refused.
fn with_size(size: u64) -> Option<(Arc<Ext4>, InodeRef)> {
    let shape = Shape {
        features: "^metadata_csum,^metadata_csum_seed,^orphan_file",
        ..Shape::DEFAULT
    };
    let device = Arc::new(shape.make().unwrap());
    let fs = mount(Arc::clone(&device) as Arc<_>).unwrap();
    let file = create(&fs, b"a", 0o644);
    fs.put(&file, 0, &[1; 4096]);
    fs.resize(&file, u64::from(MARK));
    drop(file);
    fs.unmount().unwrap();
    let mut bytes = device.snapshot();
    for inode in bytes.chunks_mut(256) {
        if inode[4..8] == MARK.to_le_bytes() && inode[0x28..0x2a] == [0x0a, 0xf3] {
            inode[4..8].copy_from_slice(&(size as u32).to_le_bytes());
            inode[0x6c..0x70].copy_from_slice(&((size >> 32) as u32).to_le_bytes());
        }
    }
    let fs = mount(Arc::new(MemoryDevice::from_bytes(&bytes))).unwrap();
    let root = FileSystem::root(&*fs).unwrap().clone();
    let file = FileSystem::lookup(&*fs, &Caller::root(), &root, b"a").ok()?;
    Some((fs, file))
}

#[test]
fn what_lies_past_the_last_block_number_is_not_the_first_block() {
    let Some((fs, file)) = with_size((1 << 44) + 8192) else {
        return;
    };
    let mut found = [9; 16];
    let _ = fs.read(&file, 1 << 44, &mut found);
    assert_ne!(found, [1; 16]);
    let data = Aligned::of(&[2; 4096]);
    let _ = fs
        .files
        .write_with(&file, 1 << 44, data.bytes(), IoFlags::DIRECT, true);
    fs.read(&file, 0, &mut found).unwrap();
    assert_eq!(found, [1; 16]);
}

#[test]
fn seeking_in_a_damaged_size_ends() {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        if let Some((fs, file)) = with_size(u64::MAX)
            && let Ok(at) = fs.seek_data(&file, u64::MAX - 6000)
        {
            assert!(at >= u64::MAX - 6000);
        }
        done.send(()).unwrap();
    });
    ended
        .recv_timeout(Duration::from_secs(10))
        .expect("hangs or panics");
}

#[test]
fn a_direct_read_at_a_damaged_end_does_not_panic() {
    let Some((fs, file)) = with_size(u64::MAX) else {
        return;
    };
    let mut data = Aligned::new(512);
    let _ = fs.read_with(&file, u64::MAX - 511, data.bytes_mut(), IoFlags::DIRECT);
}

#[test]
fn nowait_does_not_wait_to_take_set_id_bits_away() {
    let fs = mount(Arc::new(Shape::DEFAULT.make().unwrap())).unwrap();
    let file = create(&fs, b"a", 0o4777);
    let data = Aligned::new(4096);
    fs.files
        .write_with(&file, 0, data.bytes(), IoFlags::DIRECT, true)
        .unwrap();
    let user = Caller::user(1000, 1000);
    let open = OpenFile::open(Arc::clone(&fs), &user, file.clone(), OpenFlags::WRITE).unwrap();
    let (done, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        let held = ilock(&file.ilock, LockMode::Exclusive);
        scope.spawn(move || {
            let flags = IoFlags::DIRECT | IoFlags::NOWAIT;
            let written = open.write_at_with(0, Aligned::new(4096).bytes(), flags);
            done.send(written.map_err(|e| e.errno())).unwrap();
        });
        let answer = ended.recv_timeout(Duration::from_secs(3));
        drop(held);
        assert_eq!(answer.expect("it waited"), Err(Errno::EAGAIN));
    });
}

#[test]
fn a_hole_gets_its_node_from_blocks_freed_just_now() {
    let shape = Shape {
        block_size: 1024,
        journal_bytes: Some(1 << 20),
        bytes: 8 << 20,
        ..Shape::DEFAULT
    };
    let fs = mount(Arc::new(shape.make().unwrap())).unwrap();
    let [file, freed, filler] = [&b"a"[..], b"b", b"c"].map(|name| create(&fs, name, 0o644));
    for i in 0..4 {
        fs.put(&file, i * 32768, &[1; 16384]);
    }
    fs.put(&freed, 0, &[1; 65536]);
    let mut at = 0;
    for len in [65536, 1024] {
        while let Ok(n) = fs.files.write(&filler, at, &vec![1; len], true) {
            at += n as u64;
        }
    }
    fs.resize(&freed, 0);
    fs.fallocate(&file, Fallocate::PunchHole, 4096, 1024)
        .unwrap();
}
