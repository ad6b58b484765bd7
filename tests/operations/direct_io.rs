//! Direct I/O and fallocate where space, lengths or permission end.

use std::sync::Weak;
use uext4_ondisk::{EXTENT_LEN_MAX_UNWRITTEN, Extent};
use uext4_testkit::image::in_memory;
use uext4_testkit::mke2fs;
use uext4_testkit::prelude::*;
use uext4_vfs::open_file::{OpenFile, OpenFlags};

const BLOCK: u64 = 4096;

/// Every variant in both modes.
fn variants() -> impl Iterator<Item = MountOptions> {
    DioLock::ALL.into_iter().flat_map(|dio_lock| {
        [true, false].map(|dioread_nolock| {
            with(|o: &mut MountOptions| (o.dio_lock, o.dioread_nolock) = (dio_lock, dioread_nolock))
        })
    })
}

fn mount(device: &Arc<MemoryDevice>, options: &MountOptions) -> Arc<Ext4> {
    Ext4::mount(Arc::clone(device) as Arc<_>, options.clone()).expect("mount")
}

fn make(fs: &Ext4, name: &str) -> InodeRef {
    let top = fs.top();
    let made = fs.create(&Caller::root(), &top, name.as_bytes(), &FILE);
    made.expect("create")
}

fn write(fs: &Ext4, file: &InodeRef, at: u64, len: u64, byte: u8) -> Result<usize, Ext4Error> {
    let data = Aligned::filled(len as usize, byte);
    let written = fs
        .files
        .write_with(file, at, data.bytes(), IoFlags::DIRECT, true)?;
    Ok(written.len)
}

fn read(fs: &Ext4, file: &InodeRef, at: u64, len: u64) -> Vec<u8> {
    let mut data = Aligned::filled(len as usize, 0xdd);
    let n = fs
        .read_with(file, at, data.bytes_mut(), IoFlags::DIRECT)
        .expect("read");
    data.bytes()[..n].to_vec()
}

/// Whether a block of the file holds this byte.
fn is_block(fs: &Ext4, file: &InodeRef, block: u64, byte: u8) -> bool {
    read(fs, file, block * BLOCK, BLOCK) == vec![byte; BLOCK as usize]
}

/// Leaves not one block free.
fn fill_up(fs: &Ext4) {
    fs.sync().expect("sync");
    let hog = make(fs, "hog");
    let mut at = 0;
    for step in [4 << 20, 64 << 10, BLOCK] {
        while fs.fallocate(&hog, Fallocate::Allocate, at, step).is_ok() {
            at += step;
        }
        at = hog.size().next_multiple_of(BLOCK);
    }
    assert_eq!(FileSystem::statfs(fs).expect("statfs").blocks_free, 0);
}

/// What fallocate gave blocks to can be written when none is left, though that cuts extents and their
/// tree has no room.
#[test]
fn allocated_blocks_can_be_written_on_a_full_device() {
    for options in variants() {
        let device = in_memory(12 << 20, BLOCK as u32);
        let fs = mount(&device, &options);
        let file = make(&fs, "file");
        const BLOCKS: u64 = 64;
        fs.fallocate(&file, Fallocate::Allocate, 0, BLOCKS * BLOCK)
            .expect("fallocate");
        fill_up(&fs);
        for block in (1..BLOCKS).step_by(3) {
            let result = write(&fs, &file, block * BLOCK + 512, 1024, 7);
            assert!(
                matches!(result, Ok(1024)),
                "{block}: {result:?}, {options:?}"
            );
        }
        for block in 0..BLOCKS {
            let mut want = vec![0; BLOCK as usize];
            if block % 3 == 1 {
                want[512..1536].fill(7);
            }
            assert!(read(&fs, &file, block * BLOCK, BLOCK) == want, "{block}");
        }
        fs.end_on(&device);
    }
}

