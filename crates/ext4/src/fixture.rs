//! What tests of the engine's parts begin with: file systems on a device that notes calls, and fails some.

use crate::fs::Ext4;
use crate::inode::reference::InodeRef;
use crate::options::MountOptions;
use crate::prelude::*;
use std::io;
use std::sync::mpsc;
use uext4_block::{BlockError, BlockOp, DeviceId, MemoryDevice};
use uext4_build::{MkfsOptions, NoProgress};
use uext4_vfs::attr::NewKind;
use uext4_vfs::io::Fallocate;

/// Calls that fail.
#[derive(Debug)]
struct Failing {
    op: BlockOp,
    within: Range<u64>,
    errno: Errno,
    /// How many succeed before.
    before: u64,
    /// How many more of them do.
    left: u64,
}

/// A device in memory.
#[derive(Debug)]
pub(crate) struct TestDevice {
    memory: MemoryDevice,
    /// Whether it is said to refuse writes.
    pub is_read_only: std::sync::atomic::AtomicBool,
    /// Whether it is said to be a server's.
    pub is_remote: std::sync::atomic::AtomicBool,
    /// Calls that fail from now on.
    failing: std::sync::Mutex<Vec<Failing>>,
    /// Discards and allocations so far, in bytes.
    calls: std::sync::Mutex<Vec<(BlockOp, u64, u64)>>,
    /// What discards wait for, after they have said so.
    held: std::sync::Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
}

impl TestDevice {
    pub fn new(bytes: u64) -> Arc<TestDevice> {
        Arc::new(TestDevice {
            memory: MemoryDevice::new(bytes),
            is_read_only: std::sync::atomic::AtomicBool::default(),
            is_remote: std::sync::atomic::AtomicBool::default(),
            failing: std::sync::Mutex::default(),
            calls: std::sync::Mutex::default(),
            held: std::sync::Mutex::default(),
        })
    }

    /// The next discard waits until the other end of `released` is dropped; the result is sent to when it begins.
    pub fn hold_discards(&self, released: mpsc::Receiver<()>) -> mpsc::Receiver<()> {
        let (begins, begun) = mpsc::channel();
        *self.held.lock().expect("a lock") = Some((begins, released));
        begun
    }

    /// Calls of that kind that touch `within` fail from now on.
    pub fn fail(&self, op: BlockOp, within: Range<u64>, errno: Errno) {
        self.fail_times(op, within, errno, u64::MAX);
    }

    /// The next call of that kind that touches `within` fails.
    pub fn fail_once(&self, op: BlockOp, within: Range<u64>, errno: Errno) {
        self.fail_times(op, within, errno, 1);
    }

    /// The call of that kind after `before` of them fails with `EIO`.
    pub fn fail_after(&self, op: BlockOp, before: u64) {
        self.fail_within(op, 0..u64::MAX, before);
    }

    /// The same of calls that touch `within`.
    pub fn fail_within(&self, op: BlockOp, within: Range<u64>, before: u64) {
        self.fail_times(op, within, Errno::EIO, 1);
        if let Some(failing) = self.failing.lock().expect("a lock").last_mut() {
            failing.before = before;
        }
    }

    fn fail_times(&self, op: BlockOp, within: Range<u64>, errno: Errno, left: u64) {
        let failing = Failing {
            op,
            within,
            errno,
            before: 0,
            left,
        };
        self.failing.lock().expect("a lock").push(failing);
    }

    /// Reads of one block fail from now on.
    pub fn fail_reads_of(&self, fs: &Ext4, pblk: Pblk) {
        let at = pblk.0 * fs.volume.block_size();
        self.fail(BlockOp::Read, at..at + fs.volume.block_size(), Errno::EIO);
    }

    /// No call fails from now on. Whether all that were to fail did.
    pub fn work(&self) -> bool {
        let failing = std::mem::take(&mut *self.failing.lock().expect("a lock"));
        failing.iter().all(|failing| failing.left == 0)
    }

    /// Where discards or allocations began and ended since this was last asked.
    pub fn take_calls(&self, op: BlockOp) -> Vec<(u64, u64)> {
        let mut calls = self.calls.lock().expect("a lock");
        let taken = std::mem::take(&mut *calls);
        let of_this_kind = taken.into_iter().filter(|call| call.0 == op);
        of_this_kind.map(|call| (call.1, call.2)).collect()
    }

