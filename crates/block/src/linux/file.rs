//! An image in a file, or a block device of the host.
//!
//! # Data model
//! Calls of one request are `preadv` and `pwritev`. A batch of several is submitted as a whole where
//! the device has rings, else request by request. With `direct` the host's cache is bypassed.
//!
//! # Invariants
//! The file is as long as `len` says while no other process changes it. One that became shorter fails for
//! good, as does one that lost writes (`failure`).
//!
//! # Locking
//! Making writes durable: see `durable`; changing the length: see `failure`. Else none unless `direct`: the host's calls are positioned, and
//! `len` is atomic. With `direct`, changes share or take class `device_edges`, so that `len` changes under
//! it alone.

use super::align::{self, Alignment};
use super::direct::Direct;
use super::durable::{DESCRIPTIONS, Durable};
use super::exclusion;
use super::failure::Health;
use super::host::HostFile;
use super::open::{identify, open_error};
use super::open::{open_fd, open_flags, refuse_read_only, size_of_image};
use super::shared::SharedRuns;
use super::uring::Rings;
use crate::batch::{IOV_MAX, Ranged};
use crate::device::{BlockDevice, total_len, total_len_mut};
use crate::device_id::DeviceId;
use crate::engine::IoEngine;
use crate::error::{BlockError, BlockOp, Failure, Result, check_range};
use crate::open::OpenOptions;
use crate::origin::Origin;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, retry_on_intr};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use uext4_sync::assert_may_block;

/// What [`BlockDevice::zero`] writes where the host can't zero by itself.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// An image in a file, or a block device of the host.
#[derive(Debug)]
pub struct FileDevice {
    /// Immutable.
    pub(crate) host: HostFile,
    /// Immutable; for messages.
    path: PathBuf,
    /// Immutable.
    read_only: bool,
    /// Immutable.
    id: DeviceId,
    /// Bytes; atomic.
    len: AtomicU64,
    health: Health,
    durable: Durable,
    /// The unit of I/O. Immutable.
    sector: u32,
    /// Exists if the host has a cache and the cache is bypassed. Immutable.
    pub(crate) direct: Option<Direct>,
    /// Empty until a batch asks; `None` if batches go request by request.
    rings: OnceLock<Option<Rings>>,
    /// Of an image that is only read, once it was asked for.
    shared: OnceLock<SharedRuns>,
}

