//! Direct I/O, schedule by schedule, over whole file systems: no block is given twice, no call reads what
//! was never written, and what was synced survives a power loss.
//!
//! Free blocks hold [`STALE`] bytes; a file that shows one shows what it must not.
use crate::file_system::{Base, FILE, Shape, assert_clean, explore_part, lock, mount};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use uext4_testkit::prelude::*;

/// One group.
const SMALL: Shape = Shape {
    bytes: 3 << 20,
    inodes: 64,
    files: 0,
    features: "",
};

/// The unit of direct I/O, and how many of them a block has.
const SECTOR: usize = 512;
const PER_BLOCK: usize = 2;

/// What free blocks hold, what the file held before, and what each thread writes.
const STALE: u8 = 0xee;
const OLD: u8 = 0x11;
const A: u8 = 0xa1;
const B: u8 = 0xb2;
const C: u8 = 0xc3;

/// How a file system is mounted.
#[derive(Clone, Copy, Debug)]
struct Variant {
    dio_lock: DioLock,
    dioread_nolock: bool,
}

impl Variant {
    fn options(self) -> MountOptions {
        MountOptions {
            dio_lock: self.dio_lock,
            dioread_nolock: self.dioread_nolock,
            ..MountOptions::default()
        }
    }
}

/// Explores a scenario on images whose free blocks hold stale bytes, for each variant in each mode.
fn explore_variants(scenario: fn(&Base, Variant)) {
    explore_variants_on(leave_stale, scenario);
}

/// Uses an image so that its free blocks hold stale bytes.
fn leave_stale(device: &Arc<MemoryDevice>) {
    let fs = mount(device.clone(), MountOptions::default());
    let file = make_file(&fs, b"stale");
    let data = vec![STALE; 256 << 10];
    fs.files.write(&file, 0, &data, true).expect("write");
    drop(file);
    let top = fs.namei.root().expect("root").clone();
    fs.namei
        .unlink(&Caller::root(), &top, b"stale")
        .expect("unlink");
    drop(top);
    fs.unmount().expect("unmount");
}

/// The same, on images that were used so.
fn explore_variants_on(uses: fn(&Arc<MemoryDevice>), scenario: fn(&Base, Variant)) {
    let base = Base::make_used(SMALL, uses);
    for dio_lock in DioLock::ALL {
        for dioread_nolock in [true, false] {
            // Without dioread_nolock it is the same as `exclusive-first`.
            if dio_lock == DioLock::SharedFirst && !dioread_nolock {
                continue;
            }
            let base = Arc::clone(&base);
            let variant = Variant {
                dio_lock,
                dioread_nolock,
            };
            explore_part(3, move || scenario(&base, variant));
        }
    }
}

fn make_file(fs: &Ext4, name: &[u8]) -> InodeRef {
    let top = fs.namei.root().expect("root").clone();
    fs.namei
        .create(&Caller::root(), &top, name, &FILE)
        .expect("create")
}

/// Writes `byte` to sectors, directly; where it began, in sectors.
fn write(fs: &Ext4, file: &InodeRef, sectors: &Range<usize>, byte: u8, flags: IoFlags) -> usize {
    let data = Aligned::filled(sectors.len() * SECTOR, byte);
    let at = (sectors.start * SECTOR) as u64;
    let written = fs
        .files
        .write_with(file, at, data.bytes(), IoFlags::DIRECT | flags, true)
        .expect("write");
    assert_eq!(written.len, data.bytes().len());
    written.offset as usize / SECTOR
}

/// Each sector's byte, directly read; all of a sector must have the same.
fn read(fs: &Ext4, file: &InodeRef, sectors: usize) -> Vec<u8> {
    let mut data = Aligned::filled(sectors * SECTOR, 0xdd);
    let n = fs
        .files
        .read_with(file, 0, data.bytes_mut(), IoFlags::DIRECT)
        .expect("read");
    let sectors = data.bytes()[..n].chunks(SECTOR);
    let bytes = sectors.enumerate().map(|(at, sector)| {
        assert!(
            sector.iter().all(|b| *b == sector[0]),
            "sector {at} is torn"
        );
        sector[0]
    });
    bytes.collect()
}

