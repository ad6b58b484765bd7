//! Where the host keeps the bytes of a file, as it says.

use rustix::io::Result;
use rustix::ioctl::{Updater, ioctl, opcode};
use std::os::fd::AsFd;

/// `struct fiemap` of linux/fiemap.h, with room for extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [RawExtent; EXTENTS],
}

/// `struct fiemap_extent` of linux/fiemap.h.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// The extents of a call.
const EXTENTS: usize = 256;
/// Its number has the size of the structure without extents.
const FS_IOC_FIEMAP: rustix::ioctl::Opcode = opcode::read_write::<[u8; 32]>(b'f', 11);
const FLAG_SYNC: u32 = 1;
const FLAG_XATTR: u32 = 2;
const LAST: u32 = 1;

/// A part of a file that is in one piece; in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostExtent {
    /// Where in the file.
    pub logical: u64,
    /// Where on the device of the host.
    pub physical: u64,
    /// How long.
    pub len: u64,
    /// Linux's `FIEMAP_EXTENT_*`.
    pub flags: u32,
}

/// What [`host_extents`] is asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostExtentsOf {
    /// Of the extended attributes, not of the data.
    pub xattrs: bool,
    /// Data in memory is written before.
    pub synced: bool,
}

/// The extents of an open file, in order, as they were when they were asked for.
///
/// # Errors
/// `EOPNOTSUPP`, `ENOTTY`: the file system of the host does not say; `EBADR`: not of extended attributes; its own.
pub fn host_extents(file: impl AsFd, of: HostExtentsOf) -> Result<Vec<HostExtent>> {
    let mut found = Vec::new();
    let flags = [(of.synced, FLAG_SYNC), (of.xattrs, FLAG_XATTR)];
    let flags = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag);
    let flags = flags.sum();
    let mut next = Some(0);
    while let Some(start) = next {
        let mut map = Fiemap {
            start,
            length: u64::MAX - start,
            flags,
            mapped_extents: 0,
            extent_count: EXTENTS as u32,
            reserved: 0,
            extents: [RawExtent::default(); EXTENTS],
        };
        // SAFETY: FS_IOC_FIEMAP reads and writes the structure and as many extents behind it as it says there is room for.
        unsafe {
            ioctl(
                file.as_fd(),
                Updater::<FS_IOC_FIEMAP, Fiemap>::new(&mut map),
            )?
        };
        let mapped = map.extents.iter().take(map.mapped_extents as usize);
        found.extend(mapped.map(|raw| HostExtent {
            logical: raw.logical,
            physical: raw.physical,
            len: raw.length,
            flags: raw.flags,
        }));
        let is_full = map.mapped_extents as usize == EXTENTS;
        let last = found.last().filter(|e| is_full && e.flags & LAST == 0);
        let end = last.and_then(|e| e.logical.checked_add(e.len));
        next = end.filter(|end| *end > start);
    }
    Ok(found)
}
