//! Structures of replies.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
            #[repr(C)]
            #[allow(missing_docs, reason = "named as in linux/fuse.h")]
            pub struct $name { $(pub $field: $type),* }
        )*
    };
}

structures! {
    /// What every reply begins with.
    Header { len: u32, error: i32, unique: u64 }
    /// Attributes of a file.
    Attr {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32, mtimensec: u32,
        ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32,
    }
    /// A node that the kernel has a reference to from now on.
    Entry {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32,
        attr_valid_nsec: u32, attr: Attr,
    }
    /// Attributes, and how long they hold.
    AttrReply { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr }
    /// An open file.
    Open { fh: u64, open_flags: u32, padding: u32 }
    /// How much was written or copied.
    Written { size: u32, padding: u32 }
    /// How much was copied, where that may be more than 4 GiB.
    Copied { bytes: u64 }
    /// The state of a file system.
    Statfs {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32,
        padding: u32, spare: [u32; 6],
    }
    /// The size of a value.
    Getxattr { size: u32, padding: u32 }
    /// The outcome of an ioctl; its output follows.
    Ioctl { result: i32, flags: u32, in_iovs: u32, out_iovs: u32 }
    /// What is ready.
    Poll { revents: u32, padding: u32 }
    /// Which poll is to look again.
    PollWakeup { kh: u64 }
    /// Where it was found.
    Lseek { offset: u64 }
    /// An entry of a directory; the name follows, and zeros up to a multiple of 8 bytes.
    Dirent { ino: u64, off: u64, namelen: u32, kind: u32 }
    /// A point in time.
    SxTime { tv_sec: i64, tv_nsec: u32, reserved: i32 }
    /// Attributes as statx(2) gives them.
    Statx {
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16, spare0: u16, ino: u64,
        size: u64, blocks: u64, attributes_mask: u64, atime: SxTime, btime: SxTime, ctime: SxTime, mtime: SxTime,
        rdev_major: u32, rdev_minor: u32, dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
    /// Attributes as statx(2) gives them, and how long they hold.
    StatxReply { attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx }
    /// Which of an inode's data is out of date; none of it with an offset below zero.
    InvalInode { ino: u64, off: i64, len: i64 }
}