/// Blocks belong to one place of one file.
fn assert_apart(fs: &Ext4, files: &[&InodeRef]) {
    let mut seen = BTreeSet::new();
    for file in files {
        for extent in fs.mapping.extents(file).expect("extents") {
            for block in extent.pblk.0..extent.pblk.0 + u64::from(extent.len) {
                assert!(seen.insert(block), "block {block} was given twice");
            }
        }
    }
}

/// Some sectors of `0..end`.
fn some_range(end: usize) -> Range<usize> {
    let (a, b) = (
        thread_rng().gen_range(0..end),
        thread_rng().gen_range(0..end),
    );
    let range = a.min(b)..a.max(b) + 1;
    match thread_rng().gen_range(0..2) {
        0 => range,
        // Whole blocks.
        _ => range.start / PER_BLOCK * PER_BLOCK..range.end.next_multiple_of(PER_BLOCK).min(end),
    }
}

/// A write, and whether it has returned.
struct Writer {
    sectors: Range<usize>,
    byte: u8,
    done: AtomicBool,
}

impl Writer {
    fn new(sectors: Range<usize>, byte: u8) -> Arc<Writer> {
        Arc::new(Writer {
            sectors,
            byte,
            done: AtomicBool::new(false),
        })
    }

    fn run(&self, fs: &Ext4, file: &InodeRef) {
        write(fs, file, &self.sectors, self.byte, IoFlags::empty());
        self.done.store(true, SeqCst);
    }
}

/// What a read of sectors may have found, that began when the writers of `done` had returned.
fn judge(found: &[u8], before: &[u8], writers: &[Arc<Writer>], done: &[bool]) {
    for (at, byte) in found.iter().enumerate() {
        let here = || {
            writers
                .iter()
                .zip(done)
                .filter(|(w, _)| w.sectors.contains(&at))
        };
        let was_before = *byte == before[at] && !here().any(|(_, done)| *done);
        let was_written = here().any(|(w, _)| w.byte == *byte);
        let ranges: Vec<_> = writers.iter().map(|w| (&w.sectors, w.byte)).collect();
        assert!(
            was_before || was_written,
            "sector {at} is {byte:#x}: {found:x?} after {before:x?} by {ranges:x?}, {done:?} returned"
        );
    }
}

/// Two writers fill holes, blocks that were never written and others, alike or apart, beside a reader.
fn fill(base: &Base, variant: Variant) {
    const SECTORS: usize = 10;
    let device = base.device();
    let fs = mount(device.clone(), variant.options());
    let file = make_file(&fs, b"file");
    let mut before = vec![0; SECTORS];
    fs.files
        .truncate(&file, (SECTORS * SECTOR) as u64)
        .expect("size");
    if thread_rng().r#gen() {
        let allocates = Fallocate::Allocate;
        fs.files
            .fallocate(&file, allocates, 0, (SECTORS * SECTOR) as u64)
            .expect("fallocate");
    }
    if thread_rng().r#gen() {
        write(&fs, &file, &(4..6), OLD, IoFlags::empty());
        before[4..6].fill(OLD);
    }
    let writers = [
        Writer::new(some_range(SECTORS), A),
        Writer::new(some_range(SECTORS), B),
    ];
    let mut threads = Vec::new();
    for writer in &writers {
        let (fs, file, writer) = (Arc::clone(&fs), file.clone(), Arc::clone(writer));
        threads.push(thread::spawn(move || writer.run(&fs, &file)));
    }
    {
        let (fs, file) = (Arc::clone(&fs), file.clone());
        let (writers, before) = (writers.clone(), before.clone());
        threads.push(thread::spawn(move || {
            for _ in 0..2 {
                let done = writers.each_ref().map(|w| w.done.load(SeqCst));
                judge(&read(&fs, &file, SECTORS), &before, &writers, &done);
            }
        }));
    }
    threads
        .into_iter()
        .for_each(|t| t.join().expect("no panic"));
    let found = read(&fs, &file, SECTORS);
    judge(&found, &before, &writers, &[true; 2]);
    for (no, block) in found.chunks(PER_BLOCK).enumerate() {
        let all =
            |w: &Arc<Writer>| (0..PER_BLOCK).all(|i| w.sectors.contains(&(no * PER_BLOCK + i)));
        let mixed = writers.iter().all(all) && block[0] != block[1];
        assert!(!mixed, "block {no} is of both writers");
    }
    assert_apart(&fs, &[&file]);
    drop(file);
    fs.unmount().expect("unmount");
    assert_clean(&*device);
}