/// Of blocks past the size none becomes written but with data, even if it takes room that is not there.
#[test]
fn blocks_past_the_size_on_a_full_device() {
    for options in variants() {
        let device = in_memory(12 << 20, BLOCK as u32);
        let fs = mount(&device, &options);
        let file = make(&fs, "file");
        const BLOCKS: u64 = 64;
        fs.fallocate(&file, Fallocate::AllocateKeepSize, 0, BLOCKS * BLOCK)
            .expect("fallocate");
        fill_up(&fs);
        let mut want = Vec::new();
        for block in (1..BLOCKS).step_by(3) {
            match write(&fs, &file, block * BLOCK, 512, 7) {
                Ok(_) => {
                    want.resize((block * BLOCK) as usize, 0);
                    want.resize((block * BLOCK) as usize + 512, 7);
                }
                Err(why) => assert!(matches!(why, Ext4Error::NoSpace), "{why}"),
            }
            assert_eq!(file.size(), want.len() as u64);
        }
        assert!(read(&fs, &file, 0, BLOCKS * BLOCK) == want);
        fs.end_on(&device);
    }
}

/// A write that meets the end of space has written a part, or nothing; what was there stays.
#[test]
fn a_full_device_leaves_files_intact() {
    for options in variants() {
        let device = in_memory(12 << 20, BLOCK as u32);
        let fs = mount(&device, &options);
        let file = make(&fs, "file");
        const BLOCKS: u64 = 40;
        fs.resize(&file, BLOCKS * BLOCK);
        for block in (0..BLOCKS).step_by(2) {
            write(&fs, &file, block * BLOCK, BLOCK, 1 + block as u8).expect("write");
        }
        fs.sync().expect("sync");
        let spare = make(&fs, "spare");
        write(&fs, &spare, 0, 3 * BLOCK, 9).expect("write");
        fill_up(&fs);
        let intact = |filled: u64| {
            for block in 0..BLOCKS {
                let byte = match block % 2 {
                    0 => 1 + block as u8,
                    _ if block < filled => 0xaa,
                    _ => 0,
                };
                assert!(is_block(&fs, &file, block, byte), "{block}, {options:?}");
            }
        };
        // Into a hole, past the end, and as an append: nothing.
        let hole = write(&fs, &file, BLOCK, BLOCK, 0xaa);
        assert!(matches!(hole, Err(Ext4Error::NoSpace)), "{hole:?}");
        let past = write(&fs, &file, (BLOCKS + 3) * BLOCK, BLOCK, 0xaa);
        assert!(matches!(past, Err(Ext4Error::NoSpace)), "{past:?}");
        intact(0);
        assert_eq!(file.size(), BLOCKS * BLOCK);
        // Overwriting needs no space.
        write(&fs, &file, 0, BLOCK, 1).expect("overwrite");
        for what in [Fallocate::Allocate, Fallocate::ZeroRangeKeepSize] {
            let result = fs.files.fallocate(&file, what, 5 * BLOCK, BLOCK);
            assert!(matches!(result, Err(Ext4Error::NoSpace)), "{result:?}");
        }
        intact(0);
        // With three free blocks, a part: a block is there in whole or not at all.
        fs.resize(&spare, 0);
        let part = Aligned::filled((BLOCKS * BLOCK) as usize, 0xaa);
        let written = fs.files.write_with(
            &file,
            BLOCK,
            &part.bytes()[..BLOCK as usize],
            IoFlags::DIRECT,
            true,
        );
        let written = written.expect("one block");
        assert_eq!(written.len as u64, BLOCK);
        intact(2);
        let flags = IoFlags::DIRECT | IoFlags::APPEND;
        let end_of_space =
            fs.files
                .write_with(&file, 0, &part.bytes()[..8 * BLOCK as usize], flags, true);
        match end_of_space {
            Ok(written) => {
                assert!(written.len as u64 <= 2 * BLOCK);
                assert_eq!(file.size(), BLOCKS * BLOCK + written.len as u64);
            }
            Err(why) => assert!(matches!(why, Ext4Error::NoSpace), "{why}"),
        }
        intact(2);
        fs.end_on(&device);
    }
}

