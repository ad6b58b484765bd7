//! The side of a mount: system calls in a directory of it, by a thread with the caller's credentials.

#![allow(unsafe_code)]

use super::call::{At, Call, Make, SLOTS, To};
use super::person::Person;
use super::side::{Answer, Blocks, Changed, Entry, Side, Stat, Time, Tree, Value};
use super::thread::Identity;
use super::values::XFLAGS;
use crate::external::*;
use std::ffi::CStr;
use std::io::Error;
use std::os::fd::RawFd;
use uext4_vfs::open_file::OpenFlags;

const NOFOLLOW: i32 = libc::AT_SYMLINK_NOFOLLOW;
const FS_IOC_GETFLAGS: libc::c_ulong = 0x8008_6601;
const FS_IOC_SETFLAGS: libc::c_ulong = 0x4008_6602;
const FS_IOC_FSGETXATTR: libc::c_ulong = 0x801c_581f;
const FS_IOC_FSSETXATTR: libc::c_ulong = 0x401c_5820;

/// `struct fsxattr`
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct FsXattr {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    cow_extent_size: u32,
    unused: [u8; 8],
}

/// Something whose times were set; `before` as they were then.
struct Aged {
    what: String,
    fd: OwnedFd,
    before: Option<libc::stat>,
}

/// A mounted file system that system calls are made on.
pub struct Mounted {
    mount: PathBuf,
    identity: Identity,
    top: PathBuf,
    open: [Option<(OwnedFd, Person)>; SLOTS],
    aged: Vec<Aged>,
}

fn check(result: impl Into<i64>) -> Result<i64, i32> {
    match result.into() {
        -1 => Err(Error::last_os_error().raw_os_error().unwrap_or(0)),
        n => Ok(n),
    }
}

fn done(result: impl Into<i64>) -> Answer {
    check(result).map(|_| Value::Nothing)
}

fn text(s: impl Into<Vec<u8>>) -> CString {
    CString::new(s).expect("no zero byte")
}