/// The blocks of a file on the device.
fn blocks(fs: &Ext4, file: &InodeRef) -> BTreeSet<u64> {
    let extents = fs.mapping.extents(file).expect("extents");
    let blocks = extents
        .iter()
        .flat_map(|e| e.pblk.0..e.pblk.0 + u64::from(e.len));
    blocks.collect()
}

/// What blocks hold, whosever they are.
fn raw(fs: &Ext4, blocks: &BTreeSet<u64>) -> Vec<(u64, u8)> {
    let byte = |block: &u64| {
        let mut data = [0; PER_BLOCK * SECTOR];
        let at = block * data.len() as u64;
        fs.volume.device().read_at(at, &mut data).expect("read");
        (*block, data[0])
    };
    blocks.iter().map(byte).collect()
}

/// What is taken from a file that is written and read is given to another one.
fn take(base: &Base, variant: Variant) {
    const SECTORS: usize = 12;
    const TAKEN: Range<usize> = 4..8;
    let device = base.device();
    let fs = mount(device.clone(), variant.options());
    let (file, other) = (make_file(&fs, b"file"), make_file(&fs, b"other"));
    write(&fs, &file, &(0..SECTORS), OLD, IoFlags::empty());
    let before = blocks(&fs, &file);
    let truncates = thread_rng().r#gen();
    let writer = {
        let (fs, file) = (Arc::clone(&fs), file.clone());
        thread::spawn(move || write(&fs, &file, &(2..10), A, IoFlags::empty()))
    };
    let reader = {
        let (fs, file) = (Arc::clone(&fs), file.clone());
        thread::spawn(move || {
            for _ in 0..2 {
                let found = read(&fs, &file, SECTORS);
                let good = found.iter().all(|byte| [OLD, A, 0].contains(byte));
                assert!(good, "read {found:x?}");
            }
        })
    };
    let (offset, len) = (TAKEN.start * SECTOR, TAKEN.len() * SECTOR);
    if truncates {
        fs.files.truncate(&file, offset as u64).expect("truncate");
    } else {
        let punches = Fallocate::PunchHole;
        fs.files
            .fallocate(&file, punches, offset as u64, len as u64)
            .expect("punch");
    }
    let gone: BTreeSet<u64> = &before - &blocks(&fs, &file);
    let left = raw(&fs, &gone);
    // Then the blocks are free.
    fs.volume.journal().sync().expect("commit");
    write(&fs, &other, &(0..TAKEN.len()), C, IoFlags::empty());
    writer.join().expect("no panic");
    reader.join().expect("no panic");
    assert_eq!(read(&fs, &other, SECTORS), [C; 4]);
    let mut unused: BTreeSet<u64> = &gone - &blocks(&fs, &file);
    unused = &unused - &blocks(&fs, &other);
    for block in left.iter().filter(|(no, _)| unused.contains(no)) {
        let now = raw(&fs, &BTreeSet::from([block.0]));
        assert_eq!(now, [*block], "a free block was written");
    }
    let found = read(&fs, &file, SECTORS);
    for (at, byte) in found.iter().enumerate() {
        let gone = TAKEN.contains(&at) || truncates && at >= TAKEN.start;
        let may = match (gone, (2..10).contains(&at)) {
            (true, true) => [A, 0],
            (true, false) => [0, 0],
            (false, true) => [A, A],
            (false, false) => [OLD, OLD],
        };
        assert!(may.contains(byte), "sector {at}: {found:x?}");
    }
    assert_apart(&fs, &[&file, &other]);
    drop((file, other));
    fs.unmount().expect("unmount");
    assert_clean(&*device);
}

