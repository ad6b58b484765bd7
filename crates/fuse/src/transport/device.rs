//! Descriptors of `/dev/fuse`.
#![allow(unsafe_code, reason = "ioctls have no safe form")]

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// `FUSE_DEV_IOC_CLONE` of `linux/fuse.h`.
const CLONE: Opcode = opcode::read::<u32>(229, 0);

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