/// Taking blocks from a fragmented file may need one for its tree; on a full device that is refused or
/// done, but never half done to the tree.
#[test]
fn punching_on_a_full_device() {
    let options = MountOptions::default();
    let device = in_memory(12 << 20, BLOCK as u32);
    let fs = mount(&device, &options);
    let file = make(&fs, "file");
    const BLOCKS: u64 = 64;
    for block in 0..BLOCKS {
        write(&fs, &file, block * BLOCK, BLOCK, 1 + block as u8).expect("write");
    }
    fill_up(&fs);
    let mut punched = vec![false; BLOCKS as usize];
    for block in (1..BLOCKS).step_by(2) {
        let result = fs
            .files
            .fallocate(&file, Fallocate::PunchHole, block * BLOCK, BLOCK);
        match result {
            Ok(()) => punched[block as usize] = true,
            Err(why) => assert!(matches!(why, Ext4Error::NoSpace), "{why}"),
        }
        for (block, punched) in (0..BLOCKS).zip(&punched) {
            let byte = if *punched { 0 } else { 1 + block as u8 };
            assert!(is_block(&fs, &file, block, byte), "{block}");
        }
    }
    // What was punched first made room for the rest.
    assert!(punched.iter().skip(1).step_by(2).all(|p| *p), "{punched:?}");
    fs.end_on(&device);
}

/// Thousands of extents: trees of some levels that grow, are converted, zeroed, and go again.
#[test]
fn a_file_of_thousands_of_extents() {
    for nolock in [true, false] {
        let options = with(|o: &mut MountOptions| o.dioread_nolock = nolock);
        let device = in_memory(64 << 20, 1024);
        let fs = mount(&device, &options);
        let file = make(&fs, "file");
        let free = FileSystem::statfs(&*fs).expect("statfs").blocks_free;
        const EXTENTS: u64 = 6000;
        fs.fallocate(&file, Fallocate::Allocate, 0, 2 * EXTENTS * 1024)
            .expect("fallocate");
        for i in 0..EXTENTS {
            // All over the file, not one after the other.
            let block = 2 * (i * 2471 % EXTENTS);
            write(&fs, &file, block * 1024, 1024, 1 + (block % 200) as u8).expect("write");
        }
        assert!(fs.mapping.extents(&file).expect("extents").len() as u64 >= 2 * EXTENTS - 1);
        let check = |fs: &Ext4, file: &InodeRef, zeroed: std::ops::Range<u64>| {
            let all = read(fs, file, 0, 2 * EXTENTS * 1024);
            for (block, data) in (0..).zip(all.chunks(1024)) {
                let odd = block % 2 == 1 || zeroed.contains(&block);
                let byte = if odd { 0 } else { 1 + (block % 200) as u8 };
                assert!(data.iter().all(|b| *b == byte), "block {block}");
            }
        };
        check(&fs, &file, 0..0);
        assert_eq!(fs.seek_data(&file, 1025).expect("data"), 2048);
        assert_eq!(fs.seek_hole(&file, 2048).expect("hole"), 3072);
        let zeroed = 100..9000;
        let (at, len) = (zeroed.start * 1024, (zeroed.end - zeroed.start) * 1024);
        fs.fallocate(&file, Fallocate::ZeroRange, at, len)
            .expect("zero");
        check(&fs, &file, zeroed.clone());
        fs.fallocate(&file, Fallocate::PunchHole, at + 4096, len - 4096)
            .expect("punch");
        check(&fs, &file, zeroed.clone());
        drop(file);
        fs.end_on(&device);
        let fs = mount(&device, &options);
        let top = fs.top();
        let file = fs.get(&top, b"file");
        check(&fs, &file, zeroed);
        fs.resize(&file, 0);
        fs.sync().expect("sync");
        assert_eq!(FileSystem::statfs(&*fs).expect("statfs").blocks_free, free);
        drop((file, top));
        fs.end_on(&device);
    }
}

