//! An image in a file, by what every host has: positioned I/O of `std`.
//!
//! It is the `FileDevice` of hosts other than Linux. It has no direct I/O, no holes and no block devices.
//!
//! # Locking
//! None: calls are positioned, and the length is atomic.

use crate::device::BlockDevice;
use crate::device_id::DeviceId;
use crate::engine::IoEngine;
use crate::error::{BlockError, BlockOp, Failure, Result, check_range};
use crate::open::OpenOptions;
use crate::origin::Origin;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uext4_sync::assert_may_block;

/// What [`BlockDevice::zero`] writes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// An image in a file of any host.
#[derive(Debug)]
pub struct PortableFile {
    /// Immutable.
    file: File,
    /// Immutable; for messages.
    path: PathBuf,
    /// Immutable.
    read_only: bool,
    /// Immutable.
    id: DeviceId,
    /// Bytes; atomic.
    len: AtomicU64,
    /// Set once a flush failed; the device has failed for good then.
    lost_writes: AtomicBool,
}

/// The name of this host, as its environment has it.
pub fn host_name() -> String {
    let named = ["HOSTNAME", "COMPUTERNAME"].into_iter();
    let mut named = named.filter_map(|name| std::env::var(name).ok());
    named.next().unwrap_or_else(|| "unknown".into())
}

impl PortableFile {
    /// Opens an image.
    ///
    /// # Errors
    /// [`BlockError::Busy`] when another open of it conflicts; [`BlockError::NotADevice`] when it is not a regular file;
    /// [`BlockError::NoDirect`] and [`BlockError::NoUring`] when these are requested; otherwise the host's error.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<PortableFile> {
        assert_may_block("device open");
        let path = path.as_ref();
        if options.direct {
            let path = path.to_owned();
            return Err(BlockError::NoDirect { path });
        }
        if options.engine == Some(IoEngine::Uring) {
            let source = io::ErrorKind::Unsupported.into();
            return Err(BlockError::NoUring { source });
        }
        let host = |source| open_error(path, source);
        let file = File::options()
            .read(true)
            .write(!options.read_only)
            .create(options.create)
            .open(path)
            .map_err(host)?;
        if !file.metadata().map_err(host)?.is_file() {
            let path = path.to_owned();
            return Err(BlockError::NotADevice { path });
        }
        if options.exclusive {
            lock(path, &file, options.read_only)?;
        }
        let device = PortableFile {
            len: AtomicU64::new(file.metadata().map_err(host)?.len()),
            id: id_of_path(path)?,
            file,
            path: path.to_owned(),
            read_only: options.read_only,
            lost_writes: AtomicBool::new(false),
        };
        if let Some(size) = options.size {
            device.set_len(size)?;
        }
        Ok(device)
    }

    /// Releases the lock on the image, as closing does, while readers may still use it.
    pub fn unlock(&self) {
        // A lock that cannot be released goes with the file.
        let _ = self.file.unlock();
    }

    /// Whether flushing makes nothing durable: unknown here, so false.
    pub fn is_volatile(&self) -> bool {
        false
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How batches reach the host: one request after the other.
    pub fn engine(&self) -> IoEngine {
        IoEngine::Plain
    }

    /// Does nothing: there are no rings.
    pub fn make_rings(&self, _callers: usize) {}

    fn check_change(&self, op: BlockOp, offset: u64, len: u64) -> Result<()> {
        if self.read_only {
            return Err(BlockError::ReadOnly { op, offset, len });
        }
        check_range(op, offset, len, self.len())?;
        if self.lost_writes.load(Ordering::Acquire) {
            let why = Failure::WritesLost;
            return Err(BlockError::Failed {
                op,
                offset,
                len,
                why,
            });
        }
        Ok(())
    }
}

