//! The bytes of the FUSE protocol, as `linux/fuse.h` gives them: numbers here, structures in [`input`] and
//! [`output`]. All of it is in the byte order of the machine.

pub mod input;
pub mod output;

use bitflags::bitflags;

/// The most bytes of a read or write: 256 pages, the kernel's own maximum.
pub const DATA_BYTES_MAX: u32 = 1 << 20;

/// The node id of the root directory.
pub const ROOT_ID: u64 = 1;

/// Declares the opcodes, and what of each request lies before its payload.
macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $arg:ty;)*) => {
        /// What the kernel asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum Opcode {
            $($(#[$doc])* $name = $number),*
        }

        impl Opcode {
            /// Every opcode, ascending.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name),*];

            /// The opcode with that number; `None` for one that is not known here.
            pub const fn from_number(number: u32) -> Option<Opcode> {
                match number {
                    $($number => Some(Opcode::$name),)*
                    _ => None,
                }
            }

            /// How many bytes of a request's body are its structure; names and data follow.
            pub const fn arg_bytes(self) -> usize {
                match self {
                    $(Opcode::$name => size_of::<$arg>()),*
                }
            }
        }
    };
}

opcodes! {
    /// The entry of a directory.
    Lookup = 1, ();
    /// The kernel drops references to a node; no reply.
    Forget = 2, input::Forget;
    /// Attributes.
    Getattr = 3, input::Getattr;
    /// Changes of attributes.
    Setattr = 4, input::Setattr;
    /// The target of a symbolic link.
    Readlink = 5, ();
    /// A new symbolic link.
    Symlink = 6, ();
    /// A new file of any kind.
    Mknod = 8, input::Mknod;
    /// A new directory.
    Mkdir = 9, input::Mkdir;
    /// A name is removed.
    Unlink = 10, ();
    /// A directory is removed.
    Rmdir = 11, ();
    /// A rename.
    Rename = 12, input::Rename;
    /// A second name.
    Link = 13, input::Link;
    /// A file is opened.
    Open = 14, input::Open;
    /// Data is read.
    Read = 15, input::Read;
    /// Data is written.
    Write = 16, input::Write;
    /// The state of the file system.
    Statfs = 17, ();
    /// An open file is closed by its last user.
    Release = 18, input::Release;
    /// A file is made durable.
    Fsync = 20, input::Fsync;
    /// An extended attribute is set.
    Setxattr = 21, input::Setxattr;
    /// The value of an extended attribute.
    Getxattr = 22, input::Getxattr;
    /// The names of extended attributes.
    Listxattr = 23, input::Getxattr;
    /// An extended attribute is removed.
    Removexattr = 24, ();
    /// A descriptor is closed.
    Flush = 25, input::Flush;
    /// The first request.
    Init = 26, ();
    /// A directory is opened.
    Opendir = 27, input::Open;
    /// Entries of a directory.
    Readdir = 28, input::Read;
    /// An open directory is closed.
    Releasedir = 29, input::Release;
    /// A directory is made durable.
    Fsyncdir = 30, input::Fsync;
    /// The holder of a lock.
    Getlk = 31, ();
    /// A lock is taken, if it is free.
    Setlk = 32, ();
    /// A lock is taken.
    Setlkw = 33, ();
    /// access(2), where the kernel does not check itself.
    Access = 34, input::Access;
    /// A file is made and opened.
    Create = 35, input::Create;
    /// The caller of a request got a signal; no reply.
    Interrupt = 36, input::Interrupt;
    /// The device's block of a file's block.
    Bmap = 37, ();
    /// The last request.
    Destroy = 38, ();
    /// ioctl(2).
    Ioctl = 39, input::Ioctl;
    /// poll(2).
    Poll = 40, input::Poll;
    /// An answer to a notification.
    NotifyReply = 41, ();
    /// The kernel drops references to many nodes; no reply.
    BatchForget = 42, input::BatchForget;
    /// fallocate(2).
    Fallocate = 43, input::Fallocate;
    /// Entries of a directory with attributes.
    Readdirplus = 44, input::Read;
    /// A rename with flags.
    Rename2 = 45, input::Rename2;
    /// Where data and holes are.
    Lseek = 46, input::Lseek;
    /// Data is copied from one file to another.
    CopyFileRange = 47, input::CopyFileRange;
    /// Everything is made durable.
    Syncfs = 50, input::Syncfs;
    /// An unlinked file is created and opened.
    Tmpfile = 51, input::Create;
    /// Attributes, with the time of creation.
    Statx = 52, input::Statx;
    /// Data is copied from one file to another, and more than 4 GiB of it.
    CopyFileRange64 = 53, input::CopyFileRange;
}

