//! `RWF_NOWAIT`: while whatever a read or write would wait for lasts, it returns `EAGAIN`; once that is
//! gone, it succeeds. Each attempt is made in a thread of its own, which must return meanwhile.

use crate::*;
use std::io::IoSlice;
use std::sync::{Condvar, Mutex};
use uext4_ext4::Result;
use uext4_jbd2::Handle;
use uext4_testkit::image::in_memory;
use uext4_vfs::ilock::{LockMode, ilock};

const BLOCK: usize = 4096;
const BLOCKS: usize = 8;
const NOWAIT: IoFlags = IoFlags::DIRECT.union(IoFlags::NOWAIT);
/// Data whose writer is held back while the device's gate is closed.
const SLOW: u8 = 0x77;

/// A device that holds back, while its gate is closed, writes of [`SLOW`] data.
#[derive(Debug)]
struct GateDevice {
    inner: Arc<MemoryDevice>,
    closed: Mutex<bool>,
    opened: Condvar,
    /// A thread is blocked.
    holds: AtomicBool,
}

impl GateDevice {
    fn new(inner: Arc<MemoryDevice>) -> Arc<GateDevice> {
        Arc::new(GateDevice {
            inner,
            closed: Mutex::new(false),
            opened: Condvar::new(),
            holds: AtomicBool::new(false),
        })
    }

    fn close(&self) {
        *self.closed.lock().unwrap() = true;
    }

    fn open(&self) {
        *self.closed.lock().unwrap() = false;
        self.opened.notify_all();
    }

    fn pass(&self, data: &[u8]) {
        if !data.contains(&SLOW) {
            return;
        }
        let mut closed = self.closed.lock().unwrap();
        while *closed {
            self.holds.store(true, SeqCst);
            closed = self.opened.wait(closed).unwrap();
        }
    }
}

impl BlockDevice for GateDevice {
    forward_device!(self => self.inner;
        len, is_read_only, read_at, read_vectored_at, flush, discard, zero, set_len, identity);

    fn write_at(&self, offset: u64, buf: &[u8]) -> uext4_block::Result<()> {
        self.pass(buf);
        self.inner.write_at(offset, buf)
    }
    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> uext4_block::Result<()> {
        bufs.iter().for_each(|buf| self.pass(buf));
        self.inner.write_vectored_at(offset, bufs)
    }
}

/// A file system with a file of [`BLOCKS`] written blocks, as one variant sees it.
struct Case {
    fs: Arc<Ext4>,
    file: InodeRef,
    dio_lock: DioLock,
    nolock: bool,
}

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Try {
    /// A read of the first block.
    Read,
    /// An overwrite of some bytes from there on.
    Write(u64, usize),
    /// A block at the end.
    Append,
}

const OVERWRITE: Try = Try::Write(0, BLOCK);
/// Not of whole blocks.
const PART: Try = Try::Write(512, 1024);

impl Case {
    /// Runs `test` for every variant in both modes.
    fn all(lazytime: bool, test: impl Fn(&Case)) {
        for dio_lock in DioLock::ALL {
            for nolock in [true, false] {
                let device = in_memory(24 << 20, BLOCK as u32);
                let case = Case::on(device.clone(), dio_lock, nolock, lazytime);
                test(&case);
                case.end(&*device);
            }
        }
    }

    fn on(device: Arc<dyn BlockDevice>, dio_lock: DioLock, nolock: bool, lazytime: bool) -> Case {
        let options = MountOptions {
            dio_lock,
            dioread_nolock: nolock,
            lazytime,
            ..MountOptions::default()
        };
        let fs = Ext4::mount(device, options).expect("mount");
        let top = fs.top();
        let file = fs.namei.create(&Caller::root(), &top, b"file", &FILE);
        let file = file.expect("create");
        fs.put(&file, 0, &[1; BLOCKS * BLOCK]);
        Case {
            fs,
            file,
            dio_lock,
            nolock,
        }
    }

    fn end(&self, device: &dyn BlockDevice) {
        self.fs.unmount().expect("unmount");
        let checked = oracle::check(device);
        assert!(checked.is_ok(), "{}: {checked:?}", self.name());
    }

    fn name(&self) -> String {
        format!("{:?}, dioread_nolock {}", self.dio_lock, self.nolock)
    }

    /// In a thread of its own, which must return.
    fn go(&self, what: Try) -> Result<usize> {
        let (fs, file) = (Arc::clone(&self.fs), self.file.clone());
        within(&format!("{what:?}, {}", self.name()), move || match what {
            Try::Read => {
                let mut data = Aligned::filled(BLOCK, 0);
                fs.files.read_with(&file, 0, data.bytes_mut(), NOWAIT)
            }
            Try::Write(at, len) => {
                let data = Aligned::filled(len, 2);
                let written = fs.files.write_with(&file, at, data.bytes(), NOWAIT, true)?;
                Ok(written.len)
            }
            Try::Append => {
                let data = Aligned::filled(BLOCK, 3);
                let flags = NOWAIT | IoFlags::APPEND;
                let written = fs.files.write_with(&file, 0, data.bytes(), flags, true)?;
                Ok(written.len)
            }
        })
    }

