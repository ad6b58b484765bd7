//! Files without extents: every level of pointers, holes, damage in pointers, and what deleting costs.
use crate::*;
use uext4_ext4::Result;
use uext4_ondisk::{CorruptKind, MAP_DIRECT, MapShape, RoCompat, map_pointer};

fn create(fs: &Ext4, name: &str) -> InodeRef {
    let top = fs.top();
    fs.make(&top, &name, &FILE)
}

fn lookup(fs: &Ext4, name: &str) -> Result<InodeRef> {
    fs.namei
        .lookup(&Caller::root(), fs.namei.root()?, name.as_bytes())
}

fn read(fs: &Ext4, file: &InodeRef, at: u64, len: usize) -> Vec<u8> {
    let mut data = vec![0xee; len];
    let n = fs.files.read(file, at, &mut data).unwrap();
    data.truncate(n);
    data
}

fn check(path: &Path) {
    fsck(path);
    let device = MemoryDevice::from_bytes(&std::fs::read(path).unwrap());
    oracle::check(&device).unwrap();
}

/// The first and the last block of each level of pointers, as numbers of blocks.
fn borders(shape: MapShape) -> Vec<u64> {
    let p = shape.per_block() as u64;
    let (single, double) = (12 + p, 12 + p + p * p);
    vec![
        0,
        10,
        11,
        12,
        13,
        single - 1,
        single,
        single + p,
        double - 1,
        double,
        double + p * p + 1,
    ]
}

/// Each of these blocks holds its number in `at`, from 1; all others of the file are holes.
fn is_as_written(fs: &Ext4, file: &InodeRef, at: &[u64]) {
    let block = u64::from(fs.volume.geometry().block_size);
    for (i, lblk) in at.iter().enumerate() {
        let data = read(fs, file, lblk * block, block as usize);
        assert_eq!(data, vec![i as u8 + 1; block as usize], "{lblk}");
    }
    assert!(read(fs, file, 14 * block, 4096).iter().all(|b| *b == 0));
    let extents = fs.mapping.extents(file).unwrap();
    let found = extents.iter().flat_map(|e| u64::from(e.lblk.0)..e.end());
    assert_eq!(found.collect::<Vec<u64>>(), at);
    assert_eq!(fs.files.seek_data(file, 14 * block).unwrap(), at[5] * block);
    assert_eq!(fs.files.seek_hole(file, 10 * block).unwrap(), 14 * block);
}

#[test]
fn every_level_is_written_read_and_freed() {
    for args in [
        "-t ext2 -b 1024",
        "-t ext3 -b 1024 -J size=1",
        "-t ext3 -b 2048",
        "-t ext4 -O ^extent,^64bit -b 4096",
    ] {
        let path = image("32M", args);
        let fs = path.mount();
        assert!(!fs.volume.is_read_only(), "{args:?}");
        let at = write_every_level(&fs);
        fs.unmount().unwrap();
        drop(fs);
        check(&path);
        let fs = path.mount();
        free_every_level(&fs, &at);
        fs.unmount().unwrap();
        drop(fs);
        check(&path);
    }
}

/// Writes blocks at the borders of all levels, and the last that a file can have; which they are.
fn write_every_level(fs: &Ext4) -> Vec<u64> {
    let block = u64::from(fs.volume.geometry().block_size);
    let shape = MapShape::new(fs.volume.geometry().block_size);
    let file = create(fs, "file");
    assert!(!file.flags().contains(InodeFlags::EXTENTS));
    let counted = match fs
        .volume
        .superblock()
        .raw
        .ro_compat()
        .contains(RoCompat::HUGE_FILE)
    {
        true => u64::MAX,
        false => u64::from(u32::MAX) * 512 / block,
    };
    let last = shape.data_blocks_within(counted);
    let mut at = borders(shape);
    at.push(last - 1);
    for (i, lblk) in at.iter().enumerate() {
        let data = vec![i as u8 + 1; block as usize];
        fs.put(&file, lblk * block, &data);
    }
    let too_large = fs.files.write(&file, last * block, &[1], true);
    assert!(matches!(too_large, Err(Ext4Error::TooLarge)));
    is_as_written(fs, &file, &at);
    at
}

