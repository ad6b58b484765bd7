//! The error of every device call.

use crate::errno::errno_of;
use std::sync::OnceLock;
use std::{fmt, io, path::PathBuf};

// The numbers of Linux.
pub(crate) const EINVAL: i32 = 22;
/// The device failed.
pub(crate) const EIO: i32 = 5;
/// The device is read-only.
pub(crate) const EROFS: i32 = 30;
pub(crate) const EFBIG: i32 = 27;
pub(crate) const ENOSPC: i32 = 28;

/// Why a device has failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// A flush or a durable write failed: what was written since the flush before may be lost.
    WritesLost,
    /// The image file is shorter than the device.
    Truncated {
        /// Bytes that it has.
        bytes: u64,
        /// Bytes of the device.
        device_bytes: u64,
    },
    /// Another host has the right to write, or may have it.
    LeaseLost(LeaseLoss),
}

/// How the right to write was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseLoss {
    /// Another writer took the image over.
    TakenOver,
    /// The cluster refuses this client, as another took its image over.
    Blocklisted,
    /// The cluster no longer watches this client, so that another may take its image over.
    WatchLost,
    /// The lock was broken.
    LockBroken,
}

impl fmt::Display for LeaseLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeaseLoss::TakenOver => "another host took the image over; unmount it, and mount it again only if this host is to write it",
            LeaseLoss::Blocklisted => {
                "the cluster blocks this client, as another host took the image over"
            }
            LeaseLoss::WatchLost => {
                "the cluster lost the watch of this client, and another host may take the image over"
            }
            LeaseLoss::LockBroken => "the lock of the image was broken",
        })
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::WritesLost => f.write_str("a flush failed earlier and writes may be lost"),
            Failure::Truncated {
                bytes,
                device_bytes,
            } => write!(
                f,
                "the image file was truncated: it is {bytes} bytes long, not {device_bytes}"
            ),
            Failure::LeaseLost(how) => write!(f, "{how}; what was not durable yet is lost"),
        }
    }
}

/// The result of a device call.
pub type Result<T> = std::result::Result<T, BlockError>;

/// What was asked of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockOp {
    /// A read.
    Read,
    /// A write, with or without FUA.
    Write,
    /// A flush.
    Flush,
    /// A discard.
    Discard,
    /// Zeroing.
    Zero,
    /// Giving a range its space.
    Allocate,
    /// A change of the device's length.
    SetLen,
}

impl fmt::Display for BlockOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BlockOp::Read => "read",
            BlockOp::Write => "write",
            BlockOp::Flush => "flush",
            BlockOp::Discard => "discard",
            BlockOp::Zero => "zero",
            BlockOp::Allocate => "allocation",
            BlockOp::SetLen => "set length",
        })
    }
}

/// Why a device call failed. Offsets and lengths are in bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// The device failed.
    #[error("{op} of {len} bytes at offset {offset} failed: {source}")]
    Io {
        /// What was asked.
        op: BlockOp,
        /// Where it began.
        offset: u64,
        /// How much was asked.
        len: u64,
        /// The host's error.
        source: io::Error,
    },
    /// The device ended, before its length.
    #[error("short {op} at offset {offset}: {done} of {len} bytes")]
    Short {
        /// What was asked.
        op: BlockOp,
        /// Where it began.
        offset: u64,
        /// How much was asked.
        len: u64,
        /// How much was there.
        done: u64,
    },
    /// The call goes past the end of the device.
    #[error("{op} of {len} bytes at offset {offset} is past the end of the device ({device_len})")]
    OutOfRange {
        /// What was asked.
        op: BlockOp,
        /// Where it began.
        offset: u64,
        /// How much was asked.
        len: u64,
        /// The length of the device.
        device_len: u64,
    },
    /// The device was opened read-only.
    #[error("{op} of {len} bytes at offset {offset} refused: device is read-only")]
    ReadOnly {
        /// What was asked.
        op: BlockOp,
        /// Where it began.
        offset: u64,
        /// How much was asked.
        len: u64,
    },
    /// The device has failed for good.
    #[error("{op} of {len} bytes at offset {offset} refused: {why}")]
    Failed {
        /// What was asked.
        op: BlockOp,
        /// Where it began.
        offset: u64,
        /// How much was asked.
        len: u64,
        /// Since when.
        why: Failure,
    },
    /// The image can't be opened.
    #[error("can't open {}: {source}", path.display())]
    Open {
        /// The path as given.
        path: PathBuf,
        /// The host's error.
        source: io::Error,
    },
    /// The file holds no image that can be opened, or not the part of one that is asked for.
    #[error("{}: {why}", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// What is wrong with it: the end of a sentence.
        why: String,
    },
    /// The tables of a qcow2 image contradict themselves.
    #[error("qcow2: {why}; `qemu-img check` reports what is damaged")]
    Qcow2 {
        /// Which, and how.
        why: String,
    },
    /// The file system that the image is on takes no direct I/O.
    #[error(
        "can't open {} for direct I/O: its file system refuses it; \
         open it without direct, or keep it on another file system", path.display()
    )]
    NoDirect {
        /// The path as given.
        path: PathBuf,
    },
    /// The host doesn't allow io_uring.
    #[error(
        "can't use io_uring: {source}; leave the choice of the engine to us, or choose pread/pwrite"
    )]
    NoUring {
        /// The host's error.
        source: io::Error,
    },
    /// Neither a regular file nor a block device.
    #[error("{} is neither a regular file nor a block device", path.display())]
    NotADevice {
        /// The path as given.
        path: PathBuf,
    },
    /// Another process has the image open.
    #[error("{}: image is already open {mode} elsewhere", path.display())]
    Busy {
        /// The path as given.
        path: PathBuf,
        /// How the other one has it open.
        mode: &'static str,
    },
    /// A client of the cluster holds the lock of the image, and is alive.
    #[error(
        "{}: {owner} holds its lock and is alive, or died less than half a minute ago; \
         `uext4 device break-lock` takes the lock from it", path.display()
    )]
    Locked {
        /// The name as given.
        path: PathBuf,
        /// The address of the client.
        owner: String,
    },
    /// The kernel has the block device mounted, and writes to it.
    #[error("{}: is mounted read-write at {}", path.display(), dir.display())]
    Mounted {
        /// The path as given.
        path: PathBuf,
        /// Where.
        dir: PathBuf,
    },
    /// The file backs a loop device, so the kernel may have it mounted.
    #[error("{}: image backs loop device {loop_device}", path.display())]
    BacksLoop {
        /// The path as given.
        path: PathBuf,
        /// The loop device, as `/dev/loop0`.
        loop_device: String,
    },
}