fn open_at(dir: RawFd, name: &CStr, flags: i32, mode: u16) -> Result<OwnedFd, i32> {
    // SAFETY: the name lives through the call.
    let fd = check(unsafe { libc::openat(dir, name.as_ptr(), flags, u32::from(mode)) })?;
    // SAFETY: it is open and owned here.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

fn stat_at(dir: RawFd, name: &CStr, flags: i32) -> Result<libc::stat, i32> {
    // SAFETY: all zeros are a `stat`; name and result live through the call.
    unsafe {
        let mut stat = std::mem::zeroed();
        check(libc::fstatat(dir, name.as_ptr(), &raw mut stat, flags))?;
        Ok(stat)
    }
}

fn stat_of(fd: &OwnedFd) -> Result<libc::stat, i32> {
    stat_at(fd.as_raw_fd(), c"", libc::AT_EMPTY_PATH)
}

fn seconds(s: &libc::stat) -> [(i64, i64); 3] {
    [
        (s.st_atime, s.st_atime_nsec),
        (s.st_mtime, s.st_mtime_nsec),
        (s.st_ctime, s.st_ctime_nsec),
    ]
}

fn stat(s: &libc::stat) -> Stat {
    let [atime, mtime, _] = seconds(s);
    let kind = FileKind::from_mode_bits(s.st_mode).expect("a kind");
    let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
    Stat {
        kind,
        mode: (s.st_mode & 0o7777) as u16,
        nlink: s.st_nlink as u32,
        owner: (s.st_uid, s.st_gid),
        // A directory that rename(2) removed keeps it on Linux.
        size: match kind == FileKind::Directory && s.st_nlink == 0 {
            true => 0,
            false => s.st_size.cast_unsigned(),
        },
        blocks: Blocks(s.st_blocks.cast_unsigned()),
        rdev: match is_device {
            true => (libc::major(s.st_rdev), libc::minor(s.st_rdev)),
            false => (0, 0),
        },
        times: [atime, mtime].map(|(sec, nsec)| Time::new(sec, nsec as u32)),
    }
}

fn set_times(fd: RawFd, name: &CStr, to: [To; 2], flags: i32) -> Answer {
    let times = to.map(|to| libc::timespec {
        tv_sec: match to {
            To::At(sec) => sec,
            _ => 0,
        },
        tv_nsec: match to {
            To::Stay => libc::UTIME_OMIT,
            To::Now => libc::UTIME_NOW,
            To::At(_) => 0,
        },
    });
    // SAFETY: name and times live through the call.
    done(unsafe { libc::utimensat(fd, name.as_ptr(), times.as_ptr(), flags) })
}

fn open_flags(flags: OpenFlags) -> i32 {
    let both = flags.contains(OpenFlags::READ | OpenFlags::WRITE);
    let mut all = match flags.contains(OpenFlags::WRITE) {
        _ if both => libc::O_RDWR,
        true => libc::O_WRONLY,
        false => libc::O_RDONLY,
    };
    if flags.contains(OpenFlags::APPEND) {
        all |= libc::O_APPEND;
    }
    if flags.contains(OpenFlags::TRUNCATE) {
        all |= libc::O_TRUNC;
    }
    all | libc::O_CLOEXEC
}

fn flags_of(fd: RawFd) -> Answer {
    let (mut flags, mut more) = (0u32, FsXattr::default());
    // SAFETY: both results live through the calls.
    unsafe {
        check(libc::ioctl(fd, FS_IOC_GETFLAGS, &raw mut flags))?;
        check(libc::ioctl(fd, FS_IOC_FSGETXATTR, &raw mut more))?;
    }
    Ok(Value::Flags(flags, more.project))
}

fn change_flags(fd: RawFd, change: impl FnOnce(u32) -> u32) -> Answer {
    let mut flags = 0u32;
    // SAFETY: the flags live through the calls.
    unsafe {
        check(libc::ioctl(fd, FS_IOC_GETFLAGS, &raw mut flags))?;
        flags = change(flags);
        check(libc::ioctl(fd, FS_IOC_SETFLAGS, &raw const flags))?;
    }
    flags_of(fd)
}

fn list_names(fd: OwnedFd) -> Answer {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(fd).map_err(rustix::io::Errno::raw_os_error)? {
        let entry = entry.map_err(rustix::io::Errno::raw_os_error)?;
        let kind = (entry.file_type().as_raw_mode() >> 12) as u8;
        names.push([entry.file_name().to_bytes(), &[b' ', kind]].concat());
    }
    names.sort();
    Ok(Value::Names(names))
}

/// Attributes of a name in the working directory, or of a path.
fn get_xattr(path: &CStr, name: &str) -> Result<Vec<u8>, i32> {
    let (name, mut value) = (text(name), vec![0u8; 1 << 16]);
    let (p, n, v) = (path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast());
    // SAFETY: path, name and the buffer of that length live through the call.
    let len = check(unsafe { libc::lgetxattr(p, n, v, value.len()) } as i64)?;
    value.truncate(len as usize);
    Ok(value)
}

fn list_xattrs(path: &CStr) -> Result<Vec<Vec<u8>>, i32> {
    let mut list = vec![0u8; 1 << 16];
    let to = list.as_mut_ptr().cast();
    // SAFETY: path and the buffer of that length live through the call.
    let len = check(unsafe { libc::llistxattr(path.as_ptr(), to, list.len()) } as i64)?;
    list.truncate(len as usize);
    let names = list.split(|b| *b == 0).filter(|name| !name.is_empty());
    let mut names: Vec<_> = names.map(<[u8]>::to_vec).collect();
    names.sort();
    Ok(names)
}

impl Mounted {
    /// On a mount; this thread is prepared.
    pub fn new(mount: &Path) -> Mounted {
        Mounted {
            mount: mount.to_path_buf(),
            identity: Identity::of_thread(),
            top: mount.to_path_buf(),
            open: Default::default(),
            aged: Vec::new(),
        }
    }

    /// The directory that a name is in.
    fn dir(&self, at: &At) -> Result<OwnedFd, i32> {
        let path = text(self.top.join(&at.dir).as_os_str().as_bytes());
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        open_at(libc::AT_FDCWD, &path, flags, 0)
    }

    /// Runs with the directory that a name is in as the working directory, with the credentials of its argument.
    fn within<R>(&self, who: &Person, at: &At, f: impl FnOnce(&CStr) -> R) -> Result<R, i32> {
        let dir = self.dir(at)?;
        // SAFETY: no memory is passed.
        check(unsafe { libc::fchdir(dir.as_raw_fd()) })?;
        Ok(self.run_as(who, || f(&text(at.name))))
    }

    fn run_as<R>(&self, who: &Person, f: impl FnOnce() -> R) -> R {
        self.identity.become_person(who);
        let result = f();
        self.identity.become_root();
        result
    }

    /// An open file, and the caller that opened it.
    fn slot(&self, slot: usize) -> Result<(RawFd, &Person), i32> {
        let (fd, who) = self.open[slot].as_ref().ok_or(libc::EBADF)?;
        Ok((fd.as_raw_fd(), who))
    }

    fn open(&mut self, who: &Person, call: &Call) -> Answer {
        let (slot, fd) = match call {
            Call::Open {
                slot,
                at,
                flags,
                make,
                directory,
            } => {
                let (create, mode) = match make {
                    Make::No => (0, 0),
                    Make::Missing(mode) => (libc::O_CREAT, *mode),
                    Make::New(mode) => (libc::O_CREAT | libc::O_EXCL, *mode),
                };
                let directory = if *directory { libc::O_DIRECTORY } else { 0 };
                let flags = open_flags(*flags) | create | directory | libc::O_NOFOLLOW;
                let fd =
                    self.within(who, at, |name| open_at(libc::AT_FDCWD, name, flags, mode))??;
                (*slot, fd)
            }
            Call::Tmpfile {
                slot,
                dir,
                flags,
                mode,
            } => {
                let flags = open_flags(*flags) & !libc::O_TRUNC | libc::O_TMPFILE;
                let fd =
                    self.within(who, dir, |_| open_at(libc::AT_FDCWD, c".", flags, *mode))??;
                (*slot, fd)
            }
            _ => unreachable!("does not open"),
        };
        self.open[slot] = Some((fd, who.clone()));
        Ok(Value::Nothing)
    }

    /// Calls that take two directories.
    fn on_two(&self, who: &Person, call: &Call) -> Answer {
        let two = |a: &At, b: &At, f: &dyn Fn(RawFd, &CStr, RawFd, &CStr) -> i32| {
            let (from, to) = (self.dir(a)?, self.dir(b)?);
            let (old, new) = (text(a.name), text(b.name));
            self.run_as(who, || {
                done(f(from.as_raw_fd(), &old, to.as_raw_fd(), &new))
            })
        };
        match call {
            Call::Link(a, b) => two(a, b, &|from, old, to, new| {
                // SAFETY: both names live through the call.
                unsafe { libc::linkat(from, old.as_ptr(), to, new.as_ptr(), 0) }
            }),
            Call::Rename(a, b, flags) => two(a, b, &|from, old, to, new| {
                // SAFETY: both names live through the call.
                unsafe { libc::renameat2(from, old.as_ptr(), to, new.as_ptr(), *flags) }
            }),
            Call::LinkOpen(slot, at) => {
                let path = text(format!("/proc/self/fd/{}", self.slot(*slot)?.0));
                let (here, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
                self.within(who, at, |name| {
                    // SAFETY: both names live through the call.
                    done(unsafe { libc::linkat(here, path.as_ptr(), here, name.as_ptr(), follow) })
                })?
            }
            _ => unreachable!("one directory"),
        }
    }

    fn on_names(&mut self, who: &Person, call: &Call) -> Answer {
        let here = libc::AT_FDCWD;
        match call {
            Call::Open { .. } | Call::Tmpfile { .. } => self.open(who, call),
            Call::Close(slot) => {
                self.open[*slot] = None;
                Ok(Value::Nothing)
            }
            Call::Link(..) | Call::Rename(..) | Call::LinkOpen(..) => self.on_two(who, call),
            Call::Mkdir(at, mode) => self.within(who, at, |name| {
                // SAFETY: the name lives through the call.
                done(unsafe { libc::mkdir(name.as_ptr(), u32::from(*mode)) })
            })?,
            Call::Mknod(at, kind, mode, (major, minor)) => self.within(who, at, |name| {
                let mode = kind.mode_bits() | u32::from(*mode);
                let device = libc::makedev(*major, *minor);
                // SAFETY: the name lives through the call.
                done(unsafe { libc::mknod(name.as_ptr(), mode, device) })
            })?,
            Call::Symlink(at, len) => self.within(who, at, |name| {
                let target = text(vec![b'x'; *len]);
                // SAFETY: both names live through the call.
                done(unsafe { libc::symlink(target.as_ptr(), name.as_ptr()) })
            })?,
            Call::Unlink(at) => self.within(who, at, |name| {
                // SAFETY: the name lives through the call.
                done(unsafe { libc::unlink(name.as_ptr()) })
            })?,
            Call::Rmdir(at) => self.within(who, at, |name| {
                // SAFETY: the name lives through the call.
                done(unsafe { libc::rmdir(name.as_ptr()) })
            })?,
            Call::Readdir(at) => {
                let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
                self.within(who, at, |name| {
                    open_at(here, name, flags, 0).and_then(list_names)
                })?
            }
            Call::Readlink(at) => self.within(who, at, |name| {
                let target = rustix::fs::readlink(name, Vec::new());
                let target = target.map_err(rustix::io::Errno::raw_os_error)?;
                Ok(Value::Bytes(target.into_bytes()))
            })?,
            _ => unreachable!("of attributes or of open files"),
        }
    }

    fn on_attributes(&mut self, who: &Person, call: &Call) -> Answer {
        let here = libc::AT_FDCWD;
        match call {
            Call::Chmod(at, mode) => self.within(who, at, |name| {
                let mode = u32::from(*mode);
                // SAFETY: the name lives through the call.
                done(unsafe {
                    libc::syscall(libc::SYS_fchmodat2, here, name.as_ptr(), mode, NOFOLLOW)
                })
            })?,
            Call::Chown(at, uid, gid) => self.within(who, at, |name| {
                let (uid, gid) = (uid.unwrap_or(u32::MAX), gid.unwrap_or(u32::MAX));
                // SAFETY: the name lives through the call.
                done(unsafe { libc::lchown(name.as_ptr(), uid, gid) })
            })?,
            Call::Truncate(at, size) => self.within(who, at, |name| {
                // SAFETY: the name lives through the call.
                done(unsafe { libc::truncate(name.as_ptr(), size.cast_signed()) })
            })?,
            Call::Utimens(at, atime, mtime) => self.within(who, at, |name| {
                set_times(here, name, [*atime, *mtime], NOFOLLOW)
            })?,
            Call::Get(at, name) => {
                self.within(who, at, |path| get_xattr(path, name).map(Value::Bytes))?
            }
            Call::Set(at, name, value, flags) => self.within(who, at, |path| {
                let (name, flags) = (text(*name), flags.cast_signed());
                let (p, n, v) = (path.as_ptr(), name.as_ptr(), value.as_ptr().cast());
                // SAFETY: path, name and the value of that length live through the call.
                done(unsafe { libc::lsetxattr(p, n, v, value.len(), flags) })
            })?,
            Call::List(at) => self.within(who, at, |path| list_xattrs(path).map(Value::Names))?,
            Call::Remove(at, name) => self.within(who, at, |path| {
                let name = text(*name);
                // SAFETY: path and name live through the call.
                done(unsafe { libc::lremovexattr(path.as_ptr(), name.as_ptr()) })
            })?,
            Call::Access(at, want) => self.within(who, at, |name| {
                let (want, flags) = (i32::from(*want), NOFOLLOW | libc::AT_EACCESS);
                // SAFETY: the name lives through the call.
                done(unsafe {
                    libc::syscall(libc::SYS_faccessat2, here, name.as_ptr(), want, flags)
                })
            })?,
            Call::Stat(at) => self.within(who, at, |name| {
                stat_at(here, name, NOFOLLOW).map(|s| Value::Stat(stat(&s)))
            })?,
            Call::Flags(at) | Call::SetFlags(at, _) | Call::SetProject(at, ..) => {
                let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
                let file = open_at(self.dir(at)?.as_raw_fd(), &text(at.name), flags, 0)?;
                self.run_as(who, || on_flags(file.as_raw_fd(), call))
            }
            _ => self.on_names(who, call),
        }
    }

    fn on_open(&mut self, who: &Person, call: &Call) -> Answer {
        let slot = match call {
            Call::LinkOpen(..) => None,
            call => call.slot(),
        };
        let Some(slot) = slot else {
            return self.on_attributes(who, call);
        };
        let (fd, opener) = self.slot(slot)?;
        self.run_as(opener, || on_fd(fd, call))
    }

    fn entry(&self, path: &Path, name: &[u8], first: &mut HashMap<u64, Vec<u8>>) -> Entry {
        let at = text(path.as_os_str().as_bytes());
        let found = stat_at(libc::AT_FDCWD, &at, NOFOLLOW).expect("is there");
        let names = list_xattrs(&at).expect("lists");
        let value = |n: &Vec<u8>| get_xattr(&at, std::str::from_utf8(n).expect("ascii"));
        let entry = stat(&found);
        let plain = matches!(entry.kind, FileKind::Regular | FileKind::Directory);
        let flags = plain.then(|| {
            let file = File::open(path).expect("opens");
            flags_of(file.as_raw_fd()).expect("has flags")
        });
        let data = match entry.kind {
            FileKind::Regular => std::fs::read(path).expect("reads"),
            FileKind::Symlink => {
                let target = std::fs::read_link(path).expect("reads");
                target.into_os_string().into_encoded_bytes()
            }
            _ => Vec::new(),
        };
        let xattrs = names
            .into_iter()
            .map(|n| (n.clone(), value(&n).expect("reads")));
        Entry {
            stat: entry,
            data,
            xattrs: xattrs.collect(),
            flags,
            first_name: first.entry(found.st_ino).or_insert(name.to_vec()).clone(),
        }
    }

    /// Everything below, each directory before what is in it, and names in order.
    fn walk(&self, name: &str, dir: &Path, meet: &mut dyn FnMut(&str, &Path)) {
        let entries = std::fs::read_dir(dir).expect("lists");
        let mut names: Vec<_> = entries.map(|e| e.expect("lists").file_name()).collect();
        names.sort();
        for found in names {
            let path = dir.join(&found);
            let name = format!("{name}/{}", found.to_string_lossy());
            meet(&name, &path);
            if path.symlink_metadata().expect("is there").is_dir() {
                self.walk(&name, &path, meet);
            }
        }
    }
}

fn on_flags(fd: RawFd, call: &Call) -> Answer {
    match call {
        Call::SetFlags(_, change) => change_flags(fd, |flags| flags ^ change),
        Call::SetProject(_, xflags, project) => {
            let known = XFLAGS.iter().fold(0, |all, (bit, _)| all | bit);
            let mut all = FsXattr::default();
            // SAFETY: the structure lives through the calls.
            unsafe {
                check(libc::ioctl(fd, FS_IOC_FSGETXATTR, &raw mut all))?;
                if *project == 0 {
                    all.flags = all.flags & !known | xflags;
                }
                all.project = *project;
                check(libc::ioctl(fd, FS_IOC_FSSETXATTR, &raw const all))?;
            }
            flags_of(fd)
        }
        _ => flags_of(fd),
    }
}

fn on_fd(fd: RawFd, call: &Call) -> Answer {
    let number = |n: i64| check(n).map(|n| Value::Number(n.cast_unsigned()));
    match call {
        Call::Write(_, offset, data) => {
            let (from, len) = (data.as_ptr().cast(), data.len());
            // SAFETY: the data of that length lives through the call.
            number(unsafe { libc::pwrite(fd, from, len, offset.cast_signed()) } as i64)
        }
        Call::Read(_, offset, len) => {
            let mut data = vec![0u8; *len];
            let to = data.as_mut_ptr().cast();
            // SAFETY: the buffer of that length lives through the call.
            let n = check(unsafe { libc::pread(fd, to, *len, offset.cast_signed()) } as i64)?;
            data.truncate(n as usize);
            Ok(Value::Bytes(data))
        }
        Call::Ftruncate(_, size) => {
            // SAFETY: no memory is passed.
            done(unsafe { libc::ftruncate(fd, size.cast_signed()) })
        }
        Call::Fallocate(_, what, offset, len) => {
            let keep = libc::FALLOC_FL_KEEP_SIZE;
            let mode = match what {
                Fallocate::AllocateKeepSize => keep,
                Fallocate::PunchHole => libc::FALLOC_FL_PUNCH_HOLE | keep,
                Fallocate::ZeroRange => libc::FALLOC_FL_ZERO_RANGE,
                Fallocate::ZeroRangeKeepSize => libc::FALLOC_FL_ZERO_RANGE | keep,
                _ => 0,
            };
            let (offset, len) = (offset.cast_signed(), len.cast_signed());
            // SAFETY: no memory is passed.
            done(unsafe { libc::fallocate(fd, mode, offset, len) })
        }
        Call::Seek(_, hole, offset) => {
            let whence = if *hole {
                libc::SEEK_HOLE
            } else {
                libc::SEEK_DATA
            };
            // A page in Linux's cache counts as data, also one of a block that was never written.
            // SAFETY: no memory is passed.
            unsafe {
                libc::fsync(fd);
                libc::posix_fadvise(fd, 0, 0, libc::POSIX_FADV_DONTNEED);
            }
            // SAFETY: no memory is passed.
            number(unsafe { libc::lseek(fd, offset.cast_signed(), whence) })
        }
        Call::ListOpen(_) => {
            let dir = open_at(fd, c".", libc::O_DIRECTORY | libc::O_CLOEXEC, 0);
            dir.and_then(list_names)
        }
        Call::StatOpen(_) => Ok(Value::Stat(stat(&stat_at(fd, c"", libc::AT_EMPTY_PATH)?))),
        _ => unreachable!("not of an open file"),
    }
}

/// Linux would write zeros around what is written into small unwritten extents, which then count as data.
///
/// # Panics
/// Not as root, or nothing is mounted there.
pub fn write_whole_extents(mount: &Path) {
    let mounts = std::fs::read_to_string("/proc/mounts").expect("/proc");
    let is_ours = |line: &&str| line.split(' ').nth(1) == mount.to_str();
    let line = mounts.lines().find(is_ours).expect("is mounted");
    let device = line
        .split(' ')
        .next()
        .expect("a device")
        .trim_start_matches("/dev/");
    let knob = format!("/sys/fs/ext4/{device}/extent_max_zeroout_kb");
    std::fs::write(knob, "0").expect("as root");
}

impl Side for Mounted {
    fn begin(&mut self, name: &str) {
        self.top = self.mount.join(name);
        self.identity.become_root();
        std::fs::create_dir(&self.top).expect("makes it");
    }

    fn call(&mut self, who: &Person, call: &Call) -> Answer {
        let answer = self.on_open(who, call);
        // The working directory must not keep what is removed.
        std::env::set_current_dir("/").expect("is there");
        answer
    }

    fn kind(&self, at: &At) -> Option<FileKind> {
        let dir = self.dir(at).ok()?;
        let found = stat_at(dir.as_raw_fd(), &text(at.name), NOFOLLOW).ok()?;
        FileKind::from_mode_bits(found.st_mode)
    }

    fn age(&mut self, call: &Call, sec: i64) {
        let mut all = Vec::new();
        for at in call.places() {
            let Ok(dir) = self.dir(at) else { continue };
            let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
            let node = open_at(dir.as_raw_fd(), &text(at.name), flags, 0);
            all.push((format!("{}/", at.dir), dir));
            all.extend(node.map(|n| (at.path(), n)));
        }
        if let Some(Some((fd, _))) = call.slot().map(|slot| &self.open[slot]) {
            all.push(("the open file".to_owned(), fd.try_clone().expect("clones")));
        }
        let age = |(what, fd): (String, OwnedFd)| {
            let to = [To::At(sec); 2];
            let aged = set_times(fd.as_raw_fd(), c"", to, libc::AT_EMPTY_PATH);
            let before = aged.is_ok().then(|| stat_of(&fd).expect("is there"));
            Aged { what, fd, before }
        };
        self.aged = all.into_iter().map(age).collect();
        // What is aged twice was changed by the second time.
        for aged in &mut self.aged {
            aged.before = aged.before.and_then(|_| stat_of(&aged.fd).ok());
        }
    }

    fn changed(&mut self) -> Vec<(String, Option<Changed>)> {
        let changed = |aged: Aged| {
            let now = seconds(&stat_of(&aged.fd).expect("is there"));
            let changed = aged.before.map(|before| {
                let before = seconds(&before);
                [0, 1, 2].map(|i| now[i] != before[i])
            });
            (aged.what, changed)
        };
        std::mem::take(&mut self.aged)
            .into_iter()
            .map(changed)
            .collect()
    }

    fn tree(&mut self) -> Tree {
        let (mut tree, mut first) = (Tree::new(), HashMap::new());
        self.walk("", &self.top, &mut |name, path| {
            let entry = self.entry(path, name.as_bytes(), &mut first);
            tree.insert(name.as_bytes().to_vec(), entry);
        });
        tree
    }

    fn end(&mut self) {
        self.open = Default::default();
        let fixing = (InodeFlags::IMMUTABLE | InodeFlags::APPEND).bits();
        let free = |path: &Path| {
            let kind = path.symlink_metadata().expect("is there").file_type();
            if kind.is_dir() || kind.is_file() {
                let file = File::open(path).expect("opens");
                change_flags(file.as_raw_fd(), |flags| flags & !fixing).expect("released");
            }
        };
        free(&self.top);
        self.walk("", &self.top, &mut |_, path| free(path));
        std::fs::remove_dir_all(&self.top).expect("removes it");
    }
}