/// A file of one and a half blocks, to be extended; what it holds to its end, and stale bytes behind.
fn make_short(fs: &Ext4) -> InodeRef {
    let file = make_file(fs, b"file");
    write(fs, &file, &(0..4), STALE, IoFlags::empty());
    write(fs, &file, &(0..3), OLD, IoFlags::empty());
    fs.files
        .truncate(&file, 3 * SECTOR as u64)
        .expect("truncate");
    file
}

/// Reads twice whatever there is; nothing of it may be stale.
fn watch(fs: &Arc<Ext4>, file: &InodeRef) -> thread::JoinHandle<()> {
    let (fs, file) = (Arc::clone(fs), file.clone());
    thread::spawn(move || {
        for _ in 0..2 {
            let found = read(&fs, &file, 20);
            let good = found.iter().all(|byte| [OLD, A, B, 0].contains(byte));
            assert!(good, "read {found:x?}");
        }
    })
}

/// Two threads append.
fn append(base: &Base, variant: Variant) {
    let device = base.device();
    let fs = mount(device.clone(), variant.options());
    let file = make_short(&fs);
    let reader = watch(&fs, &file);
    let places = [A, B].map(|byte| {
        let (fs, file) = (Arc::clone(&fs), file.clone());
        let lens: [usize; 2] = [(); 2].map(|()| thread_rng().gen_range(1..4));
        thread::spawn(move || {
            lens.map(|len| {
                let at = write(&fs, &file, &(0..len), byte, IoFlags::APPEND);
                (at..at + len, byte)
            })
        })
    });
    let places = places.map(|t| t.join().expect("no panic")).concat();
    reader.join().expect("no panic");
    let mut want = vec![OLD; 3];
    let added: usize = places.iter().map(|(sectors, _)| sectors.len()).sum();
    want.resize(3 + added, 0);
    for (sectors, byte) in &places {
        let place = want[sectors.clone()].iter_mut();
        place.for_each(|to| {
            assert_eq!(*to, 0, "appends overlap: {places:x?}");
            *to = *byte;
        });
    }
    assert_eq!(file.size() as usize, want.len() * SECTOR);
    assert_eq!(read(&fs, &file, want.len() + 2), want);
    assert_apart(&fs, &[&file]);
    drop(file);
    fs.unmount().expect("unmount");
    assert_clean(&*device);
}

/// Two threads write past the end, with a gap.
fn extend(base: &Base, variant: Variant) {
    let device = base.device();
    let fs = mount(device.clone(), variant.options());
    let file = make_short(&fs);
    let reader = watch(&fs, &file);
    let starts =
        [(A, 5..8), (B, 9..13)].map(|(byte, starts)| (byte, thread_rng().gen_range(starts)));
    let writers = starts.map(|(byte, start)| {
        let len = thread_rng().gen_range(1..5);
        Writer::new(start..start + len, byte)
    });
    let threads = writers.clone().map(|writer| {
        let (fs, file) = (Arc::clone(&fs), file.clone());
        thread::spawn(move || writer.run(&fs, &file))
    });
    threads
        .into_iter()
        .for_each(|t| t.join().expect("no panic"));
    reader.join().expect("no panic");
    let end = writers.iter().map(|w| w.sectors.end).max().unwrap_or(0);
    let found = read(&fs, &file, 20);
    assert_eq!(found.len(), end);
    let mut before = vec![0; end];
    before[..3].fill(OLD);
    judge(&found, &before, &writers, &[true; 2]);
    assert_apart(&fs, &[&file]);
    drop(file);
    fs.unmount().expect("unmount");
    assert_clean(&*device);
}