impl BlockDevice for PortableFile {
    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        assert_may_block("device read");
        let (op, len) = (BlockOp::Read, buf.len() as u64);
        check_range(op, offset, len, self.len())?;
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            match read_some(&self.file, &mut buf[done..], at) {
                Ok(0) => {
                    let done = done as u64;
                    return Err(BlockError::Short {
                        op,
                        offset,
                        len,
                        done,
                    });
                }
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(BlockError::io(op, offset, len, e)),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        assert_may_block("device write");
        let (op, len) = (BlockOp::Write, buf.len() as u64);
        self.check_change(op, offset, len)?;
        let mut done = 0;
        while done < buf.len() {
            match write_some(&self.file, &buf[done..], offset + done as u64) {
                Ok(0) => return Err(BlockError::io(op, offset, len, io::ErrorKind::WriteZero)),
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(BlockError::io(op, offset, len, e)),
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        assert_may_block("device flush");
        self.check_change(BlockOp::Flush, 0, 0)?;
        if let Err(e) = self.file.sync_data() {
            // The host reports lost writes once.
            self.lost_writes.store(true, Ordering::Release);
            return Err(BlockError::io(BlockOp::Flush, 0, 0, e));
        }
        // One that failed beside this one took the report of what this one covers.
        self.check_change(BlockOp::Flush, 0, 0)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check_change(BlockOp::Discard, offset, len)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<()> {
        self.check_change(BlockOp::Zero, offset, len)?;
        let end = offset + len;
        for at in (offset..end).step_by(ZEROS.len()) {
            self.write_at(at, &ZEROS[..(end - at).min(ZEROS.len() as u64) as usize])?;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        assert_may_block("device set length");
        self.check_change(BlockOp::SetLen, 0, 0)?;
        let before = self.len();
        // The file is never shorter than the device.
        self.len.store(len.min(before), Ordering::Release);
        let result = self.file.set_len(len);
        let len_now = if result.is_ok() { len } else { before };
        self.len.store(len_now, Ordering::Release);
        result.map_err(|e| BlockError::io(BlockOp::SetLen, 0, len, e))
    }

    fn identity(&self) -> Option<DeviceId> {
        Some(self.id)
    }

    fn origin(&self, offset: u64, len: u64) -> Origin {
        Origin::of_file(self.identity(), offset, len)
    }
}

/// Keeps others out: one writer, or any number of readers.
fn lock(path: &Path, file: &File, read_only: bool) -> Result<()> {
    let (locked, mode) = match read_only {
        true => (file.try_lock_shared(), "read-write"),
        false => (file.try_lock(), "read-only or read-write"),
    };
    locked.map_err(|e| match e {
        TryLockError::WouldBlock => {
            let path = path.to_owned();
            BlockError::Busy { path, mode }
        }
        TryLockError::Error(source) => open_error(path, source),
    })
}

fn open_error(path: &Path, source: io::Error) -> BlockError {
    let path = path.to_owned();
    BlockError::Open { path, source }
}

/// The identity of the file at `path`.
#[cfg(unix)]
pub(crate) fn id_of_path(path: &Path) -> Result<DeviceId> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).map_err(|e| open_error(path, e))?;
    Ok(DeviceId::File {
        st_dev: metadata.dev(),
        st_ino: metadata.ino(),
    })
}

/// The identity of the file at `path`: its canonical path, as `std` knows no number for it.
#[cfg(not(unix))]
pub(crate) fn id_of_path(path: &Path) -> Result<DeviceId> {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    let path = path.canonicalize().map_err(|e| open_error(path, e))?;
    Ok(DeviceId::File {
        st_dev: 0,
        st_ino: BuildHasherDefault::<DefaultHasher>::new().hash_one(path),
    })
}

#[cfg(unix)]
use std::os::unix::fs::FileExt;
#[cfg(windows)]
use std::os::windows::fs::FileExt;

fn read_some(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    #[cfg(unix)]
    return file.read_at(buf, offset);
    #[cfg(windows)]
    return file.seek_read(buf, offset);
}

fn write_some(file: &File, buf: &[u8], offset: u64) -> io::Result<usize> {
    #[cfg(unix)]
    return file.write_at(buf, offset);
    #[cfg(windows)]
    return file.seek_write(buf, offset);
}