fn free_every_level(fs: &Ext4, at: &[u64]) {
    let block = u64::from(fs.volume.geometry().block_size);
    let p = MapShape::new(fs.volume.geometry().block_size).per_block() as u64;
    let file = lookup(fs, "file").unwrap();
    is_as_written(fs, &file, at);
    // A hole across a border takes the pointer block with it that becomes empty.
    let before = file.state().blocks;
    fs.allocate(&file, Fallocate::PunchHole, 12 * block, p * block);
    assert_eq!(file.state().blocks, before - 4 * block / 512);
    for size in [at[at.len() - 1], 12 + p + p * p, 12 + p, 11] {
        fs.resize(&file, size * block);
        let n = read(fs, &file, 11 * block - 4, 9).len();
        assert_eq!(n, if size > 11 { 9 } else { 4 });
    }
    assert_eq!(file.state().blocks, 2 * block / 512);
    fs.resize(&file, 0);
    let state = file.state().clone();
    assert_eq!((state.blocks, state.i_block), (0, [0; 60]));
}

#[test]
fn directories_and_links_have_maps() {
    for args in ["-t ext3 -b 1024", "-t ext2 -b 1024 -O ^dir_index,^filetype"] {
        let path = image("16M", args);
        let fs = path.mount();
        let (me, top) = (Caller::root(), fs.top());
        let dir = fs.make(&top, b"dir", &DIR);
        let name = |i: u32| format!("{i}-{}", "n".repeat(200)).into_bytes();
        // Five to a block: past the blocks that the inode names, and those of one pointer block.
        for i in 0..1500 {
            fs.make(&dir, &name(i), &FILE);
        }
        assert_eq!(fs.volume.journal().stats().overruns, 0);
        assert!(dir.size() > (12 + 256) * 1024 && !dir.flags().contains(InodeFlags::EXTENTS));
        for len in [59, 60, 1000] {
            let new = NewNode {
                mode: 0o777,
                kind: NewKind::Symlink(&vec![b't'; len]),
            };
            let link = fs
                .namei
                .create(&me, &top, format!("l{len}").as_bytes(), &new);
            let link = link.unwrap();
            assert_eq!(fs.files.readlink(&link).unwrap().len(), len);
            assert_eq!(link.state().blocks, if len < 60 { 0 } else { 2 });
        }
        drop((dir, top));
        fs.unmount().unwrap();
        drop(fs);
        check(&path);
        let fs = path.mount();
        let (dir, top) = (lookup(&fs, "dir").unwrap(), fs.top());
        assert_eq!(
            fs.files.readlink(&lookup(&fs, "l1000").unwrap()).unwrap(),
            [b't'; 1000]
        );
        for i in 0..1500 {
            fs.remove(&dir, &name(i));
        }
        drop(dir);
        fs.remove_dir(&top, b"dir");
        fs.remove(&top, b"l60");
        fs.remove(&top, b"l59");
        assert_eq!(fs.volume.journal().stats().overruns, 0);
        drop(top);
        fs.unmount().unwrap();
        drop(fs);
        check(&path);
    }
}