    /// Changes bytes of a block.
    pub fn change(&self, offset: u64, len: usize, change: impl FnOnce(&mut [u8])) {
        let mut bytes = vec![0; len];
        self.memory.read_at(offset, &mut bytes).expect("read");
        change(&mut bytes);
        self.memory.write_at(offset, &bytes).expect("write");
    }

    fn check(&self, op: BlockOp, offset: u64, len: u64) -> uext4_block::Result<()> {
        let end = offset + len;
        if matches!(op, BlockOp::Discard | BlockOp::Allocate) {
            self.calls.lock().expect("a lock").push((op, offset, end));
        }
        let fails = |failing: &&mut Failing| {
            let within = &failing.within;
            let touches = within.start < end.max(offset + 1) && offset < within.end;
            failing.op == op && touches && failing.left > 0
        };
        match self.failing.lock().expect("a lock").iter_mut().find(fails) {
            Some(failing) if failing.before > 0 => {
                failing.before -= 1;
                Ok(())
            }
            Some(failing) => {
                failing.left -= 1;
                let source = io::Error::from_raw_os_error(failing.errno.0);
                Err(BlockError::io(op, offset, len, source))
            }
            None => Ok(()),
        }
    }
}

impl BlockDevice for TestDevice {
    uext4_block::forward_device!(self => self.memory; len, set_len);

