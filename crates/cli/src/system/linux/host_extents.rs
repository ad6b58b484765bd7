//! Where the file systems of the host keep files.

use super::inode_flags::errno;
use crate::system::extents::{Extent, Mapped, Volume};
use rustix::fs::{FileType, Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::Path;
use uext4::Errno;
use uext4::unstable::ondisk::InodeFlags;
use uext4::unstable::{HostExtentsOf, host_extents};

/// Where the data or the extended attributes of a file are, and which file system that is; data in memory is written before if it is to be `synced`.
///
/// # Errors
/// The host's; `EOPNOTSUPP`: its file system does not say.
pub fn map(path: &Path, xattrs: bool, synced: bool) -> Result<(Mapped, u64), Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file: OwnedFd = rustix::fs::open(path, flags, Mode::empty()).map_err(errno)?;
    let there = rustix::fs::fstat(&file).map_err(errno)?;
    let volume = rustix::fs::fstatfs(&file).map_err(errno)?;
    let kind = FileType::from_raw_mode(there.st_mode);
    let flags = match matches!(kind, FileType::RegularFile | FileType::Directory) {
        true => rustix::fs::ioctl_getflags(&file).map_or(0, |flags| flags.bits()),
        false => 0,
    };
    let of = HostExtentsOf { xattrs, synced };
    let extents = host_extents(&file, of).map_err(errno)?;
    let extents = extents.into_iter().map(|extent| Extent {
        logical: extent.logical,
        physical: extent.physical,
        len: extent.len,
        flags: extent.flags,
    });
    let mapped = Mapped {
        size: there.st_size.cast_unsigned(),
        extents: extents.collect(),
        has_extents: flags & InodeFlags::EXTENTS.bits() != 0,
        volume: Volume {
            magic: volume.f_type.cast_unsigned(),
            block_size: volume.f_bsize.cast_unsigned(),
            blocks: volume.f_blocks,
        },
    };
    Ok((mapped, there.st_dev))
}
