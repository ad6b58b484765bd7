//! The files of the host.

use super::{Endpoint, Found, Overwrite, Sink, Source, Target};
use crate::{diagnostics, interrupt};
use anyhow::{Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{
    AtFlags, CWD, Dev, FileType, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno as HostErrno;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use uext4::unstable::{Attr, SetAttr};
use uext4::{FileKind, NewKind, TimeSet, Timestamp};

/// The files of the host.
pub struct Host;

/// A file of the host with data at offsets, open.
struct Open {
    path: PathBuf,
    file: File,
    kind: FileKind,
}

/// A pipe or a device that is read or written from one byte to the next, open.
struct Stream(Open);

/// Standard output, which is written from where it is.
pub const STDOUT: &str = "/dev/stdout";

/// Standard input, which is read as it was opened.
pub const STDIN: &str = "/dev/stdin";

/// How long a read may wait before it is asked whether to go on.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// How long until a FIFO without a reader is tried again.
const PAUSE: Duration = Duration::from_millis(20);

impl Open {
    fn new(path: &Path, file: File) -> Result<Open> {
        let metadata = file.metadata().map_err(|e| diagnostics::on_host(path, e))?;
        Ok(Open {
            path: path.to_owned(),
            kind: kind(&metadata),
            file,
        })
    }

    fn fail(&self, e: impl Into<io::Error>) -> anyhow::Error {
        diagnostics::on_host(&self.path, e)
    }

    fn is_stream(&self) -> bool {
        !matches!(self.kind, FileKind::Regular | FileKind::BlockDevice)
    }

    /// Reads with `read` until `data` is full or nothing is left.
    fn fill(
        &self,
        data: &mut [u8],
        read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    ) -> Result<usize> {
        let mut done = 0;
        while done < data.len() {
            match read(&mut data[done..], done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => interrupt::check()?,
                Err(e) => return Err(self.fail(e)),
            }
        }
        Ok(done)
    }
}

impl Source for Open {
    fn read_at(&self, data: &mut [u8], offset: u64) -> Result<usize> {
        self.fill(data, |data, done| self.file.read_at(data, offset + done))
    }

    fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(at) => Ok(Some(at)),
            Err(HostErrno::NXIO) => Ok(None),
            // What does not know of holes has none.
            Err(_) => Ok(Some(offset)),
        }
    }
}

impl Sink for Open {
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        self.file
            .write_all_at(data, offset)
            .map_err(|e| self.fail(e))
    }

    fn can_have_holes(&self) -> bool {
        self.kind == FileKind::Regular
    }

    fn finish(&self, len: u64) -> Result<()> {
        let ended = match self.kind {
            FileKind::Regular => self.file.set_len(len),
            // Only so is it known that all of it could be written.
            _ => self.file.sync_data(),
        };
        ended.map_err(|e| self.fail(e))
    }
}

impl Source for Stream {
    fn read_at(&self, data: &mut [u8], _: u64) -> Result<usize> {
        let Stream(open) = self;
        open.fill(data, |data, _| {
            // A signal does not end a read that waits.
            let mut fd = [PollFd::new(&open.file, PollFlags::IN)];
            match poll(&mut fd, Some(&PATIENCE))? {
                0 => Err(ErrorKind::Interrupted.into()),
                _ => (&open.file).read(data).map_err(again),
            }
        })
    }

    fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        Ok(Some(offset))
    }
}

impl Sink for Stream {
    fn write_at(&self, data: &[u8], _: u64) -> Result<()> {
        let Stream(open) = self;
        let mut left = data;
        while !left.is_empty() {
            let mut fd = [PollFd::new(&open.file, PollFlags::OUT)];
            let written = match poll(&mut fd, Some(&PATIENCE)) {
                Ok(0) => Err(ErrorKind::Interrupted.into()),
                Ok(_) => (&open.file).write(left).map_err(again),
                Err(e) => Err(e.into()),
            };
            match written {
                Ok(0) => return Err(open.fail(ErrorKind::WriteZero)),
                Ok(n) => left = &left[n..],
                Err(e) if e.kind() == ErrorKind::Interrupted => interrupt::check()?,
                Err(e) => return Err(open.fail(e)),
            }
        }
        Ok(())
    }

    fn can_have_holes(&self) -> bool {
        false
    }