impl BlockError {
    /// An [`BlockError::Io`] with `source`.
    pub fn io(op: BlockOp, offset: u64, len: u64, source: impl Into<io::Error>) -> BlockError {
        BlockError::Io {
            op,
            offset,
            len,
            source: source.into(),
        }
    }

    /// The errno of Linux that fits; `None` when an [`io::Error`] made outside the host has none.
    pub fn raw_os_error(&self) -> Option<i32> {
        const ENOTBLK: i32 = 15;
        const EBUSY: i32 = 16;
        Some(match self {
            BlockError::Io { source, .. }
            | BlockError::Open { source, .. }
            | BlockError::NoUring { source } => return errno_of(source),
            BlockError::NoDirect { .. } | BlockError::Image { .. } => EINVAL,
            BlockError::Short { .. }
            | BlockError::OutOfRange { .. }
            | BlockError::Qcow2 { .. }
            | BlockError::Failed { .. } => EIO,
            BlockError::ReadOnly { .. } => EROFS,
            BlockError::NotADevice { .. } => ENOTBLK,
            BlockError::Busy { .. }
            | BlockError::Locked { .. }
            | BlockError::Mounted { .. }
            | BlockError::BacksLoop { .. } => EBUSY,
        })
    }

    /// Whether it could not be opened because it does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, BlockError::Open { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// What was asked of the device; `None` when it couldn't be opened.
    pub fn op(&self) -> Option<BlockOp> {
        match self {
            BlockError::Io { op, .. }
            | BlockError::Short { op, .. }
            | BlockError::OutOfRange { op, .. }
            | BlockError::Failed { op, .. }
            | BlockError::ReadOnly { op, .. } => Some(*op),
            _ => None,
        }
    }

    /// Where the failed call began; `None` when the device couldn't be opened.
    pub fn offset(&self) -> Option<u64> {
        match self {
            BlockError::Io { offset, .. }
            | BlockError::Short { offset, .. }
            | BlockError::OutOfRange { offset, .. }
            | BlockError::Failed { offset, .. }
            | BlockError::ReadOnly { offset, .. } => Some(*offset),
            _ => None,
        }
    }
}

/// Refuses a call to a device that has failed.
#[inline]
pub(crate) fn check_failure(
    failure: &OnceLock<Failure>,
    op: BlockOp,
    offset: u64,
    len: u64,
) -> Result<()> {
    match failure.get() {
        None => Ok(()),
        Some(&why) => Err(BlockError::Failed {
            op,
            offset,
            len,
            why,
        }),
    }
}

/// Refuses a range that isn't inside a device of `device_len` bytes.
///
/// # Errors
/// [`BlockError::OutOfRange`].
pub fn check_range(op: BlockOp, offset: u64, len: u64, device_len: u64) -> Result<()> {
    match offset.checked_add(len) {
        Some(end) if end <= device_len => Ok(()),
        _ => Err(BlockError::OutOfRange {
            op,
            offset,
            len,
            device_len,
        }),
    }
}
