//! How an image is opened.

use crate::device_id::{DeviceId, identify, open_error};
use crate::engine::IoEngine;
use crate::error::{BlockError, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::ioctl::{Getter, Opcode, ioctl, opcode};
use std::os::fd::OwnedFd;
use std::path::Path;

/// `BLKGETSIZE64` of `linux/fs.h`; its number is made with the size of a pointer, what it writes is
/// 64 bits long.
const BLKGETSIZE64: Opcode = opcode::read::<usize>(0x12, 114);

/// `BLKROGET` of `linux/fs.h`.
const BLKROGET: Opcode = opcode::none(0x12, 94);

/// How a file or block device is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Refuse writes. Default false.
    pub(crate) read_only: bool,
    /// Keep others out: one writer, or any number of readers. Default true; without it nothing is
    /// locked and nothing is checked.
    pub(crate) exclusive: bool,
    /// Make the file if there is none. Default false.
    pub(crate) create: bool,
    /// The length to give to the file, in bytes; a block device must be at least as large. Default:
    /// as it is.
    pub(crate) size: Option<u64>,
    /// Bypass the host's cache (`O_DIRECT`). Default false.
    pub(crate) direct: bool,
    /// How batches reach the host. Default: chosen for the device, see [`FileDevice::engine`].
    ///
    /// [`FileDevice::engine`]: crate::FileDevice::engine
    pub(crate) engine: Option<IoEngine>,
}

impl OpenOptions {
    /// An existing image, to write to.
    pub fn read_write() -> OpenOptions {
        OpenOptions {
            read_only: false,
            exclusive: true,
            create: false,
            size: None,
            direct: false,
            engine: None,
        }
    }

    /// An existing image, to read from.
    pub fn read_only() -> OpenOptions {
        OpenOptions {
            read_only: true,
            ..OpenOptions::read_write()
        }
    }

    /// Bypasses the host's cache (`O_DIRECT`). Default false.
    pub fn direct(mut self, on: bool) -> OpenOptions {
        self.direct = on;
        self
    }

    /// Keeps other processes out: one writer, or any number of readers. Default true; with false nothing is
    /// locked and nothing is checked.
    pub fn exclusive(mut self, on: bool) -> OpenOptions {
        self.exclusive = on;
        self
    }

    /// How batches reach the host. Default: chosen for the device, see [`FileDevice::engine`].
    ///
    /// [`FileDevice::engine`]: crate::FileDevice::engine
    pub fn engine(mut self, engine: IoEngine) -> OpenOptions {
        self.engine = Some(engine);
        self
    }

    /// A new image of `size` bytes, or an existing file made that long; what it held stays.
    pub fn create(size: u64) -> OpenOptions {
        OpenOptions {
            create: true,
            size: Some(size),
            ..OpenOptions::read_write()
        }
    }
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions::read_write()
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

/// Refuses to write to a block device that is set read-only, which the kernel opens all the same.
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
        DeviceId::Block { .. } => unsafe { ioctl(fd, Getter::<BLKGETSIZE64, u64>::new()) },
    }
}
