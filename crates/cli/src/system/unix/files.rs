//! Files of the host.

use crate::system::creation::Creation;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use uext4::unstable::{Attr, SetAttr};
use uext4::{FileKind, NewKind, TimeSet, Timestamp};

/// How long a wait for a pipe or a device lasts before its caller asks whether to go on.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Names and values.
type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// Whether it is a block device.
pub fn is_block_device(kind: FileType) -> bool {
    kind.is_block_device()
}

/// Whether it is a character device.
pub fn is_char_device(kind: FileType) -> bool {
    kind.is_char_device()
}

/// What a file is.
pub fn kind(m: &Metadata) -> FileKind {
    FileKind::from_mode_bits(m.mode()).unwrap_or(FileKind::Regular)
}

/// The device and the number of a file, which no other has.
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    let there = fs::metadata(path).ok()?;
    Some((there.dev(), there.ino()))
}

/// What an open file is.
///
/// # Errors
/// The host's.
pub fn kind_of_open(file: &File) -> io::Result<FileKind> {
    Ok(kind(&file.metadata()?))
}

/// What is there, and the device that it is on; behind links too if they are to be followed.
///
/// # Errors
/// The host's.
pub fn find(path: &Path, follow: bool) -> io::Result<(Attr, u64)> {
    let m = match follow {
        true => fs::metadata(path)?,
        false => fs::symlink_metadata(path)?,
    };
    Ok((attr(&m), m.dev()))
}

/// Where files last that are not beside an image.
pub fn lasting_dir() -> PathBuf {
    PathBuf::from("/var/tmp")
}

/// Attributes as an image has them.
pub fn attr(m: &Metadata) -> Attr {
    let born = m
        .created()
        .ok()
        .and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    let time = |sec: i64, nsec: i64| Timestamp {
        sec,
        nsec: nsec as u32,
    };
    let ctime = time(m.ctime(), m.ctime_nsec());
    let rdev = m.rdev() as rustix::fs::Dev;
    Attr {
        ino: m.ino(),
        generation: 0,
        kind: kind(m),
        mode: permissions(m),
        nlink: u32::try_from(m.nlink()).unwrap_or(u32::MAX),
        uid: m.uid(),
        gid: m.gid(),
        size: m.size(),
        blocks: m.blocks(),
        block_size: m.blksize() as u32,
        atime: time(m.atime(), m.atime_nsec()),
        mtime: time(m.mtime(), m.mtime_nsec()),
        ctime,
        crtime: born.map_or(ctime, |d| {
            time(d.as_secs().cast_signed(), d.subsec_nanos().into())
        }),
        rdev_major: rustix::fs::major(rdev),
        rdev_minor: rustix::fs::minor(rdev),
        flags: 0,
    }
}

/// The permission bits of a file.
pub fn permissions(m: &Metadata) -> u16 {
    (m.mode() & 0o7777) as u16
}

/// Changes the permission bits of an open file.
///
/// # Errors
/// The host's.
pub fn set_mode_of_open(file: &File, mode: u16) -> io::Result<()> {
    file.set_permissions(fs::Permissions::from_mode(mode.into()))
}

/// Changes the permission bits of a file.
///
/// # Errors
/// The host's.
pub fn set_mode(path: &Path, mode: u16) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode.into()))
}

/// Reads at an offset, as pread(2).
///
/// # Errors
/// The host's.
pub fn read_at(file: &File, data: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(data, offset)
}

/// Writes all at an offset.
///
/// # Errors
/// The host's.
pub fn write_all_at(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(data, offset)
}

/// The first byte at `offset` or after it that may be data; `None` if only a hole follows.
///
/// # Errors
/// The file system does not know of holes.
pub fn next_data(file: &File, offset: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Waits a while for something to read, or the end; whether there is. A signal does not end a read that waits.
///
/// # Errors
/// The host's.
pub fn wait_readable(file: &impl AsFd) -> io::Result<bool> {
    Ok(poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&PATIENCE))? > 0)
}

/// Waits a while for room to write; whether there is.
///
/// # Errors
/// The host's.
pub fn wait_writable(file: &impl AsFd) -> io::Result<bool> {
    Ok(poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&PATIENCE))? > 0)
}

/// Standard input, as it was opened: opened again, a FIFO that its writer has closed would wait for another.
///
/// # Errors
/// The host's.
pub fn stdin() -> io::Result<File> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// Standard output, as it was opened: it may be a file that has something already.
///
/// # Errors
/// The host's.
pub fn stdout() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Whether standard input is a pipe.
pub fn stdin_is_pipe() -> bool {
    stdin()
        .and_then(|file| file.metadata())
        .is_ok_and(|there| there.file_type().is_fifo())
}

/// Makes a file standard input.
///
/// # Errors
/// The host's.
pub fn replace_stdin(file: File) -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdin(file)?)
}

/// Opening and reading does not wait.
pub fn nonblocking(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed())
}

