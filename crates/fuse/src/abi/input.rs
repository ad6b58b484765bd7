//! Structures of requests.

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
    /// What every request begins with.
    Header { len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16, padding: u16 }
    /// How many references go.
    Forget { nlookup: u64 }
    /// One of [`BatchForget`].
    ForgetOne { nodeid: u64, nlookup: u64 }
    /// How many [`ForgetOne`] follow.
    BatchForget { count: u32, dummy: u32 }
    /// Whether a file handle is given.
    Getattr { getattr_flags: u32, dummy: u32, fh: u64 }
    /// A change of attributes.
    Setattr {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    /// A new file of any kind; the name follows.
    Mknod { mode: u32, rdev: u32, umask: u32, padding: u32 }
    /// A new directory; the name follows.
    Mkdir { mode: u32, umask: u32 }
    /// A move; old and new name follow.
    Rename { newdir: u64 }
    /// A move with flags; old and new name follow.
    Rename2 { newdir: u64, flags: u32, padding: u32 }
    /// A new name of a node; the name follows.
    Link { oldnodeid: u64 }
    /// How a file is opened.
    Open { flags: u32, open_flags: u32 }
    /// A new file that is opened; the name follows.
    Create { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    /// The end of an open file.
    Release { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    /// The end of a descriptor.
    Flush { fh: u64, unused: u32, padding: u32, lock_owner: u64 }
    /// What is read.
    Read { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    /// What is written; the data follows.
    Write { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    /// What is made durable.
    Fsync { fh: u64, fsync_flags: u32, padding: u32 }
    /// An extended attribute; name and value follow.
    Setxattr { size: u32, flags: u32, setxattr_flags: u32, padding: u32 }
    /// Room for a value; 0 asks for its size. The name follows.
    Getxattr { size: u32, padding: u32 }
    /// What access is asked for.
    Access { mask: u32, padding: u32 }
    /// Which request is meant.
    Interrupt { unique: u64 }
    /// An ioctl; its input follows.
    Ioctl { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32 }
    /// The events of a poll, and the key of its notification.
    Poll { fh: u64, kh: u64, flags: u32, events: u32 }
    /// A range, and what is done with it.
    Fallocate { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    /// What to search for.
    Lseek { fh: u64, offset: u64, whence: u32, padding: u32 }
    /// What is copied, and where to.
    CopyFileRange { fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64 }
    /// Nothing.
    Syncfs { padding: u64 }
    /// Which attributes.
    Statx { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32 }
}