impl FileDevice {
    /// Opens an image.
    ///
    /// # Errors
    /// `EBUSY` when another open of it conflicts, when it backs a loop device, or when the kernel writes to it;
    /// `EROFS` when it is a block device that is set read-only, to be written; `ENOTBLK` when it
    /// is neither a file nor a block device; `EINVAL` when direct I/O is asked for where the host has none;
    /// the host's error when io_uring is requested and refused; otherwise the host's error of the open.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<FileDevice> {
        assert_may_block("device open");
        let path = path.as_ref();
        let fd = open_fd(path, options)?;
        let stat = rustix::fs::fstat(&fd).map_err(|errno| open_error(path, errno))?;
        let id = identify(path, &stat)?;
        if options.exclusive {
            exclusion::lock_image(path, &fd, options.read_only)?;
            match id {
                DeviceId::File { .. } => {
                    exclusion::refuse_loop_backing(path, &stat, options.read_only)?;
                }
                DeviceId::Block { rdev } if options.read_only => {
                    exclusion::refuse_mounted(path, rdev)?;
                }
                // The kernel refused it.
                _ => {}
            }
        }
        if matches!(id, DeviceId::Block { .. }) && !options.read_only {
            refuse_read_only(path, &fd)?;
        }
        // Only under the lock does the size hold still.
        let len = size_of_image(&fd, id).map_err(|errno| open_error(path, errno))?;
        let is_block = matches!(id, DeviceId::Block { .. });
        let direct = match options.direct && (is_block || !align::ignores_direct(&fd)) {
            true => Some(Direct::new(find_alignment(path, &fd, is_block)?)),
            false => None,
        };
        let sector = match &direct {
            Some(direct) => direct.unit().max(512),
            None if is_block => {
                align::sector_bytes(&fd).map_err(|errno| open_error(path, errno))?
            }
            None => 512,
        };
        let flushes = if options.read_only { 1 } else { DESCRIPTIONS };
        let durable = Durable::new(&fd, open_flags(options, is_block), flushes)
            .map_err(|errno| open_error(path, errno))?;
        let device = FileDevice {
            host: HostFile { fd },
            health: Health::new(!is_block && !options.read_only),
            durable,
            path: path.to_owned(),
            read_only: options.read_only,
            id,
            len: AtomicU64::new(len),
            sector,
            direct,
            rings: choose_rings(options.engine)?,
            shared: OnceLock::new(),
        };
        match options.size {
            Some(size) if matches!(id, DeviceId::File { .. }) => device.set_len(size)?,
            Some(size) => check_range(BlockOp::SetLen, 0, size, len)?,
            None => {}
        }
        Ok(device)
    }

    /// Releases the lock on the image, as closing does, while readers may still use it. A block device that
    /// was opened for writing stays claimed until it is closed.
    pub fn unlock(&self) {
        exclusion::unlock_image(&self.host.fd);
    }

    /// Whether it is a file on tmpfs or ramfs, where flushing makes nothing durable.
    pub fn is_volatile(&self) -> bool {
        // The node of a block device lies in memory as well.
        matches!(self.id, DeviceId::File { .. }) && align::is_volatile(&self.host.fd)
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How batches reach the host. Where the options leave it open: io_uring if the host's cache is bypassed
    /// and the host allows it. In the cache there is hardly anything to wait for, and rings only cost.
    pub fn engine(&self) -> IoEngine {
        match self.rings() {
            Some(_) => IoEngine::Uring,
            None => IoEngine::Plain,
        }
    }

    /// Makes the rings that `callers` need at a time, if the device uses any: for a process that gives up the right to
    /// make some later. Callers beyond that many do without.
    pub fn make_rings(&self, callers: usize) {
        if let Some(rings) = self.rings() {
            rings.make(callers);
        }
    }

    fn check_read(&self, offset: u64, len: u64) -> Result<()> {
        check_range(BlockOp::Read, offset, len, self.len())
    }

    fn check_change(&self, op: BlockOp, offset: u64, len: u64) -> Result<()> {
        if self.read_only {
            return Err(BlockError::ReadOnly { op, offset, len });
        }
        check_range(op, offset, len, self.len())?;
        let call = (op, offset, len);
        self.health.check_change(&self.host.fd, call, &self.len)
    }

    /// Reads at most [`IOV_MAX`] buffers.
    pub(crate) fn read_run(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<()> {
        match &self.direct {
            None => self.host.read_run(offset, bufs),
            Some(direct) => direct.read_run(&self.host, offset, bufs),
        }
    }

    /// Writes durably where the host can do that with one call; the caller has the turn.
    fn try_write_durably(&self, offset: u64, buf: &[u8]) -> Result<bool> {
        match &self.direct {
            None => self.host.write_durably(offset, buf),
            Some(direct) => direct.write_durably(&self.host, offset, buf),
        }
    }

    /// What follows a call that was to make writes durable: after a failure no other can.
    fn after_sync(&self, op: BlockOp, offset: u64, len: u64, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.health.fail(Failure::WritesLost);
            return result;
        }
        self.health.check(op, offset, len)
    }

    /// Writes at most [`IOV_MAX`] buffers.
    pub(crate) fn write_run(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        match &self.direct {
            None => self.host.write_run(offset, bufs),
            Some(direct) => direct.write_run(&self.host, offset, bufs, &self.len),
        }
    }

    /// The rings, if the device uses any: decided here, once.
    pub(crate) fn rings(&self) -> Option<&Rings> {
        let rings = self.rings.get_or_init(|| match self.direct {
            Some(_) => Rings::new().ok(),
            None => None,
        });
        rings.as_ref()
    }

    fn fallocate(&self, mode: FallocateFlags, offset: u64, len: u64) -> rustix::io::Result<()> {
        // An unaligned write would put back what is zeroed here.
        let _shared = self.direct.as_ref().map(Direct::share);
        let mode = mode | FallocateFlags::KEEP_SIZE;
        retry_on_intr(|| rustix::fs::fallocate(&self.host.fd, mode, offset, len))
    }
}

