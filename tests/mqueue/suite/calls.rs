//! What every side can do.

use crate::machine::capabilities;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use libc::{O_CREAT, O_EXCL, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY};

/// A result, or an errno.
pub type Res<T> = Result<T, i32>;

/// An absolute time: seconds and nanoseconds.
pub type Time = (i64, i64);

/// How a process is notified.
#[derive(Clone, Copy)]
pub enum Told {
    None,
    Signal,
    /// By the signal of that number, if there is one.
    Number(i32),
    Thread,
}

/// What another process, that has the same descriptions, does before it ends.
#[derive(Clone, Copy)]
pub enum Other {
    Register,
    TakeBack,
    Close,
}

/// What fstat(2) gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    pub mode: u32,
    pub nlink: u64,
    pub owner: (u32, u32),
}

/// What mq_getattr(3) gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    pub flags: i64,
    pub maxmsg: i64,
    pub msgsize: i64,
    pub curmsgs: i64,
}

/// Message queues; descriptors are numbers.
pub trait Mq: Sync {
    fn open(&self, name: &[u8], flags: i32, mode: u32, size: Option<(i64, i64)>) -> Res<i32>;
    fn close(&self, d: i32) -> Res<()>;
    fn unlink(&self, name: &[u8]) -> Res<()>;
    fn timedsend(&self, d: i32, bytes: &[u8], priority: u32, until: Option<Time>) -> Res<()>;
    fn timedreceive(&self, d: i32, len: usize, until: Option<Time>) -> Res<(Vec<u8>, u32)>;
    fn getattr(&self, d: i32) -> Res<Attr>;
    fn setattr(&self, d: i32, flags: i64) -> Res<Attr>;
    fn notify(&self, d: i32, how: Option<Told>) -> Res<()>;
    /// How often the process was notified so far.
    fn told(&self) -> u32;
    /// Whether it can be read, and written.
    fn poll(&self, d: i32) -> (bool, bool);
    fn status(&self, d: i32) -> String;
    /// The number of the process that calls.
    fn process(&self) -> u32 {
        std::process::id()
    }
    /// Whether root may go beyond the limits (`CAP_SYS_RESOURCE`).
    fn root_has_no_limits(&self) -> bool {
        capabilities() & (1 << 24) != 0
    }
    /// This thread continues as that user.
    fn become_user(&self, uid: u32);
    /// As the file of that name in `/proc/sys/fs/mqueue`.
    fn set_limit(&self, name: &str, value: u32);
    fn umask(&self, mask: u32);
    fn stat(&self, d: i32) -> File;
    /// Returns once that many wait to send or to receive.
    fn until_waiting(&self, d: i32, waiting: usize);
    /// This thread continues with that scheduling priority, if it may.
    fn set_priority(&self, priority: i32) -> bool;
    /// Returns once it can be written, or read.
    fn wait_ready(&self, d: i32, write: bool);
    fn other_process(&self, d: i32, what: Other) -> Res<()>;
    /// What a call that waits gives when a signal is caught.
    fn interrupted(&self, call: &(dyn Fn() -> Res<()> + Sync), d: i32) -> Res<()>;

    fn send(&self, d: i32, bytes: &[u8], priority: u32) -> Res<()> {
        self.timedsend(d, bytes, priority, None)
    }

    fn receive(&self, d: i32, len: usize) -> Res<(Vec<u8>, u32)> {
        self.timedreceive(d, len, None)
    }

    /// A new queue for 3 messages of 16 bytes, open for both.
    fn small(&self, name: &[u8], flags: i32) -> i32 {
        let flags = flags | O_CREAT | O_EXCL | O_RDWR;
        let made = self.open(name, flags, 0o600, Some((3, 16)));
        made.expect("a small queue")
    }

    /// A descriptor that is not open.
    fn closed(&self) -> i32 {
        1_000_000
    }
}

/// Now and some milliseconds.
pub fn after(ms: u64) -> Time {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    let at = since + Duration::from_millis(ms);
    (at.as_secs().cast_signed(), i64::from(at.subsec_nanos()))
}
