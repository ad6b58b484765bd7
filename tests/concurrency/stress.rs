//! Several threads on one inode and on one directory, with what decides how data and attributes are kept changing
//! beneath them; and everything where space runs out.

use crate::{acl, make};
use uext4_testkit::crash::{Plan, examine, record};
use uext4_testkit::image::{mount, mount_as, mount_in};
use uext4_testkit::prelude::*;

fn journal(fs: &Ext4, file: &InodeRef, on: bool) {
    let flags = fs.files.flags(file);
    let flags = match on {
        true => flags | InodeFlags::JOURNAL_DATA,
        false => flags - InodeFlags::JOURNAL_DATA,
    };
    fs.files
        .set_flags(&Caller::root(), file, flags)
        .expect("is set");
}

fn set(fs: &Ext4, node: &InodeRef, name: &[u8], value: &[u8]) -> uext4_vfs::Result<()> {
    fs.setxattr(&Caller::root(), node, name, value, XattrFlags::empty())
}

const BLOCKS: usize = 16;

/// A file whose blocks each hold a version, and its users.
struct Versions<'v> {
    fs: &'v Ext4,
    root: &'v InodeRef,
    file: &'v InodeRef,
    device: &'v RecordDevice<MemoryDevice>,
    block_size: u64,
    /// The version of each block, announced before it is written.
    announced: Vec<AtomicU64>,
    stop: AtomicBool,
}

impl Versions<'_> {
    /// Makes the data go one way and the other, and frees blocks for links to take.
    fn toggle(&self, mut rng: Rng) {
        while !self.stop.load(Ordering::Relaxed) {
            journal(self.fs, self.file, rng.bool());
            if rng.u8(..4) == 0 {
                let name = format!("other{}", rng.u8(..20));
                let link = NewKind::Symlink(&[b'y'; 200]);
                drop(make(self.fs, self.root, name.as_bytes(), link));
                let name = format!("other{}", rng.u8(..20));
                drop(self.fs.unlink(&Caller::root(), self.root, name.as_bytes()));
            }
        }
    }

    fn read(&self, mut rng: Rng) {
        let mut data = Aligned::new(self.block_size as usize);
        while !self.stop.load(Ordering::Relaxed) {
            let block = rng.usize(..BLOCKS);
            let before = self.announced[block].load(Ordering::SeqCst);
            let flags = *rng.choice(&[IoFlags::DIRECT, IoFlags::empty()]).unwrap();
            let at = block as u64 * self.block_size;
            let read = self.fs.read_with(self.file, at, data.bytes_mut(), flags);
            let after = self.announced[block].load(Ordering::SeqCst);
            if read.expect("reads") == 0 {
                assert!(before <= 1);
                continue;
            }
            let got = u64::from_le_bytes(data.bytes()[..8].try_into().unwrap());
            let zeroed = got == 0 && block == 0;
            assert!(
                zeroed || got + 1 >= before && got <= after,
                "block {block}: {got}, not {before}..={after}"
            );
        }
    }

    /// Gives what each sync guaranteed.
    fn write(&self, mut rng: Rng) -> Vec<Vec<u64>> {
        let (mut done, mut synced) = (vec![0u64; BLOCKS], Vec::new());
        let mut data = Aligned::new(self.block_size as usize);
        for step in 0..400 {
            let block = rng.usize(..BLOCKS);
            done[block] += 1;
            self.announced[block].store(done[block], Ordering::SeqCst);
            let data = data.bytes_mut();
            data.fill(done[block] as u8);
            data[..8].copy_from_slice(&done[block].to_le_bytes());
            let at = block as u64 * self.block_size;
            let (part, flags) = match rng.u8(..8) {
                0 if block == 0 => {
                    let zero = Fallocate::ZeroRangeKeepSize;
                    let zeroed = self.fs.fallocate(self.file, zero, at, self.block_size);
                    zeroed.expect("is zeroed");
                    (&*data, IoFlags::empty())
                }
                1..4 => (&*data, IoFlags::DIRECT),
                4 => (&data[..100], IoFlags::empty()),
                _ => (&*data, IoFlags::empty()),
            };
            let written = self.fs.files.write_with(self.file, at, part, flags, true);
            written.expect("writes");
            if step % 20 == 19 {
                self.fs.fsync(self.file, rng.bool()).expect("syncs");
                synced.push(done.clone());
                self.device.mark(synced.len() as u64);
            }
        }
        self.stop.store(true, Ordering::Relaxed);
        synced
    }
}