/// One thread writes past the end while another cuts the file.
fn extend_and_truncate(base: &Base, variant: Variant) {
    let device = base.device();
    let fs = mount(device.clone(), variant.options());
    let file = make_short(&fs);
    let reader = watch(&fs, &file);
    let start = thread_rng().gen_range(2..8);
    let sectors = start..start + thread_rng().gen_range(2..4);
    let keeps = thread_rng().gen_range(0..4);
    let writer = {
        let (fs, file, sectors) = (Arc::clone(&fs), file.clone(), sectors.clone());
        thread::spawn(move || write(&fs, &file, &sectors, A, IoFlags::empty()))
    };
    fs.files
        .truncate(&file, (keeps * SECTOR) as u64)
        .expect("cut");
    writer.join().expect("no panic");
    reader.join().expect("no panic");
    let found = read(&fs, &file, 20);
    let content = |len: usize, old: usize| -> Vec<u8> {
        let byte = |at| match at {
            at if sectors.contains(&at) => A,
            at if at < old => OLD,
            _ => 0,
        };
        (0..len).map(byte).collect()
    };
    let cut_first = content(sectors.end, keeps.min(3));
    let cut_last = match keeps > sectors.end {
        true => content(keeps, 3),
        false => content(sectors.end, 3)[..keeps].to_vec(),
    };
    assert!(
        found == cut_first || found == cut_last,
        "{found:x?} after writing {sectors:?} and cutting at {keeps}"
    );
    drop(file);
    fs.unmount().expect("unmount");
    assert_clean(&*device);
}

/// Two writers cut what they write out of extents that were never written, whose tree has no room, on a
/// device without a free block: all of an extent is zeroed instead, but for what others write.
fn full(base: &Base, variant: Variant) {
    let device = base.device();
    let fs = mount(device.clone(), variant.options());
    let top = fs.namei.root().expect("root").clone();
    let file = fs
        .namei
        .lookup(&Caller::root(), &top, b"file")
        .expect("file");
    let writers = [
        Writer::new(some_range(FULL_SECTORS), A),
        Writer::new(some_range(FULL_SECTORS), B),
    ];
    let threads = writers.clone().map(|writer| {
        let (fs, file) = (Arc::clone(&fs), file.clone());
        thread::spawn(move || writer.run(&fs, &file))
    });
    for _ in 0..2 {
        let done = writers.each_ref().map(|w| w.done.load(SeqCst));
        let found = read(&fs, &file, FULL_SECTORS);
        judge(&found, &full_content(), &writers, &done);
    }
    threads
        .into_iter()
        .for_each(|t| t.join().expect("no panic"));
    let found = read(&fs, &file, FULL_SECTORS);
    judge(&found, &full_content(), &writers, &[true; 2]);
    drop((file, top));
    fs.unmount().expect("unmount");
    assert_clean(&*device);
}

/// The size of the file of [`full`].
const FULL_SECTORS: usize = 30;

/// What the file of [`full`] holds at first.
fn full_content() -> Vec<u8> {
    let mut content = vec![0; FULL_SECTORS];
    content[14..16].fill(OLD);
    content
}

/// Makes the image of [`full`]: three of the four extents that the root of the tree has room for.
fn fill_up(device: &Arc<MemoryDevice>) {
    leave_stale(device);
    let fs = mount(device.clone(), MountOptions::default());
    let (file, hog) = (make_file(&fs, b"file"), make_file(&fs, b"hog"));
    let give = |file: &InodeRef, what, sectors: Range<usize>| {
        let (at, len) = (sectors.start * SECTOR, sectors.len() * SECTOR);
        fs.files.fallocate(file, what, at as u64, len as u64)
    };
    give(&file, Fallocate::Allocate, 0..FULL_SECTORS).expect("fallocate");
    write(&fs, &file, &(14..16), OLD, IoFlags::empty());
    for len in [512, 64, 2] {
        let next = |hog: &InodeRef| hog.size() as usize / SECTOR;
        while give(&hog, Fallocate::Allocate, next(&hog)..next(&hog) + len).is_ok() {}
    }
    drop((file, hog));
    fs.unmount().expect("unmount");
}

