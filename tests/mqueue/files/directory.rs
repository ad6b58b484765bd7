//! A mounted directory of queues, by system calls.
//!
//! # Data model
//! The directory is a descriptor, which serves users that cannot reach it by its path.

use crate::calls::{Mount, Res, Space, Stat, Xattr};
use crate::machine;
use rustix::fs::{
    self, AtFlags, Dir, FallocateFlags, Gid, Mode, OFlags, RenameFlags, SeekFrom, Timespec,
    Timestamps, UTIME_NOW, Uid, XattrFlags,
};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::{Error, IoSliceMut};
use uext4_testkit::prelude::*;

/// The calls that are about queues alone; names start with a slash.
pub trait Queues {
    fn set_queues_max(&self, max: u32);
    /// mq_open(3) for a queue of this user alone, of the default size.
    fn open(&self, name: &str, flags: OFlags) -> Res<OwnedFd>;
    fn unlink(&self, name: &str) -> Res<()>;
    fn send(&self, queue: BorrowedFd<'_>, bytes: &[u8]) -> Res<()>;
    fn receive(&self, queue: BorrowedFd<'_>, bytes: &mut [u8]) -> Res<usize>;
    /// mq_notify(3) with `SIGEV_NONE`.
    fn register(&self, queue: BorrowedFd<'_>) -> Res<()>;
}

/// A file handle: the length that is offered or used, the type, and room.
pub type RawHandle = [u32; 34];

/// A mounted directory, and what is called for its queues.
pub struct Directory<Q: Queues> {
    pub fd: OwnedFd,
    queues: Q,
}

pub fn errno(e: Errno) -> i32 {
    e.raw_os_error()
}

pub fn check(result: i64) -> Res<i64> {
    if result < 0 {
        return Err(Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    Ok(result)
}

fn slashed(name: &str) -> String {
    format!("/{name}")
}

impl<Q: Queues> Directory<Q> {
    /// What is mounted there.
    pub fn new(path: &Path, queues: Q) -> Directory<Q> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = fs::open(path, flags, Mode::empty()).expect("a directory");
        Directory { fd, queues }
    }

    fn open(&self, name: &str, flags: OFlags) -> Res<OwnedFd> {
        fs::openat(&self.fd, name, flags | OFlags::CLOEXEC, Mode::empty()).map_err(errno)
    }

    /// The directory for calls that take a path.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    /// The file handle of a name (name_to_handle_at(2)).
    pub fn handle_of(&self, name: &str) -> Res<RawHandle> {
        let name = CString::new(name).expect("no zero byte");
        let (mut handle, mut mount) = ([0u32; 34], 0);
        handle[0] = 128;
        let (fd, out) = (self.fd.as_raw_fd(), handle.as_mut_ptr());
        let call = libc::SYS_name_to_handle_at;
        // SAFETY: name, handle and mount number live through the call; the handle has the room it names.
        check(unsafe { libc::syscall(call, fd, name.as_ptr(), out, &raw mut mount, 0) })?;
        Ok(handle)
    }

    /// Opens what a handle is of (open_by_handle_at(2)), and closes it again.
    pub fn open_handle(&self, handle: &RawHandle) -> Res<()> {
        let dir = self.open(".", OFlags::RDONLY)?;
        let (call, fd) = (libc::SYS_open_by_handle_at, dir.as_raw_fd());
        // SAFETY: the handle lives through the call, and is as it was given.
        let opened = check(unsafe { libc::syscall(call, fd, handle.as_ptr(), libc::O_RDONLY) })?;
        let opened = i32::try_from(opened).expect("a descriptor");
        // SAFETY: it is new, and owned here.
        drop(unsafe { OwnedFd::from_raw_fd(opened) });
        Ok(())
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }
}

/// The namespace goes some time after its thread; what its queues are charged must not wait for that.
impl<Q: Queues> Drop for Directory<Q> {
    fn drop(&mut self) {
        machine::become_user(0);
        for (name, kind) in self.list().unwrap_or_default() {
            if kind == FileKind::Regular {
                self.unlink(&name).ok();
            }
        }
    }
}

fn stat(s: &fs::Stat) -> Stat {
    Stat {
        kind: FileKind::from_mode_bits(s.st_mode).expect("a kind"),
        mode: s.st_mode & 0o7777,
        nlink: s.st_nlink,
        owner: (s.st_uid, s.st_gid),
        size: s.st_size.cast_unsigned(),
        blocks: s.st_blocks.cast_unsigned(),
        block_size: s.st_blksize.cast_unsigned(),
        times: [s.st_atime, s.st_mtime, s.st_ctime].map(Into::into),
    }
}

impl<Q: Queues> Mount for Directory<Q> {
    fn become_user(&self, uid: u32) {
        machine::become_user(uid);
    }

    fn set_queues_max(&self, max: u32) {
        self.queues.set_queues_max(max);
    }

    fn create(&self, name: &str, mode: u32) -> Res<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let made = fs::openat(&self.fd, name, flags, Mode::from_raw_mode(mode));
        made.map(drop).map_err(errno)
    }

    fn make(&self, name: &str, kind: FileKind) -> Res<()> {
        match kind {
            FileKind::Directory => fs::mkdirat(&self.fd, name, Mode::RWXU),
            FileKind::Symlink => fs::symlinkat("x", &self.fd, name),
            other => {
                let kind = fs::FileType::from_raw_mode(other.mode_bits());
                fs::mknodat(&self.fd, name, kind, Mode::RWXU, fs::makedev(1, 3))
            }
        }
        .map_err(errno)
    }

    fn tmpfile(&self) -> Res<()> {
        self.open(".", OFlags::TMPFILE | OFlags::RDWR).map(drop)
    }

    fn unlink(&self, name: &str) -> Res<()> {
        fs::unlinkat(&self.fd, name, AtFlags::empty()).map_err(errno)
    }

    fn rmdir(&self, name: &str) -> Res<()> {
        fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR).map_err(errno)
    }

    fn rename(&self, old: &str, new: &str, flags: u32) -> Res<()> {
        let flags = RenameFlags::from_bits_retain(flags);
        fs::renameat_with(&self.fd, old, &self.fd, new, flags).map_err(errno)
    }

    fn link(&self, old: &str, new: &str) -> Res<()> {
        fs::linkat(&self.fd, old, &self.fd, new, AtFlags::empty()).map_err(errno)
    }

    fn stat(&self, name: &str) -> Res<Stat> {
        let s = fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).map_err(errno)?;
        Ok(stat(&s))
    }

    fn chmod(&self, name: &str, mode: u32) -> Res<()> {
        fs::chmodat(&self.fd, name, Mode::from_raw_mode(mode), AtFlags::empty()).map_err(errno)
    }

    fn chown(&self, name: &str, uid: Option<u32>, gid: Option<u32>) -> Res<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        fs::chownat(&self.fd, name, uid, gid, AtFlags::empty()).map_err(errno)
    }

