//! What is known about a file, and what can be asked of one: plain values without behaviour.

use bitflags::bitflags;
use std::time::Duration;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A file with data.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl FileKind {
    /// The bits of `S_IFMT` for it, as in `st_mode`.
    pub const fn mode_bits(self) -> u32 {
        match self {
            FileKind::Fifo => 0o010_000,
            FileKind::CharDevice => 0o020_000,
            FileKind::Directory => 0o040_000,
            FileKind::BlockDevice => 0o060_000,
            FileKind::Regular => 0o100_000,
            FileKind::Symlink => 0o120_000,
            FileKind::Socket => 0o140_000,
        }
    }

    /// The kind that the `S_IFMT` bits of `mode` give.
    pub const fn from_mode_bits(mode: u32) -> Option<FileKind> {
        Some(match mode & 0o170_000 {
            0o010_000 => FileKind::Fifo,
            0o020_000 => FileKind::CharDevice,
            0o040_000 => FileKind::Directory,
            0o060_000 => FileKind::BlockDevice,
            0o100_000 => FileKind::Regular,
            0o120_000 => FileKind::Symlink,
            0o140_000 => FileKind::Socket,
            _ => return None,
        })
    }
}

/// A point in time: seconds since 1970, and nanoseconds below 1,000,000,000 after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds; negative before 1970.
    pub sec: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nsec: u32,
}

impl Timestamp {
    /// How long before this `earlier` was; nothing if it was not.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let since_epoch = |t: Timestamp| Duration::new(t.sec.max(0).cast_unsigned(), t.nsec);
        since_epoch(self).saturating_sub(since_epoch(earlier))
    }

    /// The clock of the machine; 1970 where that is set before: no file is older here.
    pub fn now() -> Timestamp {
        let now = uext4_sync::clock::since_epoch();
        Timestamp {
            sec: now.as_secs().cast_signed(),
            nsec: now.subsec_nanos(),
        }
    }

    /// The clock of the machine to a tick of its timer (10 ms at most), which is cheap to read on Linux.
    pub fn coarse() -> Timestamp {
        #[cfg(virtual_cpus)]
        if let Some(sec) = uext4_sync::virtual_cpus::stopped_at() {
            return Timestamp { sec, nsec: 0 };
        }
        #[cfg(all(target_os = "linux", not(shuttle)))]
        {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
            Timestamp {
                sec: now.tv_sec,
                nsec: u32::try_from(now.tv_nsec).unwrap_or(0),
            }
        }
        #[cfg(not(all(target_os = "linux", not(shuttle))))]
        Timestamp::now()
    }
}

/// The attributes of a file, as statx(2) gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: u64,
    /// The generation, which distinguishes uses of the same inode number.
    pub generation: u32,
    /// What the file is.
    pub kind: FileKind,
    /// The 12 permission bits: set-id and sticky bits, and rwx for owner, group and others.
    pub mode: u16,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Space used, in units of 512 bytes.
    pub blocks: u64,
    /// The unit for efficient I/O, in bytes.
    pub block_size: u32,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of the data.
    pub mtime: Timestamp,
    /// Last change of the data or the attributes.
    pub ctime: Timestamp,
    /// Creation.
    pub crtime: Timestamp,
    /// Of a device file, the major number.
    pub rdev_major: u32,
    /// Of a device file, the minor number.
    pub rdev_minor: u32,
    /// Inode flags, as `FS_IOC_GETFLAGS` numbers them.
    pub flags: u32,
}

impl Attr {
    /// `FS_IMMUTABLE_FL` in [`Attr::flags`]: nothing about the file can be changed.
    pub const FLAG_IMMUTABLE: u32 = 0x10;
    /// `FS_APPEND_FL` in [`Attr::flags`]: the file can only be appended to.
    pub const FLAG_APPEND: u32 = 0x20;
    /// `FS_VERITY_FL` in [`Attr::flags`]: the data of the file cannot be changed.
    pub const FLAG_VERITY: u32 = 0x10_0000;

    /// Type and permission bits together, as in `st_mode`.
    pub const fn st_mode(&self) -> u32 {
        self.kind.mode_bits() | self.mode as u32
    }
}

/// What a timestamp is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSet {
    /// The current time. Write permission suffices to set it.
    Now,
    /// A given time; only the owner may ask for it.
    At(Timestamp),
}

impl TimeSet {
    /// The time to store, where `now` is the file system's clock.
    pub const fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            TimeSet::Now => now,
            TimeSet::At(time) => time,
        }
    }
}

/// A change of attributes; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// The 12 permission bits.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<TimeSet>,
    /// Last change of the data.
    pub mtime: Option<TimeSet>,
    /// Last change of the attributes; for copying images, no system call sets it.
    pub ctime: Option<TimeSet>,
    /// Creation; for copying images, no system call sets it.
    pub crtime: Option<TimeSet>,
}