/// Extents up to the lengths that the format has, for written blocks one more than for others.
#[test]
fn extents_as_long_as_they_get() {
    const UNWRITTEN_MAX: u64 = EXTENT_LEN_MAX_UNWRITTEN as u64;
    const BLOCKS: u64 = 3 * UNWRITTEN_MAX + 5;
    let device = in_memory(512 << 20, 1024);
    let options = MountOptions::default();
    let fs = mount(&device, &options);
    let file = make(&fs, "file");
    let all = |fs: &Ext4| fs.mapping.extents(&file).expect("extents");
    let mapped = |extents: &[Extent]| -> u64 { extents.iter().map(|e| u64::from(e.len)).sum() };
    fs.fallocate(&file, Fallocate::Allocate, 0, BLOCKS * 1024)
        .expect("fallocate");
    assert_eq!(mapped(&all(&fs)), BLOCKS);
    // Written all through, with pieces that end anywhere.
    let data = Aligned::filled(3 << 20, 5);
    let (mut at, mut step) = (0, 1);
    while at < BLOCKS * 1024 {
        let len = (step * 1024)
            .min(BLOCKS * 1024 - at)
            .min(data.bytes().len() as u64);
        let part = &data.bytes()[..len as usize];
        let written = fs
            .files
            .write_with(&file, at, part, IoFlags::DIRECT, true)
            .expect("write");
        at += written.len as u64;
        step = step * 5 / 3 + 1;
    }
    assert!(all(&fs).iter().all(|e| !e.unwritten && e.len <= 32768));
    assert_eq!(mapped(&all(&fs)), BLOCKS);
    // And back.
    fs.fallocate(&file, Fallocate::ZeroRange, 0, BLOCKS * 1024)
        .expect("zero");
    assert!(
        all(&fs)
            .iter()
            .all(|e| e.unwritten && u64::from(e.len) <= UNWRITTEN_MAX)
    );
    assert_eq!(mapped(&all(&fs)), BLOCKS);
    // A block in the midst of each, at its ends, and across.
    for at in [
        0,
        UNWRITTEN_MAX - 1,
        UNWRITTEN_MAX,
        2 * UNWRITTEN_MAX + 1,
        BLOCKS - 2,
    ] {
        write(&fs, &file, at * 1024, 2048, 6).expect("write");
        assert_eq!(read(&fs, &file, at * 1024, 2048), [6; 2048]);
    }
    let last = read(&fs, &file, (BLOCKS - 3) * 1024, 1024);
    assert_eq!(last, [0; 1024]);
    assert_eq!(mapped(&all(&fs)), BLOCKS);
    drop(file);
    fs.end_on(&device);
}

/// What a write that had to be durable wrote is there after a power loss right after it.
#[test]
fn durable_writes_survive() {
    for options in variants() {
        for flags in [IoFlags::DSYNC, IoFlags::SYNC] {
            let inner = in_memory(12 << 20, BLOCK as u32);
            let device = Arc::new(
                RecordDevice::new(MemoryDevice::copy_of(&*inner).expect("copy")).expect("record"),
            );
            let fs = Ext4::mount(device.clone() as Arc<_>, options.clone()).expect("mount");
            let file = make(&fs, "file");
            fs.resize(&file, 4 * BLOCK);
            fs.sync().expect("sync");
            // A hole, an overwrite, an extension, an append.
            let mut want = vec![0; 4 * BLOCK as usize];
            let writes = [(0, 1), (512, 2), (5 * BLOCK, 3), (u64::MAX, 4)];
            let mut places = Vec::new();
            for (at, byte) in writes {
                let data = Aligned::filled(1024, byte);
                let (at, more) = match at {
                    u64::MAX => (0, IoFlags::APPEND),
                    at => (at, IoFlags::empty()),
                };
                let flags = IoFlags::DIRECT | flags | more;
                let written = fs
                    .files
                    .write_with(&file, at, data.bytes(), flags, true)
                    .expect("write");
                want.resize(want.len().max(written.end() as usize), 0);
                want[written.offset as usize..written.end() as usize].fill(byte);
                // What follows a cut may be there in part.
                places.push((device.ops_len(), want.clone()));
                device.mark(0);
            }
            fs.crash();
            let log = device.log();
            for (seed, (place, want)) in places.iter().enumerate() {
                for seed in [seed as u64, 100 + seed as u64, 200 + seed as u64] {
                    let image = Arc::new(log.replay(&Cut::at(*place).seeded(seed)));
                    let fs = mount(&image, &options);
                    let top = fs.top();
                    let file = fs.get(&top, b"file");
                    assert_eq!(file.size(), want.len() as u64);
                    assert!(
                        read(&fs, &file, 0, 8 * BLOCK) == *want,
                        "{options:?}, {flags:?}"
                    );
                    fs.crash();
                }
            }
        }
    }
}