/// Opens a file to write, empty; one that is made gets `mode`.
///
/// # Errors
/// The host's.
pub fn create(path: &Path, mode: u16, how: Creation) -> io::Result<File> {
    let flags = match how {
        Creation::Device => OFlags::EXCL,
        Creation::Fifo => OFlags::NONBLOCK,
        Creation::Special => OFlags::empty(),
        Creation::Any => OFlags::CREATE | OFlags::TRUNC,
        Creation::Existing => OFlags::NOFOLLOW | OFlags::TRUNC,
        Creation::New => OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW,
    };
    let mut options = File::options();
    options.write(true).mode(mode.into());
    options.custom_flags(flags.bits().cast_signed());
    options.open(path)
}

/// Whether opening a FIFO is refused as it has no reader.
pub fn has_no_reader(e: &io::Error) -> bool {
    e.raw_os_error() == Some(Errno::NXIO.raw_os_error())
}

/// Makes a directory, a link or a node.
///
/// # Errors
/// The host's.
pub fn make(path: &Path, mode: u16, kind: NewKind<'_>) -> io::Result<()> {
    match kind {
        NewKind::Directory => Ok(rustix::fs::mkdir(path, Mode::from_raw_mode(mode as _))?),
        NewKind::Symlink(target) => Ok(rustix::fs::symlink(OsStr::from_bytes(target), path)?),
        node => super::nodes::make(path, mode, node),
    }
}

/// Changes attributes of what is a `kind`; owners as far as the user may.
///
/// # Errors
/// The host's.
pub fn set_attr(path: &Path, kind: FileKind, change: &SetAttr) -> io::Result<()> {
    let mut mode = change.mode.filter(|_| kind != FileKind::Symlink);
    if change.uid.is_some() || change.gid.is_some() {
        let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
        let set = rustix::fs::chownat(CWD, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW);
        match set {
            // Only root gives files away; like cp(1), others keep what they copy, but not the
            // right to run it as another user.
            Err(Errno::PERM) if !rustix::process::geteuid().is_root() => {
                mode = mode.map(|m| m & !0o6000);
            }
            set => set?,
        }
    }
    if let Some(mode) = mode {
        let mode = Mode::from_raw_mode(mode as _);
        rustix::fs::chmodat(CWD, path, mode, AtFlags::empty())?;
    }
    if change.atime.is_some() || change.mtime.is_some() {
        let times = Timestamps {
            last_access: timespec(change.atime),
            last_modification: timespec(change.mtime),
        };
        rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

/// A time for utimensat(2).
fn timespec(time: Option<TimeSet>) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        Some(TimeSet::At(t)) => (t.sec, t.nsec.into()),
        Some(TimeSet::Now) => (0, rustix::fs::UTIME_NOW),
        None => (0, rustix::fs::UTIME_OMIT),
    };
    Timespec { tv_sec, tv_nsec }
}

/// Changes owner and group of a file.
///
/// # Errors
/// The host's.
pub fn set_owner(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    std::os::unix::fs::chown(path, Some(uid), Some(gid))
}

/// The extended attributes of an open file.
///
/// # Errors
/// The host's.
#[cfg(target_os = "linux")]
pub fn xattrs_of_open(file: &File) -> io::Result<Xattrs> {
    xattrs_by(
        |names| rustix::fs::flistxattr(file, names),
        |name, value| rustix::fs::fgetxattr(file, name, value),
    )
}

/// The extended attributes of a file.
///
/// # Errors
/// The host's.
pub fn xattrs(path: &Path) -> io::Result<Xattrs> {
    xattrs_by(
        |names| rustix::fs::llistxattr(path, names),
        |name, value| rustix::fs::lgetxattr(path, name, value),
    )
}

/// Sets an extended attribute; false if this file system, or this user, can't have it.
///
/// # Errors
/// The host's.
pub fn set_xattr(path: &Path, name: &[u8], value: &[u8]) -> io::Result<bool> {
    let name = OsStr::from_bytes(name);
    match rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()) {
        Ok(()) => Ok(true),
        Err(e) if is_refusal(e) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// The extended attributes that `list` and `get` find.
fn xattrs_by(
    list: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
    get: impl Fn(&OsStr, &mut [u8]) -> Result<usize, Errno>,
) -> io::Result<Xattrs> {
    // The kernel's limits: 64 KiB of names, and 64 KiB for a value.
    let mut buf = vec![0; 1 << 16];
    let names = match list(&mut buf[..]) {
        Ok(n) => buf[..n].to_vec(),
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(e) => return Err(e.into()),
    };
    let mut found = Vec::new();
    for name in names.split(|b| *b == 0).filter(|n| !n.is_empty()) {
        match get(OsStr::from_bytes(name), &mut buf[..]) {
            Ok(n) => found.push((name.to_vec(), buf[..n].to_vec())),
            Err(e) if is_refusal(e) || is_missing(e) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(found)
}

/// Whether an error says that this file system, or this user, can't have it.
fn is_refusal(e: Errno) -> bool {
    matches!(
        e,
        Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::INVAL
    )
}

/// Whether an attribute is gone.
fn is_missing(e: Errno) -> bool {
    #[cfg(target_os = "macos")]
    return e == Errno::NOATTR;
    #[cfg(not(target_os = "macos"))]
    return e == Errno::NODATA;
}