    fn finish(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// What would have waited is tried again.
fn again(e: io::Error) -> io::Error {
    match e.kind() {
        ErrorKind::WouldBlock => ErrorKind::Interrupted.into(),
        _ => e,
    }
}

/// Opens a file to read.
fn open_to_read(path: &Path) -> io::Result<File> {
    if path == Path::new(STDIN) {
        // Opened again, a FIFO that its writer has closed would wait for another.
        return Ok(io::stdin().as_fd().try_clone_to_owned()?.into());
    }
    let mut options = File::options();
    options.read(true);
    if is_fifo(path) {
        // What writes to it is waited for by reading.
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    options.open(path)
}

/// An open file as a source; messages call it `path`.
pub fn source(path: &Path, file: File) -> Result<Box<dyn Source>> {
    let open = Open::new(path, file)?;
    Ok(match open.is_stream() {
        true => Box::new(Stream(open)),
        false => Box::new(open),
    })
}

fn is_fifo(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| kind(&m) == FileKind::Fifo)
}

fn kind(m: &fs::Metadata) -> FileKind {
    FileKind::from_mode_bits(m.mode()).unwrap_or(FileKind::Regular)
}

/// Attributes as an image has them.
pub fn attr(m: &fs::Metadata) -> Attr {
    let born = m
        .created()
        .ok()
        .and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    let time = |sec: i64, nsec: i64| Timestamp {
        sec,
        nsec: nsec as u32,
    };
    let ctime = time(m.ctime(), m.ctime_nsec());
    Attr {
        ino: m.ino(),
        generation: 0,
        kind: kind(m),
        mode: (m.mode() & 0o7777) as u16,
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
        rdev_major: rustix::fs::major(m.rdev()),
        rdev_minor: rustix::fs::minor(m.rdev()),
        flags: 0,
    }
}

/// Whether an error says that this file system, or this user, can't have it.
fn is_refusal(e: HostErrno) -> bool {
    matches!(
        e,
        HostErrno::OPNOTSUPP | HostErrno::PERM | HostErrno::ACCESS | HostErrno::INVAL
    )
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

type HostResult<T> = Result<T, HostErrno>;

/// The extended attributes of an open file.
pub fn xattrs(file: &File) -> HostResult<Vec<(Vec<u8>, Vec<u8>)>> {
    xattrs_by(
        |names| rustix::fs::flistxattr(file, names),
        |name, value| rustix::fs::fgetxattr(file, name, value),
    )
}

/// The extended attributes that `list` and `get` find.
fn xattrs_by(
    list: impl FnOnce(&mut [u8]) -> HostResult<usize>,
    get: impl Fn(&OsStr, &mut [u8]) -> HostResult<usize>,
) -> HostResult<Vec<(Vec<u8>, Vec<u8>)>> {
    // The kernel's limits: 64 KiB of names, and 64 KiB for a value.
    let mut buf = vec![0; 1 << 16];
    let names = match list(&mut buf[..]) {
        Ok(n) => buf[..n].to_vec(),
        Err(HostErrno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut found = Vec::new();
    for name in names.split(|b| *b == 0).filter(|n| !n.is_empty()) {
        match get(OsStr::from_bytes(name), &mut buf[..]) {
            Ok(n) => found.push((name.to_vec(), buf[..n].to_vec())),
            Err(e) if is_refusal(e) || e == HostErrno::NODATA => {}
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}

impl Endpoint for Host {
    fn id(&self) -> usize {
        0
    }

    fn display(&self, path: &Path) -> String {
        path.display().to_string()
    }

    fn find(&self, path: &Path, follow: bool) -> Result<Option<Found>> {
        let metadata = if follow {
            fs::metadata(path)
        } else {
            fs::symlink_metadata(path)
        };
        match metadata {
            Ok(m) => Ok(Some(Found {
                attr: attr(&m),
                dev: m.dev(),
            })),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(diagnostics::on_host(path, e)),
        }
    }

    fn list(&self, path: &Path) -> Result<Vec<Vec<u8>>> {
        let fail = |e| diagnostics::on_host(path, e);
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(fail)? {
            names.push(entry.map_err(fail)?.file_name().into_vec());
        }
        names.sort();
        Ok(names)
    }

    fn read_link(&self, path: &Path) -> Result<Vec<u8>> {
        let target = fs::read_link(path).map_err(|e| diagnostics::on_host(path, e))?;
        Ok(target.into_os_string().into_vec())
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Source>> {
        open_to_read(path)
            .map_err(|e| diagnostics::on_host(path, e))
            .and_then(|file| source(path, file))
    }

    fn xattrs(&self, path: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let found = xattrs_by(
            |names| rustix::fs::llistxattr(path, names),
            |name, value| rustix::fs::lgetxattr(path, name, value),
        );
        found.map_err(|e| diagnostics::on_host(path, e))
    }
}
impl Target for Host {
    fn create(&self, path: &Path, mode: u16, over: Overwrite) -> Result<Box<dyn Sink>> {
        if path == Path::new(STDOUT) {
            // It may be a file that has something already.
            let file = io::stdout().as_fd().try_clone_to_owned();
            let file = file.map_err(|e| diagnostics::on_host(path, e))?;
            return Ok(Box::new(Stream(Open::new(path, file.into())?)));
        }
        let there = match over {
            Overwrite::Named => fs::metadata(path).ok().map(|m| kind(&m)),
            Overwrite::Existing => Some(FileKind::Regular),
            Overwrite::New => None,
            Overwrite::Append => bail!(
                "{}: --append is for files in images; `uext4 cat IMAGE:/PATH >> FILE` appends to a file of the host",
                path.display()
            ),
        };
        let mut options = File::options();
        options.write(true).mode(mode.into());
        let flags = match (over, there) {
            // One that is mounted or part of another device is refused.
            (Overwrite::Named, Some(FileKind::BlockDevice)) => OFlags::EXCL,
            (Overwrite::Named, Some(FileKind::Fifo)) => OFlags::NONBLOCK,
            (Overwrite::Named, Some(kind)) if kind != FileKind::Regular => OFlags::empty(),
            (Overwrite::Named, _) => OFlags::CREATE | OFlags::TRUNC,
            (Overwrite::Existing, _) => OFlags::NOFOLLOW | OFlags::TRUNC,
            (Overwrite::New | Overwrite::Append, _) => {
                OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW
            }
        };
        options.custom_flags(flags.bits().cast_signed());
        let file = loop {
            match options.open(path) {
                // The FIFO has no reader yet.
                Err(e)
                    if e.raw_os_error() == Some(HostErrno::NXIO.raw_os_error())
                        && flags == OFlags::NONBLOCK =>
                {
                    interrupt::check()?;
                    std::thread::sleep(PAUSE);
                }
                opened => break opened.map_err(|e| diagnostics::creating_on_host(path, e))?,
            }
        };
        let open = Open::new(path, file)?;
        Ok(match open.is_stream() {
            true => Box::new(Stream(open)),
            false => Box::new(open),
        })
    }

    fn make(&self, path: &Path, mode: u16, kind: NewKind<'_>) -> Result<()> {
        let fail = |e: HostErrno| diagnostics::creating_on_host(path, e);
        let mode = Mode::from_raw_mode(mode.into());
        let node = |kind: FileType, dev: Dev| rustix::fs::mknodat(CWD, path, kind, mode, dev);
        match kind {
            NewKind::Regular => node(FileType::RegularFile, 0),
            NewKind::Directory => rustix::fs::mkdir(path, mode),
            NewKind::Symlink(target) => rustix::fs::symlink(OsStr::from_bytes(target), path),
            NewKind::Fifo => node(FileType::Fifo, 0),
            NewKind::Socket => node(FileType::Socket, 0),
            NewKind::Device { kind, major, minor } => {
                let kind = match kind {
                    FileKind::BlockDevice => FileType::BlockDevice,
                    _ => FileType::CharacterDevice,
                };
                node(kind, rustix::fs::makedev(major, minor))
            }
        }
        .map_err(fail)
    }

    fn link(&self, original: &Path, link: &Path) -> Result<()> {
        fs::hard_link(original, link).map_err(|e| diagnostics::on_host(link, e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|e| diagnostics::on_host(path, e))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        fs::remove_dir(path).map_err(|e| diagnostics::on_host(path, e))
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn set_attr(&self, path: &Path, kind: FileKind, change: &SetAttr) -> Result<()> {
        let fail = |e: HostErrno| diagnostics::on_host(path, e);
        let mut mode = change.mode.filter(|_| kind != FileKind::Symlink);
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            let set = rustix::fs::chownat(CWD, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW);
            match set {
                // Only root gives files away; like cp(1), others keep what they copy, but not the
                // right to run it as another user.
                Err(HostErrno::PERM) if !rustix::process::geteuid().is_root() => {
                    mode = mode.map(|m| m & !0o6000);
                }
                set => set.map_err(fail)?,
            }
        }
        if let Some(mode) = mode {
            let mode = Mode::from_raw_mode(mode.into());
            rustix::fs::chmodat(CWD, path, mode, AtFlags::empty()).map_err(fail)?;
        }
        if change.atime.is_some() || change.mtime.is_some() {
            let times = Timestamps {
                last_access: timespec(change.atime),
                last_modification: timespec(change.mtime),
            };
            rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
        }
        Ok(())
    }

    fn set_xattr(&self, path: &Path, name: &[u8], value: &[u8]) -> Result<bool> {
        let name = OsStr::from_bytes(name);
        match rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()) {
            Ok(()) => Ok(true),
            Err(e) if is_refusal(e) => Ok(false),
            Err(e) => Err(diagnostics::on_host(path, e)),
        }
    }
}