/// The end of the largest file, and beyond.
#[test]
fn the_largest_file() {
    for options in variants() {
        let device = in_memory(12 << 20, BLOCK as u32);
        let fs = mount(&device, &options);
        let file = make(&fs, "file");
        let max = fs.mapping.file_bytes_max();
        assert_eq!(max, 17_592_186_040_320, "what the kernel allows");
        let errno = |e: Ext4Error| e.errno();
        assert_eq!(
            write(&fs, &file, max, BLOCK, 1).map_err(errno),
            Err(Errno::EFBIG)
        );
        let beyond = write(&fs, &file, max - BLOCK, 2 * BLOCK, 1);
        assert_eq!(beyond.map_err(errno), Err(Errno::EFBIG));
        let far = write(&fs, &file, u64::MAX - BLOCK + 1, BLOCK, 1);
        assert_eq!(far.map_err(errno), Err(Errno::EFBIG));
        let size = fs.files.truncate(&file, max + 1);
        assert_eq!(size.map_err(errno), Err(Errno::EFBIG));
        for what in [
            Fallocate::Allocate,
            Fallocate::PunchHole,
            Fallocate::ZeroRange,
        ] {
            let result = fs.files.fallocate(&file, what, max - BLOCK, 2 * BLOCK);
            assert_eq!(result.map_err(errno), Err(Errno::EFBIG));
        }
        assert_eq!(file.size(), 0);
        write(&fs, &file, max - BLOCK, BLOCK, 7).expect("the last block");
        assert_eq!(file.size(), max);
        assert_eq!(fs.seek_data(&file, 0).expect("data"), max - BLOCK);
        let append = Aligned::filled(512, 1);
        let flags = IoFlags::DIRECT | IoFlags::APPEND;
        let append = fs.files.write_with(&file, 0, append.bytes(), flags, true);
        assert_eq!(append.map(|w| w.len).map_err(errno), Err(Errno::EFBIG));
        write(&fs, &file, max - BLOCK, BLOCK, 8).expect("overwrite");
        assert_eq!(
            read(&fs, &file, max - BLOCK, 2 * BLOCK),
            [8; BLOCK as usize]
        );
        fs.fallocate(&file, Fallocate::PunchHole, max - BLOCK, BLOCK)
            .expect("punch");
        assert_eq!(
            read(&fs, &file, max - BLOCK, 2 * BLOCK),
            [0; BLOCK as usize]
        );
        write(&fs, &file, max - 512, 512, 9).expect("the last sector");
        fs.resize(&file, max - BLOCK);
        assert_eq!(fs.mapping.extents(&file).expect("extents"), []);
        write(&fs, &file, max - BLOCK, BLOCK, 1).expect("the last block again");
        drop(file);
        fs.end_on(&device);
    }
}

/// A device whose sectors have 4096 bytes.
#[derive(Debug)]
struct BigSectors(Arc<MemoryDevice>);

impl BlockDevice for BigSectors {
    forward_device!(self => self.0;
        len, is_read_only, read_at, write_at, flush, discard, zero, set_len, identity);

    fn logical_block_size(&self) -> u32 {
        4096
    }
}

#[test]
fn large_sectors_refuse_small_requests() {
    for options in variants() {
        let inner = in_memory(12 << 20, BLOCK as u32);
        let device: Arc<dyn BlockDevice> = Arc::new(BigSectors(Arc::clone(&inner)));
        let fs = Ext4::mount(device, options).expect("mount");
        assert_eq!(fs.direct_alignment(), 4096);
        let file = make(&fs, "file");
        write(&fs, &file, 0, 4 * BLOCK, 1).expect("write");
        let invalid = |result: Result<usize, Ext4Error>| {
            assert!(matches!(result, Err(Ext4Error::Invalid(_))), "{result:?}");
        };
        invalid(write(&fs, &file, 512, 512, 2));
        invalid(write(&fs, &file, 0, 512, 2));
        invalid(write(&fs, &file, 2048, 4096, 2));
        let mut data = Aligned::filled(8192, 0);
        for (at, range) in [(512, 0..4096), (0, 0..512), (0, 512..4608)] {
            let part = &mut data.bytes_mut()[range];
            invalid(fs.files.read_with(&file, at, part, IoFlags::DIRECT));
        }
        // A size that is not a multiple: its last block can be read, and nothing appended.
        fs.resize(&file, 3 * BLOCK + 512);
        assert_eq!(read(&fs, &file, 3 * BLOCK, BLOCK), [1; 512]);
        let flags = IoFlags::DIRECT | IoFlags::APPEND;
        let block = Aligned::filled(BLOCK as usize, 2);
        let append = fs.files.write_with(&file, 0, block.bytes(), flags, true);
        invalid(append.map(|w| w.len));
        // Without the flag anything goes.
        fs.put(&file, 100, &[3; 17]);
        assert_eq!(read(&fs, &file, 0, BLOCK)[100..117], [3; 17]);
        drop(file);
        fs.end_on(&inner);
    }
}