/// What was written and synced, and the place in the device's log where that was known.
type Synced = Mutex<Vec<(Range<usize>, u8, usize)>>;

/// Two writers fill a hole and extend the file, and sync, beside commits; then the power is lost at each
/// sync's end and at some other moments.
fn power_loss(base: &Base, variant: Variant) {
    let device: Arc<RecordDevice<Arc<MemoryDevice>>> =
        Arc::new(RecordDevice::new(base.device()).expect("record"));
    let fs = mount(device.clone(), variant.options());
    let file = make_file(&fs, b"file");
    fs.files.truncate(&file, 5 * SECTOR as u64).expect("size");
    fs.sync().expect("sync");
    let start = device.ops_len();
    let synced = Arc::new(Synced::default());
    let works = match thread_rng().gen_range(0..3) {
        0 => [(0..2, A), (2..5, B)],
        1 => [(1..4, A), (6..9, B)],
        _ => [(4..7, A), (8..10, B)],
    };
    let threads = works.clone().map(|(sectors, byte)| {
        let (fs, file, device) = (Arc::clone(&fs), file.clone(), Arc::clone(&device));
        let (synced, data_only) = (Arc::clone(&synced), thread_rng().r#gen());
        thread::spawn(move || {
            write(&fs, &file, &sectors, byte, IoFlags::empty());
            fs.files.fsync(&file, data_only).expect("fsync");
            let at = device.ops_len();
            lock(&synced).push((sectors, byte, at));
        })
    });
    fs.volume.journal().sync().expect("commit");
    threads
        .into_iter()
        .for_each(|t| t.join().expect("no panic"));
    drop(file);
    fs.unmount().expect("unmount");
    assert_clean(&*device);

    let log = device.log();
    let synced = lock(&synced);
    let mut cuts: Vec<usize> = synced.iter().map(|(_, _, at)| *at).collect();
    cuts.extend([(); 2].map(|()| thread_rng().gen_range(start..=log.ops.len())));
    cuts.sort_unstable();
    let mut replayer = log.replayer();
    for cut in cuts {
        let seed = thread_rng().r#gen();
        let image = Arc::new(replayer.image_at(&Cut::at(cut).seeded(seed)));
        let fs = mount(image.clone(), variant.options());
        let top = fs.namei.root().expect("root").clone();
        let file = fs
            .namei
            .lookup(&Caller::root(), &top, b"file")
            .expect("the file");
        let found = read(&fs, &file, 20);
        for (at, byte) in found.iter().enumerate() {
            let mut writers = works.iter().filter(|(sectors, _)| sectors.contains(&at));
            let good = *byte == 0 || writers.any(|(_, b)| b == byte);
            assert!(good, "sector {at} at {cut}: {found:x?}");
        }
        for (sectors, byte, _) in synced.iter().filter(|(_, _, at)| *at <= cut) {
            let kept = found.get(sectors.clone());
            assert!(
                kept.is_some_and(|kept| kept.iter().all(|b| b == byte)),
                "{sectors:?} is lost at {cut}: {found:x?}"
            );
        }
        drop((file, top));
        fs.unmount().expect("unmount");
        assert_clean(&*image);
    }
}

#[test]
fn shuttle_fill() {
    explore_variants(fill);
}

#[test]
fn shuttle_take() {
    explore_variants(take);
}

#[test]
fn shuttle_append() {
    explore_variants(append);
}

#[test]
fn shuttle_extend() {
    explore_variants(extend);
}

#[test]
fn shuttle_extend_and_truncate() {
    explore_variants(extend_and_truncate);
}

#[test]
fn shuttle_full() {
    explore_variants_on(fill_up, full);
}

#[test]
fn shuttle_dio_power_loss() {
    explore_variants(power_loss);
}
