//! Opening an image: its flags, its identity, its size.

use crate::device_id::DeviceId;
use crate::error::{BlockError, Result};
use crate::open::OpenOptions;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use rustix::ioctl::{Getter, Opcode, ioctl, opcode};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// `BLKGETSIZE64` of `linux/fs.h`; its number is made with the size of a pointer, what it writes is
/// 64 bits long.
const BLKGETSIZE64: Opcode = opcode::read::<usize>(0x12, 114);

/// `BLKROGET` of `linux/fs.h`.
const BLKROGET: Opcode = opcode::none(0x12, 94);

/// The identity of what is at `path` now.
pub(crate) fn id_of_path(path: &Path) -> Result<DeviceId> {
    let stat = rustix::fs::stat(path).map_err(|errno| open_error(path, errno))?;
    identify(path, &stat)
}

pub(crate) fn identify(path: &Path, stat: &Stat) -> Result<DeviceId> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(DeviceId::File {
            st_dev: stat.st_dev,
            st_ino: stat.st_ino,
        }),
        FileType::BlockDevice => Ok(DeviceId::Block { rdev: stat.st_rdev }),
        _ => Err(BlockError::NotADevice {
            path: path.to_owned(),
        }),
    }
}

pub(crate) fn open_error(path: &Path, errno: Errno) -> BlockError {
    BlockError::Open {
        path: path.to_owned(),
        source: io::Error::from(errno),
    }
}

pub(crate) fn open_fd(path: &Path, options: &OpenOptions) -> Result<OwnedFd> {
    // Checked first, as opening a FIFO would wait and as only block devices take O_EXCL alone.
    let is_block = match rustix::fs::stat(path) {
        Ok(stat) => matches!(identify(path, &stat)?, DeviceId::Block { .. }),
        Err(Errno::NOENT) if options.create => false,
        Err(errno) => return Err(open_error(path, errno)),
    };
    let flags = open_flags(options, is_block);
    retry_on_intr(|| rustix::fs::open(path, flags, Mode::from_raw_mode(0o666))).map_err(|errno| {
        match errno {
            Errno::INVAL if options.direct => BlockError::NoDirect {
                path: path.to_owned(),
            },
            Errno::BUSY => BlockError::Busy {
                path: path.to_owned(),
                mode: "read-write",
            },
            _ => open_error(path, errno),
        }
    })
}

/// The flags that an image is opened with.
pub(crate) fn open_flags(options: &OpenOptions, is_block: bool) -> OFlags {
    let mut flags = OFlags::CLOEXEC;
    flags |= match options.read_only {
        true => OFlags::RDONLY,
        false => OFlags::RDWR,
    };
    if options.create && !is_block {
        flags |= OFlags::CREATE;
    }
    if options.exclusive && !options.read_only && is_block {
        flags |= OFlags::EXCL;
    }
    if options.direct {
        flags |= OFlags::DIRECT;
    }
    flags
}

/// Refuses to write to a block device that is set read-only: the kernel opens it for writing nevertheless.
pub(crate) fn refuse_read_only(path: &Path, fd: &OwnedFd) -> Result<()> {
    // SAFETY: BLKROGET writes one int.
    match unsafe { ioctl(fd, Getter::<BLKROGET, i32>::new()) } {
        Ok(0) => Ok(()),
        Ok(_) => Err(open_error(path, Errno::ROFS)),
        Err(errno) => Err(open_error(path, errno)),
    }
}

pub(crate) fn size_of_image(fd: &OwnedFd, id: DeviceId) -> rustix::io::Result<u64> {
    match id {
        DeviceId::File { .. } => {
            rustix::fs::fstat(fd).map(|stat| u64::try_from(stat.st_size).unwrap_or(0))
        }
        // SAFETY: BLKGETSIZE64 writes one u64.
        _ => unsafe { ioctl(fd, Getter::<BLKGETSIZE64, u64>::new()) },
    }
}