/// A device that makes a file immutable when it is next asked for the size of its sectors, which a direct write does before it
/// locks the inode.
#[derive(Debug)]
struct MakesImmutable {
    inner: Arc<MemoryDevice>,
    file: std::sync::Mutex<Option<(Weak<Ext4>, InodeRef)>>,
}

impl BlockDevice for MakesImmutable {
    forward_device!(self => self.inner;
        len, is_read_only, read_at, write_at, flush, discard, zero, set_len, identity);

    fn logical_block_size(&self) -> u32 {
        let file = self.file.lock().expect("no panic").take();
        if let Some((fs, file)) = file {
            let fs = fs.upgrade().expect("mounted");
            let flags = fs.files.flags(&file) | InodeFlags::IMMUTABLE;
            fs.files
                .set_flags(&Caller::root(), &file, flags)
                .expect("chattr");
        }
        self.inner.logical_block_size()
    }
}

#[test]
fn a_file_that_becomes_immutable_before_the_lock_is_not_written() {
    const SIZE: u64 = 4 * BLOCK;
    for options in variants() {
        let inner = in_memory(12 << 20, BLOCK as u32);
        let device = Arc::new(MakesImmutable {
            inner: Arc::clone(&inner),
            file: std::sync::Mutex::new(None),
        });
        let fs = Ext4::mount(Arc::clone(&device) as Arc<_>, options.clone()).expect("mount");
        // An overwrite, part of a block, a hole, past the size.
        for (name, at, len) in [
            ("overwrite", 0, BLOCK),
            ("part", 512, 1024),
            ("hole", 2 * BLOCK, BLOCK),
            ("past", SIZE, BLOCK),
        ] {
            let file = make(&fs, name);
            write(&fs, &file, 0, 2 * BLOCK, 1).expect("write");
            fs.resize(&file, SIZE);
            let before = read(&fs, &file, 0, SIZE);
            *device.file.lock().expect("no panic") = Some((Arc::downgrade(&fs), file.clone()));
            let written = write(&fs, &file, at, len, 2);
            assert!(
                matches!(written, Err(Ext4Error::NotPermitted)),
                "{} {} {name}: {written:?}",
                options.dio_lock,
                options.dioread_nolock
            );
            assert!(device.file.lock().expect("no panic").is_none());
            assert_eq!(file.size(), SIZE);
            assert!(read(&fs, &file, 0, SIZE) == before, "{name}");
        }
        fs.end_on(&inner);
    }
}

#[test]
fn set_id_bits_go_with_what_others_write() {
    const USER: Caller = Caller::user(1000, 1000);
    let device = in_memory(12 << 20, BLOCK as u32);
    let fs = mount(&device, &MountOptions::default());
    let top = fs.top();
    let new = NewNode {
        mode: 0o777,
        kind: NewKind::Regular,
    };
    let file = fs.make(&top, b"file", &new);
    let owner = with(|o: &mut SetAttr| o.mode = Some(0o6777));
    let block = Aligned::filled(BLOCK as usize, 1);
    let flags = OpenFlags::WRITE | OpenFlags::DIRECT;
    let open = |who: &Caller| OpenFile::open(Arc::clone(&fs), who, file.clone(), flags);
    let (by_root, by_user) = (
        open(&Caller::root()).expect("opens"),
        open(&USER).expect("opens"),
    );
    let mode = || FileSystem::getattr(&*fs, &file).expect("attr").mode;
    let set = || {
        let done = fs.setattr(&Caller::root(), &file, &owner);
        assert!(done.is_ok(), "{done:?}");
    };
    set();
    by_root.write_at(0, block.bytes()).expect("write");
    assert_eq!(mode(), 0o6777);
    by_user.write_at(0, block.bytes()).expect("write");
    assert_eq!(mode(), 0o777, "an overwrite");
    set();
    by_user.write_at(8 * BLOCK, block.bytes()).expect("write");
    assert_eq!(mode(), 0o777, "an extension");
    for what in [
        Fallocate::Allocate,
        Fallocate::PunchHole,
        Fallocate::ZeroRange,
    ] {
        set();
        by_user.fallocate(what, 0, BLOCK).expect("fallocate");
        assert_eq!(mode(), 0o777, "{what:?}");
    }
    drop((by_root, by_user));
    fs.unmount().expect("unmount");
}