/// What was written last is what is read, and what was synced survives.
#[test]
fn data_goes_one_way_or_the_other() {
    for round in 0..env_number("UEXT4_STRESS", 3) {
        let shape = Shape::SMALL_JOURNAL[round as usize % 2];
        let inner = shape.make().expect("an image");
        let device = Arc::new(RecordDevice::new(inner).expect("records"));
        let fs = mount_as(Arc::clone(&device) as Arc<dyn BlockDevice>, round + 1).expect("mounts");
        let root = fs.root().expect("there").clone();
        let file = make(&fs, &root, b"f", NewKind::Regular).expect("is made");
        let versions = &Versions {
            fs: &fs,
            root: &root,
            file: &file,
            device: &device,
            block_size: u64::from(shape.block_size),
            announced: (0..BLOCKS).map(|_| AtomicU64::new(0)).collect(),
            stop: AtomicBool::new(false),
        };
        let synced = std::thread::scope(|scope| {
            scope.spawn(|| versions.toggle(Rng::with_seed(round)));
            scope.spawn(|| versions.read(Rng::with_seed(round + 100)));
            versions.write(Rng::with_seed(round + 200))
        });
        drop((file, root));
        judge_cuts(round, &device, &synced, u64::from(shape.block_size));
    }
}

/// Checks crash points: no block has a version older than what was synced.
fn judge_cuts(
    round: u64,
    device: &RecordDevice<MemoryDevice>,
    synced: &[Vec<u64>],
    block_size: u64,
) {
    let log = device.log();
    let mut rng = Rng::with_seed(round);
    let mut replayer = log.replayer();
    let end = log.ops.len();
    let mut places: Vec<usize> = (0..25).map(|_| rng.usize(end / 8..end)).collect();
    places.push(end);
    places.sort_unstable();
    for at in places {
        let cut = Cut::at(at).seeded(rng.u64(..));
        let image = Arc::new(replayer.image_at(&cut));
        let marks = log.marks_before(&cut);
        let Some(mark) = marks.last() else { continue };
        let fs = mount(Arc::clone(&image) as Arc<_>).expect("recovers");
        let root = fs.root().expect("there").clone();
        let file = fs.lookup(&Caller::root(), &root, b"f").expect("there");
        for (block, want) in synced[mark.value as usize - 1].iter().enumerate() {
            let mut bytes = [0; 8];
            fs.read(&file, block as u64 * block_size, &mut bytes)
                .expect("reads");
            let got = u64::from_le_bytes(bytes);
            let zeroed = got == 0 && block == 0;
            assert!(
                zeroed || got >= *want,
                "round {round}, {cut:?}, block {block}: {got}, not {want}"
            );
        }
        drop((file, root));
        fs.end_on(&image);
    }
}

/// Small directories and files in inodes, that several threads fill, empty, move and give attributes.
#[test]
fn small_directories_are_moved_and_filled() {
    let shapes = [
        Shape::INLINE[0],
        Shape::LARGE_VALUES[3],
        Shape::INLINE[2],
        Shape::INLINE[3],
    ];
    for round in 0..env_number("UEXT4_STRESS", 3) {
        let shape = shapes[round as usize % shapes.len()];
        let device = Arc::new(shape.make().expect("an image"));
        let fs = mount_as(device.clone(), round + 1).expect("mounts");
        let root = fs.root().expect("there").clone();
        let make_dir = |d| make(&fs, &root, format!("d{d}").as_bytes(), NewKind::Directory);
        let dirs: Vec<InodeRef> = (0..4).map(|d| make_dir(d).expect("is made")).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let mut rng = Rng::with_seed(round * 16 + thread);
                let (fs, dirs) = (&*fs, &dirs);
                scope.spawn(move || (0..800).for_each(|_| change_small(fs, dirs, &mut rng)));
            }
        });
        drop((root, dirs));
        fs.end_on(&device);
    }
}