#[test]
fn blocks_without_data_are_refused() {
    let path = image("16M", "-t ext3");
    let options = with(|o: &mut MountOptions| o.dioread_nolock = true);
    let fs = mount(&path, options);
    let file = create(&fs, "file");
    use Fallocate::{Allocate, AllocateKeepSize, ZeroRange, ZeroRangeKeepSize};
    for what in [Allocate, AllocateKeepSize, ZeroRange, ZeroRangeKeepSize] {
        let done = fs.files.fallocate(&file, what, 0, 10_000);
        assert!(matches!(done, Err(Ext4Error::Unsupported(_))), "{done:?}");
    }
    // Direct writes to holes take the way without unwritten blocks.
    let data = vec![7u8; 65536 + 4096];
    let skip = data.as_ptr().align_offset(4096);
    let data = &data[skip..skip + 65536];
    fs.resize(&file, 1 << 20);
    let direct = |at| {
        fs.files
            .write_direct(&file, at, data, IoFlags::DIRECT, true)
    };
    assert_eq!(direct(100 * 1024).unwrap().len, data.len());
    assert_eq!(direct(1 << 20).unwrap().len, data.len());
    assert_eq!(read(&fs, &file, 100 * 1024, data.len()), data);
    assert_eq!(read(&fs, &file, 1 << 20, data.len()), data);
    assert!(
        fs.mapping
            .extents(&file)
            .unwrap()
            .iter()
            .all(|e| !e.unwritten)
    );
    drop(file);
    fs.unmount().unwrap();
    drop(fs);
    check(&path);
}

/// A file of many runs and one of many pointer blocks, in a small journal: deleting them takes many
/// transactions, none beyond its credits.
#[test]
fn deleting_a_scattered_file_keeps_to_its_credits() {
    let path = image("32M", "-t ext3 -b 1024 -J size=1");
    // The default would give each file blocks of its own.
    let options = with(|o: &mut MountOptions| o.balloc = BallocVariant::GroupLock);
    let fs = mount(&path, options);
    let (a, b) = (create(&fs, "a"), create(&fs, "b"));
    let free = fs.volume.superblock().raw.free_blocks_count();
    for i in 0..4000u64 {
        fs.put(&a, i * 1024, &[1; 1024]);
        if i % 2 == 0 {
            // One block for each block of pointers.
            fs.put(&b, i * 128 * 1024, &[2; 1024]);
        }
    }
    assert!(fs.mapping.extents(&a).unwrap().len() > 1500);
    assert!((4000..4020).contains(&(b.state().blocks / 2)));
    fs.files.fsync(&b, false).unwrap();
    let before = fs.volume.journal().stats();
    fs.resize(&a, 5000);
    let top = fs.top();
    drop(b);
    fs.remove(&top, b"b");
    fs.sync().unwrap();
    let after = fs.volume.journal().stats();
    assert!(after.commits > before.commits + 2);
    assert_eq!(after.overruns, before.overruns);
    fs.resize(&a, 0);
    drop((a, top));
    fs.unmount().unwrap();
    drop(fs);
    let fs = path.mount();
    // The root directory's block holds both names.
    assert_eq!(fs.volume.superblock().raw.free_blocks_count(), free);
    fs.unmount().unwrap();
    drop(fs);
    check(&path);
}

/// Old files keep their maps when the file system gets extents.
#[test]
fn both_kinds_live_in_one_file_system() {
    let path = image("16M", "-t ext3 -b 1024");
    let fs = path.mount();
    let old = create(&fs, "old");
    fs.put(&old, 0, &[1; 50_000]);
    drop(old);
    fs.unmount().unwrap();
    drop(fs);
    run(Command::new("tune2fs").args(["-O", "extent"]).arg(&path));
    let fs = path.mount();
    let (old, new) = (lookup(&fs, "old").unwrap(), create(&fs, "new"));
    for i in 0..40 {
        for (file, byte) in [(&old, 2), (&new, 3)] {
            fs.put(file, 50_000 + i * 10_000, &[byte; 10_000]);
        }
    }
    let kinds = [&old, &new].map(|file| file.flags().contains(InodeFlags::EXTENTS));
    assert_eq!(kinds, [false, true]);
    assert_eq!(read(&fs, &old, 49_999, 2), [1, 2]);
    assert_eq!(read(&fs, &new, 49_999, 2), [0, 3]);
    // The boot loader's inode takes the map, the file its extents, or none.
    let boot = fs.files.swap_boot(&Caller::root(), &old);
    boot.unwrap();
    assert!(old.flags().contains(InodeFlags::EXTENTS) && old.size() == 0);
    fs.put(&old, 0, &[4; 5000]);
    fs.files.swap_boot(&Caller::root(), &old).unwrap();
    assert_eq!(read(&fs, &old, 49_999, 2), [1, 2]);
    drop((old, new));
    fs.unmount().unwrap();
    drop(fs);
    check(&path);
}

