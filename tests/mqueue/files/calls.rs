//! What is called on a mount of message queues, and what comes of it.

use uext4_vfs::{Fallocate, FileKind};

/// A result, or an errno.
pub type Res<T> = Result<T, i32>;

/// A time: as it was set, or later, which is the clock's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    Set(i64),
    Clock,
}

impl From<i64> for Time {
    fn from(sec: i64) -> Time {
        if sec < 1000 {
            Time::Set(sec)
        } else {
            Time::Clock
        }
    }
}

/// What stat(2) gives, and is the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub kind: FileKind,
    pub mode: u32,
    pub nlink: u64,
    pub owner: (u32, u32),
    pub size: u64,
    pub blocks: u64,
    pub block_size: u64,
    /// Access, modification, change.
    pub times: [Time; 3],
}

/// What statfs(2) gives, and is the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    pub block_size: u64,
    pub blocks: [u64; 3],
    pub inodes: [u64; 2],
    pub name_bytes_max: u64,
}

/// A call about extended attributes.
#[derive(Clone, Copy, Debug)]
pub enum Xattr<'a> {
    /// With a value of that length.
    Set(&'a str, usize),
    Get(&'a str),
    Remove(&'a str),
    List,
}

/// A mount of message queues; names are those of its directory, `.` is the directory.
pub trait Mount {
    /// Continues as that user, in the group of the same number.
    fn become_user(&self, uid: u32);
    fn set_queues_max(&self, max: u32);

    /// open(2) with `O_CREAT | O_EXCL`; the queue is closed again.
    fn create(&self, name: &str, mode: u32) -> Res<()>;
    /// mkdir(2), symlink(2), mknod(2).
    fn make(&self, name: &str, kind: FileKind) -> Res<()>;
    fn tmpfile(&self) -> Res<()>;
    fn unlink(&self, name: &str) -> Res<()>;
    fn rmdir(&self, name: &str) -> Res<()>;
    fn rename(&self, old: &str, new: &str, flags: u32) -> Res<()>;
    fn link(&self, old: &str, new: &str) -> Res<()>;

    fn stat(&self, name: &str) -> Res<Stat>;
    fn chmod(&self, name: &str, mode: u32) -> Res<()>;
    fn chown(&self, name: &str, uid: Option<u32>, gid: Option<u32>) -> Res<()>;
    fn truncate(&self, name: &str, size: u64) -> Res<()>;
    /// open(2) with `O_TRUNC`.
    fn open_truncate(&self, name: &str) -> Res<()>;
    /// Access and modification; `None` for now.
    fn utimes(&self, name: &str, to: Option<(i64, i64)>) -> Res<()>;

    /// Names in order, with the kind of each.
    fn list(&self) -> Res<Vec<(String, FileKind)>>;
    fn read(&self, name: &str, offset: u64, len: usize) -> Res<String>;
    fn write(&self, name: &str, len: usize) -> Res<usize>;
    fn read_nowait(&self, name: &str) -> Res<usize>;
    fn open_direct(&self, name: &str) -> Res<()>;
    fn readlink(&self, name: &str) -> Res<()>;
    fn fsync(&self, name: &str) -> Res<()>;
    fn syncfs(&self) -> Res<()>;
    fn statfs(&self) -> Res<Space>;
    fn fallocate(&self, name: &str, what: Fallocate, offset: u64, len: u64) -> Res<()>;
    fn seek(&self, name: &str, hole: bool, offset: u64) -> Res<u64>;
    fn xattr(&self, name: &str, call: Xattr<'_>) -> Res<usize>;
    /// Whether a handle is available, and opened again.
    fn handle(&self, name: &str) -> Res<()>;

    /// mq_open(3), the queue closed again; true to create, true to insist on that.
    fn mq_open(&self, name: &str, create: bool, exclusive: bool) -> Res<()>;
    fn mq_unlink(&self, name: &str) -> Res<()>;
    fn mq_send(&self, name: &str, bytes: &[u8]) -> Res<()>;
    fn mq_receive(&self, name: &str) -> Res<usize>;
    /// Unlinks a queue while it is open, and gives what it is then.
    fn unlink_open(&self, name: &str) -> Res<Stat>;
    /// Registers for a silent notification while `look` runs.
    fn notified(&self, name: &str, look: &mut dyn FnMut());
}