/// Something in one of the directories; others may be faster, so it may fail.
fn change_small(fs: &Ext4, dirs: &[InodeRef], rng: &mut Rng) {
    let caller = Caller::root();
    let (dir, to) = (rng.choice(dirs).unwrap(), rng.choice(dirs).unwrap());
    let name = "n".repeat(rng.usize(1..20));
    let name = name.as_bytes();
    match rng.u8(..12) {
        0 => drop(make(fs, dir, name, NewKind::Regular)),
        1 | 2 => drop(make(fs, dir, name, NewKind::Directory)),
        3 => drop(fs.unlink(&caller, dir, name)),
        4 | 5 => drop(fs.rmdir(&caller, dir, name)),
        6 | 7 => {
            let plain = RenameFlags::empty();
            let flags = [plain, RenameFlags::EXCHANGE, RenameFlags::WHITEOUT];
            let flags = *rng.choice(&flags).unwrap();
            let other = "n".repeat(rng.usize(1..20));
            drop(fs.rename(&caller, dir, name, to, other.as_bytes(), flags));
        }
        _ => {
            if let Ok(node) = fs.lookup(&caller, dir, name) {
                change_node(fs, &node, rng);
            }
        }
    }
}

fn change_node(fs: &Ext4, node: &InodeRef, rng: &mut Rng) {
    let caller = Caller::root();
    match rng.u8(..4) {
        0 => drop(set(fs, node, b"user.a", &vec![b'v'; rng.usize(..60)])),
        1 => {
            let names: [&[u8]; 2] = [b"system.posix_acl_default", b"system.posix_acl_access"];
            drop(set(fs, node, names[rng.usize(..2)], &acl(rng.u32(..6))));
            let change = with(|o: &mut SetAttr| o.mode = Some(rng.u16(..0o1000)));
            drop(fs.setattr(&caller, node, &change));
        }
        2 => {
            let flags = [IoFlags::APPEND, IoFlags::empty()][rng.usize(..2)];
            let data = vec![b'd'; rng.usize(..200)];
            drop(
                fs.files
                    .write_with(node, rng.u64(..100), &data, flags, true),
            );
            drop(fs.files.truncate(node, rng.u64(..150)));
        }
        _ => {
            drop(make(fs, node, b"sub", NewKind::Regular));
            drop(fs.lookup(&caller, node, b".."));
            drop(fs.unlink(&caller, node, b"sub"));
        }
    }
}

/// Writes a file until there is no space; gives its size.
fn fill(fs: &Ext4, full: &InodeRef, piece: usize) -> u64 {
    let mut at = 0;
    while let Ok(n) = fs.files.write(full, at, &vec![1; piece], true) {
        at += n as u64;
    }
    at
}

/// Large values of several files come and go where there is hardly space.
#[test]
fn large_values_where_space_is_short() {
    for round in 0..env_number("UEXT4_STRESS", 3) {
        let shape = Shape {
            bytes: 24 << 20,
            ..Shape::LARGE_VALUES[[1, 3, 0][round as usize % 3]]
        };
        let device = Arc::new(shape.make().expect("an image"));
        let fs = mount_as(device.clone(), round + 1).expect("mounts");
        let root = fs.root().expect("there").clone();
        let full = make(&fs, &root, b"full", NewKind::Regular).expect("is made");
        let size = fill(&fs, &full, 64 << 10);
        fs.resize(&full, size - (300 << 10));
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let mut rng = Rng::with_seed(round * 16 + thread);
                let (fs, root) = (&*fs, &root);
                scope.spawn(move || (0..300).for_each(|_| change_value(fs, root, &mut rng)));
            }
        });
        drop((root, full));
        fs.end_on(&device);
    }
}