    fn truncate(&self, name: &str, size: u64) -> Res<()> {
        let path = CString::new(self.path_of(name)).expect("no zero byte");
        // SAFETY: the path lives through the call.
        check(unsafe { libc::truncate(path.as_ptr(), size.cast_signed()) }.into()).map(drop)
    }

    fn open_truncate(&self, name: &str) -> Res<()> {
        self.open(name, OFlags::RDWR | OFlags::TRUNC).map(drop)
    }

    fn utimes(&self, name: &str, to: Option<(i64, i64)>) -> Res<()> {
        let at = |sec: Option<i64>| Timespec {
            tv_sec: sec.unwrap_or(0),
            tv_nsec: if sec.is_some() { 0 } else { UTIME_NOW },
        };
        let times = Timestamps {
            last_access: at(to.map(|t| t.0)),
            last_modification: at(to.map(|t| t.1)),
        };
        fs::utimensat(&self.fd, name, &times, AtFlags::empty()).map_err(errno)
    }

    fn list(&self) -> Res<Vec<(String, FileKind)>> {
        // By `.`, it would have to be searched too.
        let dir = fs::open(
            self.path(),
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(errno)?;
        let mut names = Vec::new();
        for entry in Dir::new(dir).map_err(errno)? {
            let entry = entry.map_err(errno)?;
            let kind = FileKind::from_mode_bits(entry.file_type().as_raw_mode());
            let name = entry.file_name().to_string_lossy().into_owned();
            names.push((name, kind.expect("a kind")));
        }
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(names)
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> Res<String> {
        let file = self.open(name, OFlags::RDONLY)?;
        let mut data = vec![0; len];
        let n = rustix::io::pread(&file, &mut data, offset).map_err(errno)?;
        Ok(String::from_utf8_lossy(&data[..n]).into_owned())
    }

    fn write(&self, name: &str, len: usize) -> Res<usize> {
        let file = self.open(name, OFlags::WRONLY)?;
        rustix::io::pwrite(&file, &vec![0; len], 0).map_err(errno)
    }

    fn read_nowait(&self, name: &str) -> Res<usize> {
        let file = self.open(name, OFlags::RDONLY)?;
        let mut data = [0; 10];
        let mut parts = [IoSliceMut::new(&mut data)];
        rustix::io::preadv2(&file, &mut parts, 0, ReadWriteFlags::NOWAIT).map_err(errno)
    }

    fn open_direct(&self, name: &str) -> Res<()> {
        self.open(name, OFlags::RDONLY | OFlags::DIRECT).map(drop)
    }

    fn readlink(&self, name: &str) -> Res<()> {
        fs::readlinkat(&self.fd, name, Vec::new())
            .map(drop)
            .map_err(errno)
    }

    fn fsync(&self, name: &str) -> Res<()> {
        let file = self.open(name, OFlags::RDONLY)?;
        let fdatasync = fs::fdatasync(&file).map_err(errno);
        let fsync = fs::fsync(&file).map_err(errno);
        assert_eq!(fdatasync, fsync);
        fsync
    }

    fn syncfs(&self) -> Res<()> {
        let dir = self.open(".", OFlags::RDONLY)?;
        fs::syncfs(&dir).map_err(errno)
    }

    fn statfs(&self) -> Res<Space> {
        let s = fs::fstatvfs(&self.fd).map_err(errno)?;
        Ok(Space {
            block_size: s.f_bsize,
            blocks: [s.f_blocks, s.f_bfree, s.f_bavail],
            inodes: [s.f_files, s.f_ffree],
            name_bytes_max: s.f_namemax,
        })
    }

    fn fallocate(&self, name: &str, what: Fallocate, offset: u64, len: u64) -> Res<()> {
        let file = self.open(name, OFlags::RDWR)?;
        let keep = FallocateFlags::KEEP_SIZE;
        let flags = match what {
            Fallocate::Allocate => FallocateFlags::empty(),
            Fallocate::AllocateKeepSize => keep,
            Fallocate::PunchHole => FallocateFlags::PUNCH_HOLE | keep,
            Fallocate::ZeroRange => FallocateFlags::ZERO_RANGE,
            Fallocate::ZeroRangeKeepSize => FallocateFlags::ZERO_RANGE | keep,
            Fallocate::CollapseRange => FallocateFlags::COLLAPSE_RANGE,
            Fallocate::InsertRange => FallocateFlags::INSERT_RANGE,
        };
        fs::fallocate(&file, flags, offset, len).map_err(errno)
    }

    fn seek(&self, name: &str, hole: bool, offset: u64) -> Res<u64> {
        let file = self.open(name, OFlags::RDONLY)?;
        let to = if hole {
            SeekFrom::Hole(offset)
        } else {
            SeekFrom::Data(offset)
        };
        fs::seek(&file, to).map_err(errno)
    }

    fn xattr(&self, name: &str, call: Xattr<'_>) -> Res<usize> {
        let path = self.path_of(name);
        let mut buffer = [0u8; 100];
        match call {
            Xattr::Set(attr, len) => {
                fs::setxattr(&path, attr, &vec![0; len], XattrFlags::empty()).map(|()| 0)
            }
            Xattr::Get(attr) => fs::getxattr(&path, attr, &mut buffer),
            Xattr::Remove(attr) => fs::removexattr(&path, attr).map(|()| 0),
            Xattr::List => fs::listxattr(&path, &mut buffer),
        }
        .map_err(errno)
    }

    fn handle(&self, name: &str) -> Res<()> {
        self.open_handle(&self.handle_of(name)?)
    }

    fn mq_open(&self, name: &str, create: bool, exclusive: bool) -> Res<()> {
        let mut flags = OFlags::RDWR;
        flags.set(OFlags::CREATE, create);
        flags.set(OFlags::EXCL, exclusive);
        self.queues.open(&slashed(name), flags).map(drop)
    }

    fn mq_unlink(&self, name: &str) -> Res<()> {
        self.queues.unlink(&slashed(name))
    }

    fn mq_send(&self, name: &str, bytes: &[u8]) -> Res<()> {
        let queue = self.queues.open(&slashed(name), OFlags::WRONLY)?;
        self.queues.send(queue.as_fd(), bytes)
    }

    fn mq_receive(&self, name: &str) -> Res<usize> {
        let queue = self.queues.open(&slashed(name), OFlags::RDONLY)?;
        self.queues.receive(queue.as_fd(), &mut [0; 8192])
    }

    fn unlink_open(&self, name: &str) -> Res<Stat> {
        let file = self.open(name, OFlags::RDWR)?;
        self.unlink(name)?;
        fs::fstat(&file).map(|s| stat(&s)).map_err(errno)
    }

    fn notified(&self, name: &str, look: &mut dyn FnMut()) {
        let queue = self.queues.open(&slashed(name), OFlags::RDWR);
        let queue = queue.expect("opens");
        self.queues.register(queue.as_fd()).expect("registers");
        look();
    }
}