    fn refuses(&self, what: Try) {
        let result = self.go(what);
        assert!(
            matches!(result, Err(Ext4Error::WouldBlock)),
            "{what:?}, {}: {result:?}",
            self.name()
        );
    }

    fn does(&self, what: Try) {
        let result = self.go(what);
        assert!(result.is_ok(), "{what:?}, {}: {result:?}", self.name());
    }

    /// Succeeds at last: what was waited for may take a while to go.
    fn does_soon(&self, what: Try) {
        while matches!(self.go(what), Err(Ext4Error::WouldBlock)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.does(what);
    }

    /// Blocks from there on that were never written, or a hole, within the size.
    fn prepare(&self, what: Fallocate, block: u64, blocks: u64) {
        let unit = BLOCK as u64;
        let done = self
            .fs
            .files
            .fallocate(&self.file, what, block * unit, blocks * unit);
        done.expect("fallocate");
    }

    /// Waits until the times of the file are not those of the clock.
    fn let_the_clock_move(&self) {
        std::thread::sleep(Duration::from_millis(30));
    }
}

#[test]
fn an_inode_locked_exclusively() {
    Case::all(false, |case| {
        let held = ilock(&case.file.ilock, LockMode::Exclusive);
        for what in [Try::Read, OVERWRITE, PART, Try::Append] {
            case.refuses(what);
        }
        drop(held);
        for what in [Try::Read, OVERWRITE, PART] {
            case.does(what);
        }
    });
}

#[test]
fn an_inode_locked_shared() {
    Case::all(false, |case| {
        let held = ilock(&case.file.ilock, LockMode::Shared);
        case.does(Try::Read);
        let shares = match case.dio_lock {
            DioLock::ExclusiveFirst => false,
            DioLock::SharedFirst => case.nolock,
            DioLock::SharedAlways | DioLock::Range => true,
        };
        match shares {
            true => case.does(OVERWRITE),
            false => case.refuses(OVERWRITE),
        }
        match case.dio_lock {
            DioLock::Range => case.does(PART),
            _ => case.refuses(PART),
        }
        // A thread that waits for it exclusively is ahead of others; they may be refused, but do not wait.
        let waiting = {
            let file = case.file.clone();
            std::thread::spawn(move || drop(ilock(&file.ilock, LockMode::Exclusive)))
        };
        for what in [Try::Read, OVERWRITE, PART, Try::Append] {
            for _ in 0..20 {
                let _ = case.go(what);
            }
        }
        drop(held);
        waiting.join().expect("no panic");
        case.does(OVERWRITE);
        case.does(PART);
    });
}

/// A write that fills a hole or extends the file is on its way to the device.
#[test]
fn a_write_under_way() {
    for dio_lock in DioLock::ALL {
        for nolock in [true, false] {
            for extends in [false, true] {
                let inner = in_memory(24 << 20, BLOCK as u32);
                let device = GateDevice::new(inner.clone());
                let case = Case::on(device.clone(), dio_lock, nolock, false);
                case.prepare(Fallocate::PunchHole, 2, 2);
                let at = if extends { BLOCKS } else { 2 } * BLOCK;
                device.close();
                let writer = {
                    let (fs, file) = (Arc::clone(&case.fs), case.file.clone());
                    std::thread::spawn(move || {
                        let data = Aligned::filled(2 * BLOCK, SLOW);
                        fs.files
                            .write_with(&file, at as u64, data.bytes(), IoFlags::DIRECT, true)
                    })
                };
                while !device.holds.load(SeqCst) {
                    std::thread::yield_now();
                }
                let inside = Try::Write(at as u64 + 512, 512);
                let beside = Try::Write(5 * BLOCK as u64 + 512, 512);
                case.refuses(inside);
                case.refuses(Try::Append);
                if dio_lock == DioLock::Range {
                    case.does(Try::Read);
                    case.does(OVERWRITE);
                    case.does(beside);
                } else {
                    case.refuses(Try::Read);
                    case.refuses(OVERWRITE);
                    case.refuses(beside);
                }
                device.open();
                writer.join().expect("no panic").expect("write");
                for what in [Try::Read, OVERWRITE, inside, beside] {
                    case.does(what);
                }
                let mut data = [0; 512];
                case.fs
                    .files
                    .read(&case.file, at as u64, &mut data)
                    .expect("read");
                assert_eq!(data, [SLOW; 512]);
                case.end(&*inner);
            }
        }
    }
}

#[test]
fn blocks_that_are_not_there() {
    Case::all(false, |case| {
        case.prepare(Fallocate::PunchHole, 2, 2);
        case.prepare(Fallocate::ZeroRange, 5, 1);
        let unit = BLOCK as u64;
        let tries = [
            Try::Write(2 * unit, BLOCK),
            Try::Write(unit, 2 * BLOCK),
            Try::Write(3 * unit + 512, 512),
            Try::Write(5 * unit, BLOCK),
            Try::Write((BLOCKS - 1) as u64 * unit, 2 * BLOCK),
            Try::Write(BLOCKS as u64 * unit, BLOCK),
            Try::Append,
        ];
        let before = case.fs.mapping.extents(&case.file).expect("extents");
        tries.into_iter().for_each(|what| case.refuses(what));
        assert_eq!(
            case.fs.mapping.extents(&case.file).expect("extents"),
            before
        );
        assert_eq!(case.file.size(), (BLOCKS * BLOCK) as u64);
        case.does(Try::Read);
        let data = Aligned::filled((BLOCKS + 1) * BLOCK, 4);
        let flags = IoFlags::DIRECT;
        let written = case
            .fs
            .files
            .write_with(&case.file, 0, data.bytes(), flags, true);
        assert_eq!(written.expect("write").len, data.bytes().len());
        // The new mapping is loaded by a call that may wait, after one that may not has asked for it.
        let _ = case.go(Try::Write(2 * unit, BLOCK));
        let read = case.fs.files.read(&case.file, 0, &mut [0; 512]);
        read.expect("read");
        let all = tries.into_iter().filter(|what| *what != Try::Append);
        all.for_each(|what| case.does(what));
    });
}

/// Everything the running transaction has room for.
fn take_all_credits(fs: &Ext4) -> Handle<'_> {
    // A commit under way would make room again.
    fs.sync().expect("sync");
    let handle = fs.volume.journal().start(1).expect("handle");
    for step in [1024, 64, 1] {
        while handle.extend(handle.credits() + step) {}
    }
    handle
}