/// Files with the append and the immutable flag, which debugfs sets.
#[test]
fn flags_that_forbid_writing() {
    let path = image("16M", "");
    let fs = path.mount();
    for name in ["append", "immutable"] {
        let file = make(&fs, name);
        write(&fs, &file, 0, 2 * BLOCK, 1).expect("write");
    }
    fs.unmount().expect("unmount");
    drop(fs);
    for (name, flags) in [("append", "0x80020"), ("immutable", "0x80010")] {
        let set = format!("set_inode_field {name} flags {flags}");
        debugfs(&path, &set);
    }
    let fs = path.mount();
    let top = fs.top();
    let open = |name: &[u8], flags: OpenFlags| {
        let file = fs.get(&top, name);
        let opened = OpenFile::open(Arc::clone(&fs), &Caller::root(), file, flags);
        opened.map_err(|e| e.errno())
    };
    let write = OpenFlags::WRITE | OpenFlags::DIRECT;
    assert_eq!(open(b"immutable", write).err(), Some(Errno::EPERM));
    assert_eq!(open(b"append", write).err(), Some(Errno::EPERM));
    let file = open(b"append", write | OpenFlags::APPEND).expect("opens");
    let block = Aligned::filled(BLOCK as usize, 2);
    let written = file
        .write_at_with(0, block.bytes(), IoFlags::empty())
        .expect("append");
    assert_eq!(written.offset, 2 * BLOCK);
    for what in [
        Fallocate::PunchHole,
        Fallocate::ZeroRange,
        Fallocate::ZeroRangeKeepSize,
    ] {
        let result = file.fallocate(what, 0, BLOCK).map_err(|e| e.errno());
        assert_eq!(result, Err(Errno::EPERM), "{what:?}");
    }
    file.fallocate(Fallocate::AllocateKeepSize, 0, 8 * BLOCK)
        .expect("allocate");
    drop((file, top));
    fs.unmount().expect("unmount");
    drop(fs);
    mke2fs::fsck(&path);
}

#[test]
fn a_read_only_mount_refuses_all_changes() {
    let device = in_memory(12 << 20, BLOCK as u32);
    let fs = mount(&device, &MountOptions::default());
    let file = make(&fs, "file");
    write(&fs, &file, 0, 2 * BLOCK, 1).expect("write");
    drop(file);
    fs.unmount().expect("unmount");
    for options in variants() {
        let options = MountOptions {
            read_only: true,
            ..options
        };
        let fs = mount(&device, &options);
        let top = fs.top();
        let file = fs.get(&top, b"file");
        for at in [0, 512, 2 * BLOCK] {
            let result = write(&fs, &file, at, 512, 2);
            assert!(matches!(result, Err(Ext4Error::ReadOnly)), "{result:?}");
        }
        for what in [
            Fallocate::Allocate,
            Fallocate::PunchHole,
            Fallocate::ZeroRange,
        ] {
            let result = fs.files.fallocate(&file, what, 0, BLOCK);
            assert!(matches!(result, Err(Ext4Error::ReadOnly)), "{result:?}");
        }
        assert_eq!(read(&fs, &file, 0, 3 * BLOCK), [1; 2 * BLOCK as usize]);
        assert_eq!(fs.seek_hole(&file, 0).expect("hole"), 2 * BLOCK);
        fs.fsync(&file, false).expect("nothing to sync");
        drop((file, top));
        fs.unmount().expect("unmount");
    }
}