impl Opcode {
    /// Whether the kernel waits for a reply.
    pub const fn has_reply(self) -> bool {
        !matches!(
            self,
            Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt
        )
    }
}

bitflags! {
    /// What of [`input::Setattr`] is to be set.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetattrValid: u32 {
        /// Permission bits.
        const MODE = 1;
        /// Owner.
        const UID = 1 << 1;
        /// Group.
        const GID = 1 << 2;
        /// Length.
        const SIZE = 1 << 3;
        /// Last access.
        const ATIME = 1 << 4;
        /// Last change of the data.
        const MTIME = 1 << 5;
        /// A file handle is given.
        const FH = 1 << 6;
        /// Last access, to the server's clock.
        const ATIME_NOW = 1 << 7;
        /// Last change of the data, to the server's clock.
        const MTIME_NOW = 1 << 8;
        /// A lock's owner is given.
        const LOCKOWNER = 1 << 9;
        /// Last change of the attributes.
        const CTIME = 1 << 10;
        /// Set-id bits are removed.
        const KILL_SUIDGID = 1 << 11;
    }
}

bitflags! {
    /// How an open file is to be used, in [`output::Open`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenReply: u32 {
        /// Past the page cache.
        const DIRECT_IO = 1;
        /// What is in the page cache stays.
        const KEEP_CACHE = 1 << 1;
        /// The entries of a directory may be cached.
        const CACHE_DIR = 1 << 3;
        /// No flush when a descriptor is closed.
        const NOFLUSH = 1 << 5;
        /// Direct writes run beside each other.
        const PARALLEL_DIRECT_WRITES = 1 << 6;
    }
}

/// In [`input::Open`] and [`input::Create`]: the truncation removes set-id bits.
pub const OPEN_KILL_SUIDGID: u32 = 1;
/// In [`input::Write`]: from the page cache, not from a call.
pub const WRITE_CACHE: u32 = 1;
/// In [`input::Write`]: the write removes set-id bits.
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// In [`input::Setxattr`]: an access control list takes the set-group-id bit.
pub const SETXATTR_ACL_KILL_SGID: u32 = 1;
/// In [`input::Fsync`]: the data alone.
pub const FSYNC_DATA_ONLY: u32 = 1;
/// In [`input::Ioctl`]: the file is a directory.
pub const IOCTL_DIR: u32 = 1 << 4;

/// In [`input::Poll`]: the server notifies the kernel of the next event.
pub const POLL_SCHEDULE_NOTIFY: u32 = 1;

/// The notification that what a poll waits for may be there.
pub const NOTIFY_POLL: i32 = 1;
/// The notification that what is cached of an inode is out of date.
pub const NOTIFY_INVAL_INODE: i32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_to_opcodes_and_back() {
        for &opcode in Opcode::ALL {
            assert_eq!(Opcode::from_number(opcode as u32), Some(opcode));
        }
        assert_eq!(Opcode::from_number(7), None);
        assert_eq!(Opcode::from_number(4096), None);
    }

    #[test]
    fn structures_have_the_sizes_of_the_protocol() {
        assert_eq!(size_of::<input::Header>(), 40);
        assert_eq!(size_of::<input::Write>(), 40);
        assert_eq!(size_of::<input::Setattr>(), 88);
        assert_eq!(size_of::<input::CopyFileRange>(), 56);
        assert_eq!(size_of::<input::Statx>(), 24);
        assert_eq!(size_of::<output::Header>(), 16);
        assert_eq!(size_of::<output::Attr>(), 88);
        assert_eq!(size_of::<output::Entry>(), 128);
        assert_eq!(size_of::<output::AttrReply>(), 104);
        assert_eq!(size_of::<output::Statfs>(), 80);
        assert_eq!(size_of::<output::StatxReply>(), 288);
        assert_eq!(size_of::<output::Dirent>(), 24);
    }
}