impl BlockDevice for FileDevice {
    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn logical_block_size(&self) -> u32 {
        self.sector
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        assert_may_block("device read");
        self.check_read(offset, buf.len() as u64)?;
        self.read_run(offset, &mut [IoSliceMut::new(buf)])
    }

    fn read_vectored_at(&self, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<()> {
        assert_may_block("device read");
        self.check_read(offset, total_len_mut(bufs))?;
        let mut at = offset;
        for run in bufs.chunks_mut(IOV_MAX) {
            self.read_run(at, run)?;
            at += total_len_mut(run);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        assert_may_block("device write");
        self.check_change(BlockOp::Write, offset, buf.len() as u64)?;
        self.write_run(offset, &[IoSlice::new(buf)])
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<()> {
        assert_may_block("device write");
        self.check_change(BlockOp::Write, offset, total_len(bufs))?;
        let mut at = offset;
        for run in bufs.chunks(IOV_MAX) {
            self.write_run(at, run)?;
            at += total_len(run);
        }
        Ok(())
    }

    fn read_batch(&self, reads: &mut [(u64, &mut [u8])]) -> Result<()> {
        assert_may_block("device read");
        for read in reads.iter() {
            self.check_read(read.offset(), read.memory().len() as u64)?;
        }
        self.read_scattered(reads)
    }

    fn write_batch(&self, writes: &[(u64, &[u8])]) -> Result<()> {
        assert_may_block("device write");
        for write in writes {
            self.check_change(BlockOp::Write, write.offset(), write.memory().len() as u64)?;
        }
        self.write_scattered(writes)
    }

    fn flush(&self) -> Result<()> {
        assert_may_block("device flush");
        let call = (BlockOp::Flush, 0, 0);
        self.health.check_change(&self.host.fd, call, &self.len)?;
        let result = self.durable.flush();
        let result = result.map_err(|e| BlockError::io(BlockOp::Flush, 0, 0, e));
        self.after_sync(BlockOp::Flush, 0, 0, result)
    }

    fn write_fua(&self, offset: u64, buf: &[u8]) -> Result<()> {
        assert_may_block("device write");
        let (op, len) = (BlockOp::Write, buf.len() as u64);
        self.check_change(op, offset, len)?;
        let done = {
            let _turn = self.durable.turn();
            self.try_write_durably(offset, buf)
        };
        if let Ok(false) = done {
            self.write_run(offset, &[IoSlice::new(buf)])?;
            return self.flush();
        }
        self.after_sync(op, offset, len, done.map(drop))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        assert_may_block("device discard");
        self.check_change(BlockOp::Discard, offset, len)?;
        if len == 0 {
            return Ok(());
        }
        match self.fallocate(FallocateFlags::PUNCH_HOLE, offset, len) {
            Ok(()) => Ok(()),
            // EINVAL is a block device's word for a range that isn't whole sectors.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(e) => Err(BlockError::io(BlockOp::Discard, offset, len, e)),
        }
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        assert_may_block("device zero");
        self.check_change(BlockOp::Zero, offset, len)?;
        if len == 0 {
            return Ok(());
        }
        // A hole keeps an image file sparse; a block device keeps its blocks.
        let modes = match self.id {
            DeviceId::File { .. } => [FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE],
            _ => [FallocateFlags::ZERO_RANGE, FallocateFlags::PUNCH_HOLE],
        };
        for mode in modes {
            match self.fallocate(mode, offset, len) {
                Ok(()) => return Ok(()),
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
                Err(e) => return Err(BlockError::io(BlockOp::Zero, offset, len, e)),
            }
        }
        zero_by_writing(self, offset, len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        assert_may_block("device allocate");
        self.check_change(BlockOp::Allocate, offset, len)?;
        if len == 0 || matches!(self.id, DeviceId::Block { .. }) {
            return Ok(());
        }
        match self.fallocate(FallocateFlags::empty(), offset, len) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(e) => Err(BlockError::io(BlockOp::Allocate, offset, len, e)),
        }
    }

    fn set_len(&self, len: u64) -> Result<()> {
        assert_may_block("device set length");
        if self.read_only {
            let op = BlockOp::SetLen;
            return Err(BlockError::ReadOnly { op, offset: 0, len });
        }
        let call = (BlockOp::SetLen, 0, len);
        let _resizing = self.health.resize(&self.host.fd, call, &self.len)?;
        let _alone = self.direct.as_ref().map(Direct::exclude);
        let before = self.len();
        let result = match self.id {
            DeviceId::File { .. } => {
                // The file is never shorter than the device.
                self.len.store(len.min(before), Ordering::Release);
                retry_on_intr(|| rustix::fs::ftruncate(&self.host.fd, len))
            }
            _ if len == before => Ok(()),
            // It may have become larger on the host.
            id => size_of_image(&self.host.fd, id).and_then(|there| {
                match (before..=there).contains(&len) {
                    true => Ok(()),
                    false => Err(Errno::INVAL),
                }
            }),
        };
        let len_now = if result.is_ok() { len } else { before };
        self.len.store(len_now, Ordering::Release);
        result.map_err(|e| BlockError::io(BlockOp::SetLen, 0, len, e))
    }

    fn drop_cache(&self, offset: u64, len: u64) -> Result<()> {
        assert_may_block("device drop cache");
        self.check_read(offset, len)?;
        let dropped = self.host.drop_cache(offset, len);
        dropped.map_err(|e| BlockError::io(BlockOp::Read, offset, len, e))
    }

    fn identity(&self) -> Option<DeviceId> {
        Some(self.id)
    }

    fn origin(&self, offset: u64, len: u64) -> Origin {
        // What is written is shared no more.
        let (DeviceId::File { st_dev, .. }, true) = (self.id, self.read_only) else {
            return Origin::of_file(self.identity(), offset, len);
        };
        let runs = self.shared.get_or_init(|| SharedRuns::of(&self.host.fd));
        match runs.find(offset) {
            (Some(at), left) => Origin::of_host(st_dev, at, len.min(left)),
            (None, left) => Origin::of_file(self.identity(), offset, len.min(left)),
        }
    }
}

/// Writes zeros over a range, a megabyte a call.
fn zero_by_writing(device: &FileDevice, offset: u64, len: u64) -> Result<()> {
    let (mut at, end) = (offset, offset + len);
    while at < end {
        let mut left = (end - at).min(1 << 20) as usize;
        let mut run = Vec::with_capacity(16);
        while left > 0 {
            let part = left.min(ZEROS.len());
            run.push(IoSlice::new(&ZEROS[..part]));
            left -= part;
        }
        device.write_run(at, &run)?;
        at += total_len(&run);
    }
    Ok(())
}

fn find_alignment(path: &Path, fd: &OwnedFd, is_block: bool) -> Result<Alignment> {
    Alignment::of(fd, is_block).map_err(|errno| match errno {
        Errno::INVAL => BlockError::NoDirect {
            path: path.to_owned(),
        },
        _ => open_error(path, errno),
    })
}

/// Rings if they are asked for, else decided or left to be.
fn choose_rings(engine: Option<IoEngine>) -> Result<OnceLock<Option<Rings>>> {
    Ok(match engine {
        None => OnceLock::new(),
        Some(IoEngine::Plain) => OnceLock::from(None),
        Some(IoEngine::Uring) => {
            let rings = Rings::new().map_err(|source| BlockError::NoUring { source })?;
            OnceLock::from(Some(rings))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use tempfile::TempDir;

    fn image(len: u64) -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        FileDevice::open(&path, &OpenOptions::create(len)).unwrap();
        (dir, path)
    }

    /// In a process of its own, which may open no more files: a ring is one.
    #[test]
    fn without_io_uring_batches_go_one_by_one() {
        const CHILD: &str = "UEXT4_TEST_WITHOUT_URING";
        if std::env::var_os(CHILD).is_none() {
            let name = "file::tests::without_io_uring_batches_go_one_by_one";
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name, "--nocapture"])
                .env(CHILD, "1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stderr);
            assert!(child.status.success(), "{said}");
            eprint!("{said}");
            return;
        }
        let (_dir, path) = image(1 << 20);
        let device = match FileDevice::open(&path, &OpenOptions::read_write().direct(true)) {
            Err(error @ BlockError::NoDirect { .. }) => return eprintln!("SKIPPED: {error}"),
            other => other.unwrap(),
        };
        use rustix::process::{Resource, getrlimit, setrlimit};
        let before = getrlimit(Resource::Nofile);
        let mut none = before;
        none.current = Some(3);
        setrlimit(Resource::Nofile, none).unwrap();
        let refused = choose_rings(Some(IoEngine::Uring)).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
        assert!(refused.to_string().contains("choose pread/pwrite"));
        assert_eq!(device.engine(), IoEngine::Plain);
        device
            .write_batch(&[(0, &[1; 700]), (5000, &[2; 700])])
            .unwrap();
        let (mut first, mut second) = ([0; 700], [0; 700]);
        let mut reads: [(u64, &mut [u8]); 2] = [(5000, &mut first), (0, &mut second)];
        device.read_batch(&mut reads).unwrap();
        assert_eq!((first, second), ([2; 700], [1; 700]));
        setrlimit(Resource::Nofile, before).unwrap();
        // Decided once.
        assert_eq!(device.engine(), IoEngine::Plain);
    }

    #[test]
    fn a_file_in_memory_has_no_cache_to_bypass() {
        let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
            return eprintln!("SKIPPED: needs /dev/shm");
        };
        let options = OpenOptions::create(100_001).direct(true);
        match FileDevice::open(dir.path().join("image"), &options) {
            Err(error @ BlockError::NoDirect { .. }) => eprintln!("SKIPPED: {error}"),
            other => {
                let device = other.unwrap();
                assert_eq!(device.engine(), IoEngine::Plain);
                assert_eq!(device.logical_block_size(), 512);
            }
        }
    }

    #[test]
    fn zero_by_writing_zeros() {
        let (_dir, path) = image(3 << 20);
        let device = FileDevice::open(&path, &OpenOptions::read_write()).unwrap();
        device.write_at(0, &vec![1; 3 << 20]).unwrap();
        zero_by_writing(&device, 1001, 2_500_000).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 3 << 20);
        assert!((0..3 << 20).all(|i| bytes[i] == u8::from(!(1001..2_501_001).contains(&i))));
    }

    #[test]
    fn one_writer_or_many_readers() {
        let (_dir, path) = image(4096);
        let (rw, ro) = (OpenOptions::read_write(), OpenOptions::read_only());
        let writer = FileDevice::open(&path, &rw).unwrap();
        for options in [&rw, &ro] {
            let error = FileDevice::open(&path, options).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(Errno::BUSY.raw_os_error()));
            assert!(error.to_string().ends_with("open read-write elsewhere"));
        }
        let mut unlocked = ro.clone();
        unlocked.exclusive = false;
        let peek = FileDevice::open(&path, &unlocked).unwrap();
        assert_eq!(peek.identity(), writer.identity());
        drop(writer);
        let readers = [(); 2].map(|()| FileDevice::open(&path, &ro).unwrap());
        let error = FileDevice::open(&path, &rw).unwrap_err();
        assert!(error.to_string().ends_with("open read-only elsewhere"));
        drop(readers);
        FileDevice::open(&path, &rw).unwrap();
    }

    #[test]
    fn a_refused_open_leaves_the_size() {
        let (_dir, path) = image(4096);
        let _writer = FileDevice::open(&path, &OpenOptions::read_write()).unwrap();
        FileDevice::open(&path, &OpenOptions::create(1)).unwrap_err();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
    }

    #[test]
    fn read_only_refuses_writes() {
        let (_dir, path) = image(4096);
        let device = FileDevice::open(&path, &OpenOptions::read_only()).unwrap();
        let rofs = Some(Errno::ROFS.raw_os_error());
        assert!(device.is_read_only());
        assert_eq!(device.write_at(0, &[1]).unwrap_err().raw_os_error(), rofs);
        assert_eq!(device.write_fua(0, &[1]).unwrap_err().raw_os_error(), rofs);
        assert_eq!(device.zero(0, 1).unwrap_err().raw_os_error(), rofs);
        assert_eq!(device.discard(0, 1).unwrap_err().raw_os_error(), rofs);
        assert_eq!(device.set_len(1).unwrap_err().raw_os_error(), rofs);
        device.read_at(0, &mut [0; 4096]).unwrap();
    }

    #[test]
    fn short_read_names_the_offset() {
        let (_dir, path) = image(8192);
        let device = FileDevice::open(&path, &OpenOptions::read_write()).unwrap();
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(5000)
            .unwrap();
        let error = device.read_at(4096, &mut [0; 4096]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "short read at offset 4096: 904 of 4096 bytes"
        );
        let (mut first, mut second) = ([0; 2048], [0; 2048]);
        let mut bufs = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        device.read_vectored_at(4096, &mut bufs).unwrap_err();
    }

    #[test]
    fn odd_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let options = OpenOptions::read_only();
        let error = FileDevice::open(dir.path(), &options).unwrap_err();
        assert!(matches!(error, BlockError::NotADevice { .. }));
        let error = FileDevice::open("/dev/null", &options).unwrap_err();
        assert!(matches!(error, BlockError::NotADevice { .. }));
        let error = FileDevice::open(dir.path().join("none"), &options).unwrap_err();
        assert_eq!(
            error.raw_os_error(),
            Some(Errno::NOENT.raw_os_error()),
            "{error}"
        );
    }