/// What was made without them gets features when they are used, as with the kernel.
#[test]
fn features_come_with_their_use() {
    for args in ["-t ext2 -O none", "-t ext2 -r 0"] {
        let path = image("16M", args);
        let fs = path.mount();
        let file = create(&fs, "file");
        fs.resize(&file, (1 << 31) - 1);
        fs.put(&file, 1 << 31, b"beyond");
        let index = uext4_ondisk::XattrIndex::USER;
        fs.attributes
            .set_xattr(&file, index, b"name", &[1; 400], Default::default())
            .unwrap();
        drop(file);
        fs.unmount().unwrap();
        drop(fs);
        check(&path);
        let fs = path.mount();
        let features = fs.volume.superblock().raw.ro_compat();
        assert!(features.contains(RoCompat::LARGE_FILE));
        assert_eq!(
            read(&fs, &lookup(&fs, "file").unwrap(), 1 << 31, 9),
            b"beyond"
        );
        fs.unmount().unwrap();
    }
}

/// An image with the file "victim", and where its first pointer block and its double one lie.
fn victim(path: &Path) -> (Vec<u8>, [Pblk; 2]) {
    let fs = mount(path, MountOptions::default());
    let file = create(&fs, "victim");
    fs.put(&file, 0, &vec![5; 600 * 1024]);
    let root = file.state().i_block;
    let pointers = [MAP_DIRECT, MAP_DIRECT + 1].map(|slot| map_pointer(&root, slot).unwrap());
    drop(file);
    fs.unmount().unwrap();
    drop(fs);
    (std::fs::read(path).unwrap(), pointers)
}

fn open(bytes: &[u8]) -> Arc<Ext4> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::from_bytes(bytes));
    Ext4::mount(device, MountOptions::default()).unwrap()
}

#[test]
fn each_damage_of_a_pointer_has_its_kind() {
    let path = image("16M", "-t ext2 -b 1024");
    let (bytes, [single, double]) = victim(&path);
    let table = {
        let fs = open(&bytes);
        fs.top().itable.block() as u32
    };
    let p = 256u64;
    // In which block, which pointer, what it becomes, the file block that needs it.
    let cases = [
        (single, 3, u32::MAX, 15, CorruptKind::MapPointer),
        (single, 3, 16 << 10, 15, CorruptKind::MapPointer),
        (single, 3, 1, 15, CorruptKind::MapPointer),
        (single, 3, 2, 15, CorruptKind::MapFixed),
        (single, 3, table, 15, CorruptKind::MapFixed),
        (single, 3, single.0 as u32, 15, CorruptKind::MapCycle),
        (double, 0, u32::MAX, 12 + p, CorruptKind::MapPointer),
        (double, 0, table, 12 + p, CorruptKind::MapFixed),
        (double, 0, double.0 as u32, 12 + p, CorruptKind::MapCycle),
    ];
    for (node, slot, to, lblk, kind) in cases {
        let mut bytes = bytes.clone();
        let at = node.0 as usize * 1024 + slot * 4;
        bytes[at..at + 4].copy_from_slice(&to.to_le_bytes());
        let fs = open(&bytes);
        let file = lookup(&fs, "victim").unwrap();
        let found = |done: Result<()>, what: &str| match done {
            Err(Ext4Error::Corrupt(e)) => {
                assert_eq!((e.kind, e.ino), (kind, Some(file.ino)), "{what} {to}: {e}");
                assert_eq!(e.pblk, Some(Pblk(u64::from(to))), "{what} {to}: {e}");
            }
            other => panic!("{what} {kind:?} {to}: {other:?}"),
        };
        let mut one = [0; 1024];
        let read_one = |lblk: u64, one: &mut [u8]| fs.files.read(&file, lblk * 1024, one).map(drop);
        found(read_one(lblk, &mut one), "read");
        // What does not need the pointer is there.
        for good in [0, 11, 12].repeat(20) {
            read_one(good, &mut one).unwrap();
            assert_eq!(one, [5; 1024]);
        }
        found(
            fs.files.write(&file, lblk * 1024, &[6; 10], true).map(drop),
            "write",
        );
        found(fs.mapping.extents(&file).map(drop), "walk");
        found(fs.files.truncate(&file, 0), "truncate");
        drop(file);
        let _ = fs.unmount();
    }
}