/// The state of a file system, as statvfs(3) gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Size of a block in bytes; the counts of blocks are in this unit.
    pub block_size: u32,
    /// All blocks that can hold data.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Free blocks that users other than root can have.
    pub blocks_available: u64,
    /// All inodes.
    pub inodes: u64,
    /// Free inodes.
    pub inodes_free: u64,
    /// Identity of the file system.
    pub fsid: u64,
    /// The longest name, in bytes.
    pub name_bytes_max: u32,
    /// Whether writes are refused.
    pub read_only: bool,
}

bitflags! {
    /// How renameat2(2) treats the new name; the numbers are Linux's.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RenameFlags: u32 {
        /// Fail with `EEXIST` when the new name exists.
        const NOREPLACE = 1;
        /// Exchange the two names.
        const EXCHANGE = 2;
        /// Leave a whiteout (character device 0, 0) at the old name.
        const WHITEOUT = 4;
    }
}

bitflags! {
    /// How setxattr(2) treats an existing attribute; the numbers are Linux's.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct XattrFlags: u32 {
        /// Fail with `EEXIST` when it exists.
        const CREATE = 1;
        /// Fail with `ENODATA` when it does not exist.
        const REPLACE = 2;
    }
}

/// What a new name is to refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewKind<'a> {
    /// An empty file.
    Regular,
    /// An empty directory.
    Directory,
    /// A symbolic link with this target.
    Symlink(&'a [u8]),
    /// A device file.
    Device {
        /// `CharDevice` or `BlockDevice`.
        kind: FileKind,
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl NewKind<'_> {
    /// The kind of file that this makes.
    pub const fn file_kind(&self) -> FileKind {
        match self {
            NewKind::Regular => FileKind::Regular,
            NewKind::Directory => FileKind::Directory,
            NewKind::Symlink(_) => FileKind::Symlink,
            NewKind::Device { kind, .. } => *kind,
            NewKind::Fifo => FileKind::Fifo,
            NewKind::Socket => FileKind::Socket,
        }
    }
}

/// A file to be created. Owner and group follow from the caller and the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewNode<'a> {
    /// The 12 permission bits, before the caller's umask; without meaning for a symbolic link, and set-id bits
    /// without meaning for a directory.
    pub mode: u16,
    /// What is made.
    pub kind: NewKind<'a>,
}

/// One entry that a directory gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Inode number.
    pub ino: u64,
    /// The kind of file, where the directory says.
    pub kind: Option<FileKind>,
    /// The name.
    pub name: &'a [u8],
    /// Reading from here resumes after this entry.
    pub cookie: u64,
}

/// A file that can be found again without a name, and is known as stale once its inode is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileHandle {
    /// Inode number.
    pub ino: u64,
    /// The generation of that inode; 0 matches any, as on Linux.
    pub generation: u32,
}

impl FileHandle {
    /// Length of the encoded form in bytes.
    pub const BYTES: usize = 12;

    /// The encoded form: inode number, then generation, little-endian.
    pub fn to_bytes(self) -> [u8; FileHandle::BYTES] {
        let mut out = [0; FileHandle::BYTES];
        out[..8].copy_from_slice(&self.ino.to_le_bytes());
        out[8..].copy_from_slice(&self.generation.to_le_bytes());
        out
    }

    /// Reads what [`FileHandle::to_bytes`] made; `None` when the length is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Option<FileHandle> {
        if bytes.len() != FileHandle::BYTES {
            return None;
        }
        let (ino, rest) = bytes.split_first_chunk::<8>()?;
        let (generation, _) = rest.split_first_chunk::<4>()?;
        Some(FileHandle {
            ino: u64::from_le_bytes(*ino),
            generation: u32::from_le_bytes(*generation),
        })
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_mode_bits_agree() {
        for kind in [
            FileKind::Regular,
            FileKind::Directory,
            FileKind::Symlink,
            FileKind::CharDevice,
            FileKind::BlockDevice,
            FileKind::Fifo,
            FileKind::Socket,
        ] {
            assert_eq!(
                FileKind::from_mode_bits(kind.mode_bits() | 0o7777),
                Some(kind)
            );
        }
        assert_eq!(FileKind::from_mode_bits(0o7777), None);
    }

    #[test]
    fn handles_survive_encoding() {
        let handle = FileHandle {
            ino: 0x0123_4567_89ab_cdef,
            generation: 0xdead_beef,
        };
        assert_eq!(FileHandle::from_bytes(&handle.to_bytes()), Some(handle));
        assert_eq!(FileHandle::from_bytes(&[0; 11]), None);
        assert_eq!(FileHandle::from_bytes(&[0; 13]), None);
    }

    #[test]
    fn the_clock_is_after_2020() {
        let now = Timestamp::now();
        assert!(now.sec > 1_577_836_800 && now.nsec < 1_000_000_000);
    }
}