    /// A loop device that goes when dropped.
    struct Loop(String);

    impl Loop {
        /// None, said on stderr, where the machine or the user can't have one.
        fn attach(path: &Path, options: &[&str]) -> Option<Loop> {
            let output = Command::new("losetup")
                .args(["-f", "--show"])
                .args(options)
                .arg(path)
                .output();
            match output {
                Ok(out) if out.status.success() => {
                    Some(Loop(String::from_utf8(out.stdout).unwrap().trim().into()))
                }
                other => {
                    eprintln!("SKIPPED: needs losetup, root and a loop device: {other:?}");
                    None
                }
            }
        }
    }

    impl Drop for Loop {
        fn drop(&mut self) {
            let _ = Command::new("losetup").args(["-d", &self.0]).status();
        }
    }

    #[test]
    fn loop_backed_file_is_refused() {
        let (dir, path) = image(1 << 20);
        let Some(device) = Loop::attach(&path, &[]) else {
            return;
        };
        for options in [OpenOptions::read_write(), OpenOptions::read_only()] {
            let error = FileDevice::open(&path, &options).unwrap_err();
            assert!(error.to_string().ends_with(&device.0), "{error}");
            assert_eq!(error.raw_os_error(), Some(Errno::BUSY.raw_os_error()));
        }
        let alias = dir.path().join("alias");
        std::fs::hard_link(&path, &alias).unwrap();
        std::fs::remove_file(&path).unwrap();
        let error = FileDevice::open(&alias, &OpenOptions::read_write()).unwrap_err();
        assert!(matches!(error, BlockError::BacksLoop { .. }), "{error}");
        // Another file in the place of the one that backs it.
        FileDevice::open(&path, &OpenOptions::create(4096)).unwrap();
    }

    #[test]
    fn read_only_loop_lets_readers_in() {
        let (_dir, path) = image(1 << 20);
        let Some(_device) = Loop::attach(&path, &["-r"]) else {
            return;
        };
        FileDevice::open(&path, &OpenOptions::read_only()).unwrap();
        FileDevice::open(&path, &OpenOptions::read_write()).unwrap_err();
    }

    #[test]
    fn block_device_is_opened_exclusively() {
        let (_dir, path) = image(1 << 20);
        let Some(node) = Loop::attach(&path, &[]) else {
            return;
        };
        let device = FileDevice::open(&node.0, &OpenOptions::read_write()).unwrap();
        assert!(matches!(device.identity(), Some(DeviceId::Block { .. })));
        assert_eq!(device.len(), 1 << 20);
        device.set_len(2 << 20).unwrap_err();
        for options in [OpenOptions::read_write(), OpenOptions::read_only()] {
            let error = FileDevice::open(&node.0, &options).unwrap_err();
            assert!(matches!(error, BlockError::Busy { .. }), "{error}");
        }
        drop(device);
        let device = FileDevice::open(&node.0, &OpenOptions::read_write().direct(true)).unwrap();
        assert!(device.logical_block_size() >= 512);
    }
}