fn change_value(fs: &Ext4, root: &InodeRef, rng: &mut Rng) {
    let caller = Caller::root();
    let name = format!("f{}", rng.u8(..4));
    let Ok(node) = fs.lookup(&caller, root, name.as_bytes()) else {
        drop(make(fs, root, name.as_bytes(), NewKind::Regular));
        return;
    };
    let attr = format!("user.{}", rng.u8(..6));
    let attr = attr.as_bytes();
    let len = [10, 100, 900, 5000, 30_000, 65_000][rng.usize(..6)];
    match rng.u8(..10) {
        0..6 => drop(set(fs, &node, attr, &vec![rng.u8(..); len])),
        6 => drop(fs.removexattr(&caller, &node, attr)),
        7 => match fs.getxattr(&caller, &node, attr) {
            Ok(value) => assert!(value.iter().all(|b| *b == value[0])),
            Err(why) => assert_eq!(why.errno(), Errno::ENODATA),
        },
        8 => drop(fs.unlink(&caller, root, name.as_bytes())),
        _ => fs.sync().expect("syncs"),
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
            is_atomic: false,
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
    let root = fs.root().expect("there").clone();
    let file = make(&fs, &root, b"f", NewKind::Regular).expect("is made");
    journal(&fs, &file, true);
    fs.put(&file, 0, b"x");
    fs.fallocate(&file, Fallocate::AllocateKeepSize, 0, 200 << 20)
        .expect("allocates");
    drop(file);
    let before = fs.volume.journal().stats().overruns;
    FileSystem::unlink(&*fs, &Caller::root(), &root, b"f").expect("goes");
    let after = fs.volume.journal().stats().overruns;
    drop(root);
    fs.end_on(&device);
    assert_eq!(before, after, "more was changed than the handle asked for");
}

/// Anything that takes blocks, where there are never more than a few.
#[test]
fn everything_runs_out_of_space() {
    let shapes = [
        Shape::SMALL_JOURNAL[0],
        Shape::LARGE_VALUES[1],
        Shape::INLINE[1],
        Shape::BLOCK_MAPPED[0],
        Shape::LARGE_VALUES[3],
        Shape::BLOCK_MAPPED[2],
    ];
    for round in 0..env_number("UEXT4_STRESS", 6) {
        let shape = Shape {
            bytes: 24 << 20,
            ..shapes[round as usize % shapes.len()]
        };
        let device = Arc::new(shape.make().expect("an image"));
        let data = (round % 4 == 3).then_some(DataMode::Journal);
        let fs = mount_in(device.clone(), round + 1, data).expect("mounts");
        let root = fs.root().expect("there").clone();
        let full = make(&fs, &root, b"full", NewKind::Regular).expect("is made");
        let dir = make(&fs, &root, b"d", NewKind::Directory).expect("is made");
        let make_file = |i| make(&fs, &root, format!("f{i}").as_bytes(), NewKind::Regular);
        let files: Vec<InodeRef> = (0..4).map(|i| make_file(i).expect("is made")).collect();
        journal(&fs, &files[3], true);
        let block = u64::from(fs.volume.superblock().geometry.block_size);
        let mut at = fill(&fs, &full, block as usize);
        let mut rng = Rng::with_seed(round);
        for step in 0..3000 {
            if step % 5 == 0 && at > 0 {
                at -= block;
                fs.resize(&full, at);
            }
            let file = rng.choice(&files).unwrap();
            match rng.u8(..9) {
                0..5 => change_blocks(&fs, file, block, &mut rng),
                _ => change_names(&fs, [&root, &dir, file], &mut rng),
            }
            if rng.u16(..600) == 0 || step == 2999 {
                fs.sync().expect("syncs");
                let image = Arc::new((*device).clone());
                mount(image.clone()).expect("recovers").end_on(&image);
            }
        }
        drop((root, full, dir, files));
        fs.end_on(&device);
    }
}

fn change_blocks(fs: &Ext4, file: &InodeRef, block: u64, rng: &mut Rng) {
    let (at, len) = (rng.u64(..2000) * block, rng.u64(1..5) * block);
    let what = match rng.u8(..9) {
        0..4 => return drop(fs.files.write(file, at, b"x", true)),
        4 => Fallocate::PunchHole,
        5 => Fallocate::InsertRange,
        6 => Fallocate::CollapseRange,
        7 => Fallocate::ZeroRange,
        _ => Fallocate::AllocateKeepSize,
    };
    drop(fs.fallocate(file, what, at, len));
}

fn change_names(fs: &Ext4, [root, dir, file]: [&InodeRef; 3], rng: &mut Rng) {
    let caller = Caller::root();
    let name = format!("{:0>200}", rng.u32(..4000));
    let name = name.as_bytes();
    match rng.u8(..7) {
        0 => drop(make(fs, dir, name, NewKind::Directory)),
        1 => drop(make(fs, dir, name, NewKind::Symlink(name))),
        2 | 3 => drop(fs.link(&caller, file, dir, name)),
        4 => {
            let attr = format!("user.{}", rng.u8(..8));
            let node = if rng.bool() { file } else { dir };
            if set(fs, node, attr.as_bytes(), &vec![7; rng.usize(..3000)]).is_err() {
                drop(fs.removexattr(&caller, node, attr.as_bytes()));
            }
        }
        5 => drop(set(
            fs,
            dir,
            b"system.posix_acl_default",
            &acl(rng.u32(..40)),
        )),
        _ => drop(fs.rename(&caller, dir, name, root, b"moved", RenameFlags::WHITEOUT)),
    }
}
