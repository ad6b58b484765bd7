//! Linux's side: a mount of type `mqueue`, by system calls, in namespaces of its own.

use crate::machine;
use crate::mount::{Mount, Res, Space, Stat, Xattr};
use rustix::fs::{
    self, AtFlags, CWD, Dir, FallocateFlags, Gid, Mode, OFlags, RenameFlags, SeekFrom, Timespec,
    Timestamps, UTIME_NOW, Uid, XattrFlags,
};
use rustix::io::{Errno, ReadWriteFlags};
use std::ffi::CString;
use std::io::{Error, IoSliceMut};
use std::mem::zeroed;
use std::os::fd::OwnedFd;
use std::ptr::{null, null_mut};
use uext4_vfs::{Fallocate, FileKind};

/// The mount; names are relative to the directory of the thread that made it.
pub struct Kernel;

fn errno(e: Errno) -> i32 {
    e.raw_os_error()
}

fn check(result: i64) -> Res<i64> {
    if result < 0 {
        return Err(Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    Ok(result)
}

fn open(name: &str, flags: OFlags) -> Res<OwnedFd> {
    fs::openat(CWD, name, flags, Mode::empty()).map_err(errno)
}

fn slashed(name: &str) -> CString {
    CString::new(format!("/{name}")).expect("no zero byte")
}

impl Kernel {
    /// A mount in a new IPC namespace and a new mount namespace, of this thread alone; it becomes the
    /// thread's working directory.
    pub fn mount() -> Option<Kernel> {
        let refused = |what| {
            let e = Error::last_os_error();
            eprintln!("skipped: Linux's mount of message queues: {what}: {e}");
            None
        };
        // SAFETY: no memory is passed; it concerns this thread.
        if unsafe { libc::unshare(libc::CLONE_NEWIPC | libc::CLONE_NEWNS) } != 0 {
            return refused("no namespaces");
        }
        let private = libc::MS_REC | libc::MS_PRIVATE;
        // SAFETY: the texts are constants; nothing else is pointed at.
        unsafe {
            if libc::mount(null(), c"/".as_ptr(), null(), private, null()) != 0 {
                return refused("the mount namespace");
            }
            let (none, at, kind) = (c"none".as_ptr(), c"/tmp".as_ptr(), c"mqueue".as_ptr());
            if libc::mount(none, at, kind, 0, null()) != 0 {
                return refused("mount");
            }
            assert_eq!(libc::chdir(at), 0);
            libc::umask(0);
        }
        machine::become_user(0);
        Some(Kernel)
    }

    fn mq_descriptor(&self, name: &str, flags: i32) -> Res<i32> {
        let name = slashed(name);
        // SAFETY: the name lives through the call.
        let d = unsafe { libc::mq_open(name.as_ptr(), flags, 0o600, null::<libc::mq_attr>()) };
        check(d.into())?;
        Ok(d)
    }

    fn mq_with<T>(&self, name: &str, flags: i32, f: impl FnOnce(i32) -> Res<T>) -> Res<T> {
        let d = self.mq_descriptor(name, flags)?;
        let result = f(d);
        // SAFETY: no memory is passed.
        unsafe { libc::mq_close(d) };
        result
    }
}

/// The namespace goes some time after its thread; what its queues are charged must not wait for that.
impl Drop for Kernel {
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

impl Mount for Kernel {
    fn become_user(&self, uid: u32) {
        machine::become_user(uid);
    }

    fn set_queues_max(&self, max: u32) {
        std::fs::write("/proc/sys/fs/mqueue/queues_max", max.to_string()).expect("as root");
    }

    fn create(&self, name: &str, mode: u32) -> Res<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
        let made = fs::openat(CWD, name, flags, Mode::from_raw_mode(mode));
        made.map(drop).map_err(errno)
    }

    fn make(&self, name: &str, kind: FileKind) -> Res<()> {
        match kind {
            FileKind::Directory => fs::mkdirat(CWD, name, Mode::RWXU),
            FileKind::Symlink => fs::symlinkat("x", CWD, name),
            other => {
                let kind = fs::FileType::from_raw_mode(other.mode_bits());
                fs::mknodat(CWD, name, kind, Mode::RWXU, fs::makedev(1, 3))
            }
        }
        .map_err(errno)
    }

    fn tmpfile(&self) -> Res<()> {
        open(".", OFlags::TMPFILE | OFlags::RDWR).map(drop)
    }

    fn unlink(&self, name: &str) -> Res<()> {
        fs::unlinkat(CWD, name, AtFlags::empty()).map_err(errno)
    }

    fn rmdir(&self, name: &str) -> Res<()> {
        fs::unlinkat(CWD, name, AtFlags::REMOVEDIR).map_err(errno)
    }

    fn rename(&self, old: &str, new: &str, flags: u32) -> Res<()> {
        let flags = RenameFlags::from_bits_retain(flags);
        fs::renameat_with(CWD, old, CWD, new, flags).map_err(errno)
    }

    fn link(&self, old: &str, new: &str) -> Res<()> {
        fs::linkat(CWD, old, CWD, new, AtFlags::empty()).map_err(errno)
    }

    fn stat(&self, name: &str) -> Res<Stat> {
        let s = fs::statat(CWD, name, AtFlags::SYMLINK_NOFOLLOW).map_err(errno)?;
        Ok(stat(&s))
    }

    fn chmod(&self, name: &str, mode: u32) -> Res<()> {
        fs::chmodat(CWD, name, Mode::from_raw_mode(mode), AtFlags::empty()).map_err(errno)
    }

    fn chown(&self, name: &str, uid: Option<u32>, gid: Option<u32>) -> Res<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        fs::chownat(CWD, name, uid, gid, AtFlags::empty()).map_err(errno)
    }

    fn truncate(&self, name: &str, size: u64) -> Res<()> {
        let name = CString::new(name).expect("no zero byte");
        // SAFETY: the name lives through the call.
        check(unsafe { libc::truncate(name.as_ptr(), size.cast_signed()) }.into()).map(drop)
    }

    fn open_truncate(&self, name: &str) -> Res<()> {
        open(name, OFlags::RDWR | OFlags::TRUNC).map(drop)
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
        fs::utimensat(CWD, name, &times, AtFlags::empty()).map_err(errno)
    }

    fn list(&self) -> Res<Vec<(String, FileKind)>> {
        // By `.`, it would have to be searched too.
        let dir = open("/tmp", OFlags::RDONLY | OFlags::DIRECTORY)?;
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
        let file = open(name, OFlags::RDONLY)?;
        let mut data = vec![0; len];
        let n = rustix::io::pread(&file, &mut data, offset).map_err(errno)?;
        Ok(String::from_utf8_lossy(&data[..n]).into_owned())
    }

    fn write(&self, name: &str, len: usize) -> Res<usize> {
        let file = open(name, OFlags::WRONLY)?;
        rustix::io::pwrite(&file, &vec![0; len], 0).map_err(errno)
    }

    fn read_nowait(&self, name: &str) -> Res<usize> {
        let file = open(name, OFlags::RDONLY)?;
        let mut data = [0; 10];
        let mut parts = [IoSliceMut::new(&mut data)];
        rustix::io::preadv2(&file, &mut parts, 0, ReadWriteFlags::NOWAIT).map_err(errno)
    }

    fn open_direct(&self, name: &str) -> Res<()> {
        open(name, OFlags::RDONLY | OFlags::DIRECT).map(drop)
    }

    fn readlink(&self, name: &str) -> Res<()> {
        fs::readlinkat(CWD, name, Vec::new())
            .map(drop)
            .map_err(errno)
    }

    fn fsync(&self, name: &str) -> Res<()> {
        let file = open(name, OFlags::RDONLY)?;
        let fdatasync = fs::fdatasync(&file).map_err(errno);
        let fsync = fs::fsync(&file).map_err(errno);
        assert_eq!(fdatasync, fsync);
        fsync
    }

    fn syncfs(&self) -> Res<()> {
        let dir = open(".", OFlags::RDONLY)?;
        fs::syncfs(&dir).map_err(errno)
    }

    fn statfs(&self) -> Res<Space> {
        let s = fs::statvfs(".").map_err(errno)?;
        Ok(Space {
            block_size: s.f_bsize,
            blocks: [s.f_blocks, s.f_bfree, s.f_bavail],
            inodes: [s.f_files, s.f_ffree],
            name_bytes_max: s.f_namemax,
        })
    }

    fn fallocate(&self, name: &str, what: Fallocate, offset: u64, len: u64) -> Res<()> {
        let file = open(name, OFlags::RDWR)?;
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
        let file = open(name, OFlags::RDONLY)?;
        let to = if hole {
            SeekFrom::Hole(offset)
        } else {
            SeekFrom::Data(offset)
        };
        fs::seek(&file, to).map_err(errno)
    }

    fn xattr(&self, name: &str, call: Xattr<'_>) -> Res<usize> {
        let mut buffer = [0u8; 100];
        match call {
            Xattr::Set(attr, len) => {
                fs::setxattr(name, attr, &vec![0; len], XattrFlags::empty()).map(|()| 0)
            }
            Xattr::Get(attr) => fs::getxattr(name, attr, &mut buffer),
            Xattr::Remove(attr) => fs::removexattr(name, attr).map(|()| 0),
            Xattr::List => fs::listxattr(name, &mut buffer),
        }
        .map_err(errno)
    }

    fn handle(&self, name: &str) -> Res<()> {
        let name = CString::new(name).expect("no zero byte");
        // The length that is offered, the type, and room.
        let (mut handle, mut mount) = ([0u32; 34], 0);
        handle[0] = 128;
        let (out, call) = (handle.as_mut_ptr(), libc::SYS_name_to_handle_at);
        // SAFETY: name, handle and mount number live through the call; the handle has the room it names.
        let r =
            unsafe { libc::syscall(call, libc::AT_FDCWD, name.as_ptr(), out, &raw mut mount, 0) };
        check(r).map(drop)
    }

    fn mq_open(&self, name: &str, create: bool, exclusive: bool) -> Res<()> {
        let mut flags = libc::O_RDWR;
        flags |= if create { libc::O_CREAT } else { 0 };
        flags |= if exclusive { libc::O_EXCL } else { 0 };
        self.mq_with(name, flags, |_| Ok(()))
    }

    fn mq_unlink(&self, name: &str) -> Res<()> {
        let name = slashed(name);
        // SAFETY: the name lives through the call.
        check(unsafe { libc::mq_unlink(name.as_ptr()) }.into()).map(drop)
    }

    fn mq_send(&self, name: &str, bytes: &[u8]) -> Res<()> {
        self.mq_with(name, libc::O_WRONLY, |d| {
            // SAFETY: the message lives through the call.
            let r = unsafe { libc::mq_send(d, bytes.as_ptr().cast(), bytes.len(), 0) };
            check(r.into()).map(drop)
        })
    }

    fn mq_receive(&self, name: &str) -> Res<usize> {
        self.mq_with(name, libc::O_RDONLY, |d| {
            let mut data = vec![0u8; 8192];
            // SAFETY: the buffer lives through the call.
            let n =
                unsafe { libc::mq_receive(d, data.as_mut_ptr().cast(), data.len(), null_mut()) };
            Ok(usize::try_from(check(n as i64)?).expect("a length"))
        })
    }

    fn unlink_open(&self, name: &str) -> Res<Stat> {
        let file = open(name, OFlags::RDWR)?;
        self.unlink(name)?;
        fs::fstat(&file).map(|s| stat(&s)).map_err(errno)
    }

    fn notified(&self, name: &str, look: &mut dyn FnMut()) {
        let d = self.mq_descriptor(name, libc::O_RDWR).expect("opens");
        // SAFETY: the event lives through the call.
        unsafe {
            let mut event: libc::sigevent = zeroed();
            event.sigev_notify = libc::SIGEV_NONE;
            assert_eq!(libc::mq_notify(d, &event), 0);
        }
        look();
        // SAFETY: no memory is passed.
        unsafe { libc::mq_close(d) };
    }
}
