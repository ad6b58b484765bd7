//! Descriptors of `/dev/fuse`.
#![allow(unsafe_code, reason = "ioctls have no safe form")]

use crate::settings::{SETTINGS_BYTES, SETTINGS_IOCTL};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, Updater, ioctl, opcode};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// `FUSE_DEV_IOC_CLONE` of `linux/fuse.h`.
const CLONE: Opcode = opcode::read::<u32>(229, 0);

/// [`SETTINGS_IOCTL`].
const SETTINGS: Opcode = SETTINGS_IOCTL;

/// `EXT4_IOC_RESIZE_FS` of the kernel's documentation of ext4.
const RESIZE_FS: Opcode = opcode::write::<u64>(b'f', 16);

/// A descriptor of `/dev/fuse` that is bound to no mount yet.
///
/// # Errors
/// As the host says: `ENOENT` without FUSE, `EACCES`.
pub fn open_device() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/dev/fuse", flags, Mode::empty())?)
}

/// Binds `device` to the mount of `connection`: requests that are read from one are answered through the same,
/// and no list of them is shared.
///
/// # Errors
/// `EINVAL`: `connection` is bound to no mount, or `device` to one already.
pub(super) fn bind(device: &OwnedFd, connection: BorrowedFd<'_>) -> io::Result<()> {
    let mut from: u32 = connection.as_raw_fd().cast_unsigned();
    // SAFETY: the ioctl reads 32 bits, which live until it returns.
    let bound: Result<(), Errno> = unsafe { ioctl(device, Updater::<CLONE, u32>::new(&mut from)) };
    Ok(bound?)
}

/// Asks the mount that `directory` is in for something, in `memory`, where the answer is then.
///
/// # Errors
/// `ENOTTY`: it is not a uext4 mount. `ENOTCONN`: its server is gone.
pub fn ask_settings(directory: impl AsFd, memory: &mut [u8; SETTINGS_BYTES]) -> io::Result<()> {
    // SAFETY: the ioctl reads and writes as many bytes as its number says and the memory has.
    let asked: Result<(), Errno> = unsafe {
        ioctl(
            directory,
            Updater::<SETTINGS, [u8; SETTINGS_BYTES]>::new(memory),
        )
    };
    Ok(asked?)
}

/// Makes the file system that `directory` is in larger: so many blocks (`EXT4_IOC_RESIZE_FS`).
///
/// # Errors
/// `EPERM`: the caller may not. `EINVAL`: it has more blocks, or its device is too short. `ENOTTY`: its server can't. Those of the server.
pub fn grow_mounted(directory: impl AsFd, blocks: u64) -> io::Result<()> {
    // SAFETY: the ioctl reads 64 bits, which live until it returns.
    let grown: Result<(), Errno> =
        unsafe { ioctl(directory, Setter::<RESIZE_FS, u64>::new(blocks)) };
    Ok(grown?)
}
