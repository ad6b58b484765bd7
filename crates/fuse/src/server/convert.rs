//! Conversion between values of the file system and values of the protocol.

use crate::abi::output;
use uext4_vfs::{Attr, FileKind, IoFlags, NewKind, Timestamp};

const O_DIRECT: u32 = libc::O_DIRECT as u32;
const O_DSYNC: u32 = libc::O_DSYNC as u32;
const O_SYNC: u32 = libc::O_SYNC as u32;

/// A device number as the protocol has it.
const fn rdev_of(major: u32, minor: u32) -> u32 {
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

/// Attributes.
pub fn attr(attr: &Attr) -> output::Attr {
    output::Attr {
        ino: attr.ino,
        size: attr.size,
        blocks: attr.blocks,
        atime: attr.atime.sec.cast_unsigned(),
        mtime: attr.mtime.sec.cast_unsigned(),
        ctime: attr.ctime.sec.cast_unsigned(),
        atimensec: attr.atime.nsec,
        mtimensec: attr.mtime.nsec,
        ctimensec: attr.ctime.nsec,
        mode: attr.st_mode(),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: rdev_of(attr.rdev_major, attr.rdev_minor),
        blksize: attr.block_size,
        flags: 0,
    }
}

/// Attributes for statx(2).
pub fn statx(attr: &Attr) -> output::Statx {
    let time = |t: Timestamp| output::SxTime {
        tv_sec: t.sec,
        tv_nsec: t.nsec,
        reserved: 0,
    };
    output::Statx {
        mask: libc::STATX_BASIC_STATS | libc::STATX_BTIME,
        blksize: attr.block_size,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        mode: attr.st_mode() as u16,
        ino: attr.ino,
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime),
        btime: time(attr.crtime),
        ctime: time(attr.ctime),
        mtime: time(attr.mtime),
        rdev_major: attr.rdev_major,
        rdev_minor: attr.rdev_minor,
        ..output::Statx::default()
    }
}

/// The type of a directory entry, as getdents(2) has it; 0 if the directory does not record it.
pub fn dirent_kind(kind: Option<FileKind>) -> u32 {
    kind.map_or(0, |kind| kind.mode_bits() >> 12)
}

/// The node that mknod(2) creates; `None` for a kind that it cannot create.
pub fn new_kind(mode: u32, rdev: u32) -> Option<NewKind<'static>> {
    let (major, minor) = (rdev >> 8 & 0xfff, rdev & 0xff | rdev >> 12 & 0xf_ff00);
    let kind = match mode & libc::S_IFMT {
        0 => FileKind::Regular,
        _ => FileKind::from_mode_bits(mode)?,
    };
    Some(match kind {
        FileKind::Regular => NewKind::Regular,
        FileKind::Fifo => NewKind::Fifo,
        FileKind::Socket => NewKind::Socket,
        FileKind::CharDevice | FileKind::BlockDevice => NewKind::Device { kind, major, minor },
        FileKind::Directory | FileKind::Symlink => return None,
    })
}

/// The flags of a read or write of an open file.
pub fn io_flags(flags: u32) -> IoFlags {
    let mut io = IoFlags::empty();
    io.set(IoFlags::DIRECT, flags & O_DIRECT != 0);
    io.set(IoFlags::SYNC, flags & O_SYNC == O_SYNC);
    io.set(IoFlags::DSYNC, flags & O_DSYNC != 0);
    io
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_survive() {
        for (major, minor) in [(0, 0), (8, 1), (0xfff, 0xf_ffff), (259, 300)] {
            let made = new_kind(libc::S_IFBLK, rdev_of(major, minor));
            let kind = FileKind::BlockDevice;
            assert_eq!(made, Some(NewKind::Device { kind, major, minor }));
        }
        assert_eq!(new_kind(0o644, 0), Some(NewKind::Regular));
        assert_eq!(new_kind(libc::S_IFDIR, 0), None);
    }

    #[test]
    fn flags_of_an_open_file() {
        assert_eq!(io_flags(O_DSYNC), IoFlags::DSYNC);
        assert_eq!(
            io_flags(O_SYNC | O_DIRECT),
            IoFlags::SYNC | IoFlags::DSYNC | IoFlags::DIRECT
        );
        assert_eq!(
            io_flags(libc::O_RDWR as u32 | libc::O_APPEND as u32),
            IoFlags::empty()
        );
    }
}