/// Waits until no handle is available, which is asked for without waiting.
fn wait_until_closed(fs: &Ext4) {
    while fs
        .volume
        .journal()
        .try_start(1)
        .expect("no abort")
        .is_some()
    {
        std::thread::yield_now();
    }
}

impl Case {
    /// Reads go on, and writes are refused until `handle` ends, as no other can start.
    fn needs_a_transaction(&self, handle: Handle<'_>) {
        wait_until_closed(&self.fs);
        self.does(Try::Read);
        for what in [OVERWRITE, PART, Try::Append] {
            self.refuses(what);
        }
        drop(handle);
        self.does_soon(OVERWRITE);
        self.does_soon(PART);
    }
}

#[test]
fn a_journal_that_closes_a_transaction() {
    Case::all(false, |case| {
        case.let_the_clock_move();
        let handle = case.fs.volume.journal().start(1).expect("handle");
        case.fs.volume.journal().request_commit(handle.tid());
        case.needs_a_transaction(handle);
    });
}

#[test]
fn a_transaction_without_room() {
    Case::all(false, |case| {
        case.let_the_clock_move();
        let handle = take_all_credits(&case.fs);
        case.needs_a_transaction(handle);
    });
}

/// With lazytime an overwrite needs no transaction.
#[test]
fn lazytime_needs_no_journal() {
    Case::all(true, |case| {
        case.let_the_clock_move();
        let handle = take_all_credits(&case.fs);
        wait_until_closed(&case.fs);
        for what in [Try::Read, OVERWRITE, PART] {
            case.does(what);
        }
        case.refuses(Try::Append);
        drop(handle);
    });
}

#[test]
fn the_inode_table() {
    Case::all(false, |case| {
        case.let_the_clock_move();
        let held = case.file.itable.write();
        case.does(Try::Read);
        case.refuses(OVERWRITE);
        case.refuses(PART);
        drop(held);
        case.does(OVERWRITE);
        case.does(PART);
    });
}

#[test]
fn a_mapping_that_changes() {
    Case::all(false, |case| {
        let held = case.file.map.write();
        for what in [Try::Read, OVERWRITE, PART] {
            case.refuses(what);
        }
        drop(held);
        for what in [Try::Read, OVERWRITE, PART] {
            case.does(what);
        }
    });
}

/// A file of many extents, just mounted: its mapping is on the device.
#[test]
fn a_mapping_that_is_not_in_memory() {
    for dio_lock in DioLock::ALL {
        for nolock in [true, false] {
            let device = in_memory(24 << 20, BLOCK as u32);
            let case = Case::on(device.clone(), dio_lock, nolock, false);
            for block in 0..20 {
                let at = (1000 - 20 * block) * BLOCK as u64;
                case.fs.put(&case.file, at, &[5; BLOCK]);
            }
            case.fs.unmount().expect("unmount");
            let options =
                with(|o: &mut MountOptions| (o.dio_lock, o.dioread_nolock) = (dio_lock, nolock));
            let fs = Ext4::mount(device.clone(), options).expect("mount");
            let top = fs.top();
            let file = fs.get(&top, b"file");
            let case = Case { fs, file, ..case };
            for what in [Try::Read, OVERWRITE, PART, Try::Append] {
                case.refuses(what);
            }
            // A call that may wait loads it.
            case.fs
                .files
                .read(&case.file, 0, &mut [0; 512])
                .expect("read");
            for what in [Try::Read, OVERWRITE, PART] {
                case.does(what);
            }
            case.end(&*device);
        }
    }
}