    fn identity(&self) -> Option<DeviceId> {
        match self.is_remote.load(std::sync::atomic::Ordering::Relaxed) {
            true => Some(DeviceId::Remote { name: 1 }),
            false => self.memory.identity(),
        }
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> uext4_block::Result<()> {
        self.check(BlockOp::Read, offset, buf.len() as u64)?;
        self.memory.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> uext4_block::Result<()> {
        self.check(BlockOp::Write, offset, buf.len() as u64)?;
        self.memory.write_at(offset, buf)
    }

    fn flush(&self) -> uext4_block::Result<()> {
        self.check(BlockOp::Flush, 0, 0)?;
        self.memory.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> uext4_block::Result<()> {
        self.check(BlockOp::Discard, offset, len)?;
        let held = self.held.lock().expect("a lock").take();
        if let Some((begins, released)) = held {
            begins.send(()).expect("a receiver");
            let _ = released.recv();
        }
        self.memory.discard(offset, len)
    }

    fn zero(&self, offset: u64, len: u64) -> uext4_block::Result<()> {
        self.check(BlockOp::Zero, offset, len)?;
        self.memory.zero(offset, len)
    }

    fn allocate(&self, offset: u64, len: u64) -> uext4_block::Result<()> {
        self.check(BlockOp::Allocate, offset, len)
    }

    fn drop_cache(&self, offset: u64, len: u64) -> uext4_block::Result<()> {
        self.check(BlockOp::Read, offset, len)
    }
}

/// An image with blocks of 1 KiB.
pub(crate) fn image(bytes: u64, features: &str) -> Arc<TestDevice> {
    image_as(bytes, features, |_| {})
}

/// An image with blocks of 1 KiB, and other options of mkfs.
pub(crate) fn image_as(
    bytes: u64,
    features: &str,
    change: impl FnOnce(&mut MkfsOptions),
) -> Arc<TestDevice> {
    let device = TestDevice::new(bytes);
    let mut options = MkfsOptions {
        size: Some(bytes),
        block_size: 1024,
        features: uext4_build::FeatureSet::parse(features).expect("features"),
        threads: 1,
        ..MkfsOptions::default()
    };
    change(&mut options);
    uext4_build::mkfs(&*device, &options, &NoProgress).expect("mkfs");
    device
}

/// Mounts a device; no transaction ends by its age.
pub(crate) fn mount(device: &Arc<TestDevice>) -> Arc<Ext4> {
    mount_as(device, |_| {})
}

/// As [`mount`], with other options.
pub(crate) fn mount_as(
    device: &Arc<TestDevice>,
    change: impl FnOnce(&mut MountOptions),
) -> Arc<Ext4> {
    try_mount(device, change).expect("mount")
}

/// As [`mount_as`], of an image that may be refused.
pub(crate) fn try_mount(
    device: &Arc<TestDevice>,
    change: impl FnOnce(&mut MountOptions),
) -> Result<Arc<Ext4>> {
    let mut options = MountOptions {
        commit_interval: Duration::from_secs(3600),
        ..MountOptions::default()
    };
    change(&mut options);
    Ext4::mount(Arc::clone(device) as Arc<dyn BlockDevice>, options)
}

/// What an image with blocks of 1 KiB is mounted as, 8 MiB large unless that matters.
pub(crate) fn small_fs() -> (Arc<Ext4>, Arc<TestDevice>) {
    let device = image(8 << 20, "");
    (mount(&device), device)
}

pub(crate) const DIR: NewNode = NewNode {
    mode: 0o755,
    kind: NewKind::Directory,
};
pub(crate) const FILE: NewNode = NewNode {
    mode: 0o644,
    kind: NewKind::Regular,
};

/// Makes a file or a directory as the superuser.
#[track_caller]
pub(crate) fn make(fs: &Ext4, dir: &InodeRef, name: &str, new: &NewNode) -> InodeRef {
    let made = fs.namei.create(&Caller::root(), dir, name.as_bytes(), new);
    made.expect("create")
}

/// Makes a file in the root directory.
#[track_caller]
pub(crate) fn file(fs: &Ext4, name: &str) -> InodeRef {
    make(fs, fs.namei.root().expect("root"), name, &FILE)
}

/// Gives a file blocks, of 1 KiB each, where it has none in a range.
#[track_caller]
pub(crate) fn allocate(fs: &Ext4, file: &InodeRef, blocks: Range<u64>) {
    let (at, len) = (blocks.start << 10, (blocks.end - blocks.start) << 10);
    fs.files
        .fallocate(file, Fallocate::Allocate, at, len)
        .expect("fallocate");
}

/// Gives a file blocks of 1 KiB with a hole after each.
#[track_caller]
pub(crate) fn allocate_apart(fs: &Ext4, file: &InodeRef, first: u64, count: u64) {
    for at in (0..count).map(|i| first + 2 * i) {
        allocate(fs, file, at..at + 1);
    }
}

/// Runs `work` with a handle whose transaction has the blocks `attached`, after the journal was aborted: write access to
/// any other block fails.
pub(crate) fn on_aborted_journal<R>(
    fs: &Ext4,
    attached: &[&Arc<Buffer>],
    work: impl FnOnce(&Handle<'_>) -> R,
) -> R {
    fs.volume.journal().sync().expect("sync");
    let handle = fs.volume.journal().start(64).expect("start");
    for buffer in attached {
        handle.access_native(buffer).expect("access");
    }
    abort(fs);
    work(&handle)
}

/// Aborts the journal, as after a failed write.
pub(crate) fn abort(fs: &Ext4) {
    let why = JournalError::Aborted("by a test".into());
    fs.volume.journal().abort(why);
}

/// Runs `work`, which loses the journal while it waits for write access to `block`, and has any other block at hand.
pub(crate) fn losing_the_journal_at<R: Send>(
    fs: &Ext4,
    block: &Arc<Buffer>,
    work: impl FnOnce() -> R + Send,
) -> R {
    fs.volume.journal().sync().expect("sync");
    let handle = fs.volume.journal().start(64).expect("start");
    for pblk in 0..fs.volume.geometry().blocks_count {
        let cached = fs.volume.cache().peek(pblk);
        if let Some(other) = cached.filter(|other| !Arc::ptr_eq(other, block)) {
            handle.access_native(&other).expect("access");
        }
    }
    handle.finish();
    let (is_held, held) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _reader = block.read();
            is_held.send(()).expect("a receiver");
            let _ = released.recv();
        });
        held.recv().expect("a reader");
        let working = scope.spawn(work);
        // A writer that waits keeps new readers out.
        while block.try_read().is_some() && !working.is_finished() {
            std::thread::yield_now();
        }
        abort(fs);
        drop(release);
        working.join().expect("no panic")
    })
}