/// A tree whose pointers all lead to the same few blocks must not cause an endless loop.
#[test]
fn a_map_that_multiplies_ends() {
    let path = image("16M", "-t ext2 -b 1024");
    let (mut bytes, [single, double]) = victim(&path);
    let all = |bytes: &mut Vec<u8>, node: Pblk, to: Pblk| {
        for slot in 0..256 {
            let at = node.0 as usize * 1024 + slot * 4;
            bytes[at..at + 4].copy_from_slice(&(to.0 as u32).to_le_bytes());
        }
    };
    all(&mut bytes, double, single);
    let data = open(&bytes);
    let first = map_pointer(&lookup(&data, "victim").unwrap().state().i_block, 0).unwrap();
    data.unmount().unwrap();
    all(&mut bytes, single, first);
    let fs = open(&bytes);
    let file = lookup(&fs, "victim").unwrap();
    assert!(matches!(
        fs.mapping.extents(&file),
        Err(Ext4Error::Corrupt(_))
    ));
    assert!(matches!(
        fs.files.truncate(&file, 0),
        Err(Ext4Error::Corrupt(_))
    ));
    drop(file);
    let _ = fs.unmount();
}

/// Any one byte of the pointer blocks changed: all that can be done gives data or an error.
#[test]
fn one_byte_changed_in_pointers() {
    let path = image("8M", "-t ext3 -b 1024 -J size=1");
    let (bytes, nodes) = victim(&path);
    let mut rng = fastrand::Rng::with_seed(1);
    let (mut wrong, mut fine) = (0, 0);
    for _ in 0..150 {
        let mut bytes = bytes.clone();
        let node = nodes[rng.usize(..2)].0 as usize * 1024;
        // Where pointers are: the double one has two.
        let at = match node == nodes[1].0 as usize * 1024 {
            true => node + rng.usize(..16),
            false => node + rng.usize(..1024),
        };
        bytes[at] ^= 1 << rng.u8(..8);
        let fs = open(&bytes);
        let file = lookup(&fs, "victim").unwrap();
        let mut data = vec![0; 600 * 1024];
        let mut all = vec![
            fs.files.read(&file, 0, &mut data).map(drop),
            fs.files
                .write(&file, rng.u64(..600 << 10), &[6; 3000], true)
                .map(drop),
            fs.files
                .fallocate(&file, Fallocate::PunchHole, 300 << 10, 20 << 10),
        ];
        drop(file);
        all.push(fs.namei.unlink(&Caller::root(), &fs.top(), b"victim"));
        let _ = fs.unmount();
        for done in all {
            match done {
                Ok(()) => fine += 1,
                Err(Ext4Error::Corrupt(e)) => {
                    assert!(e.pblk.is_some() && e.ino.is_some(), "{e}");
                    wrong += 1;
                }
                Err(e) => panic!("{e:?}"),
            }
        }
    }
    assert!(wrong > 50 && fine > 50, "{wrong} {fine}");
}
