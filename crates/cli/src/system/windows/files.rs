//! Files of the host: files and directories, and symbolic links to be read. What an image has besides is of no kind that Windows
//! keeps. Owners are root, and permission is to read and to write, or only to read.

use crate::system::creation::Creation;
use std::fs::{self, File, FileTimes, FileType, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::windows::io::AsHandle;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use uext4::unstable::{Attr, SetAttr};
use uext4::{FileKind, NewKind, TimeSet, Timestamp};
use winapi_util::{Handle, file};

/// Of CreateFileW: opens directories as well.
const BACKUP_SEMANTICS: u32 = 0x0200_0000;
/// Opens a link itself.
const OPEN_REPARSE_POINT: u32 = 0x0020_0000;
/// The right to change times.
const WRITE_ATTRIBUTES: u32 = 0x100;

/// Bytes of a block, as attributes have it.
const BLOCK_BYTES: u32 = 4096;
/// What blocks are counted in.
const SECTOR_BYTES: u64 = 512;

/// Names and values.
type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// Whether it is a block device; there are none.
pub fn is_block_device(_: FileType) -> bool {
    false
}

/// Whether it is a character device; there are none.
pub fn is_char_device(_: FileType) -> bool {
    false
}

/// Where files last that are not beside an image.
pub fn lasting_dir() -> PathBuf {
    std::env::temp_dir()
}

/// What a file is.
pub fn kind(m: &Metadata) -> FileKind {
    match (m.is_dir(), m.is_symlink()) {
        (true, _) => FileKind::Directory,
        (_, true) => FileKind::Symlink,
        _ => FileKind::Regular,
    }
}

/// What an open file is; a pipe, if it is not on a disk or has no attributes.
///
/// # Errors
/// None.
pub fn kind_of_open(open: &File) -> io::Result<FileKind> {
    Ok(metadata_of_open(open).map_or(FileKind::Fifo, |m| kind(&m)))
}

/// The attributes of a file of a disk.
fn metadata_of_open(open: &File) -> Option<Metadata> {
    let is_disk = file::typ(open).is_ok_and(|kind| kind.is_disk());
    open.metadata().ok().filter(|_| is_disk)
}

/// The device and the number of a file, which no other has.
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    let there = file::information(Handle::from_path_any(path).ok()?).ok()?;
    Some((there.volume_serial_number(), there.file_index()))
}

/// What is there, and the device that it is on; behind links too if they are to be followed.
///
/// # Errors
/// The host's.
pub fn find(path: &Path, follow: bool) -> io::Result<(Attr, u64)> {
    if path == Path::new("/dev/stdin") {
        return find_open(&stdin()?);
    }
    if path == Path::new("/dev/stdout") {
        return find_open(&stdout()?);
    }
    let m = match follow {
        true => fs::metadata(path)?,
        false => fs::symlink_metadata(path)?,
    };
    let mut attr = attr(&m);
    let handle = Handle::from_path_any(path).ok();
    let there = handle.filter(|_| attr.kind != FileKind::Symlink);
    let there = there.and_then(|handle| file::information(handle).ok());
    if let Some(there) = &there {
        attr.ino = there.file_index();
        attr.nlink = u32::try_from(there.number_of_links()).unwrap_or(u32::MAX);
    }
    Ok((attr, there.map_or(0, |there| there.volume_serial_number())))
}

/// An open file as it was found.
fn find_open(open: &File) -> io::Result<(Attr, u64)> {
    let attr = match metadata_of_open(open) {
        Some(m) => attr(&m),
        None => Attr {
            kind: FileKind::Fifo,
            size: 0,
            blocks: 0,
            ..attr(&fs::metadata(std::env::temp_dir())?)
        },
    };
    Ok((attr, 0))
}

/// Attributes as an image has them.
fn attr(m: &Metadata) -> Attr {
    let mtime = time(m.modified());
    Attr {
        ino: 0,
        generation: 0,
        kind: kind(m),
        mode: permissions(m),
        nlink: 1,
        uid: 0,
        gid: 0,
        size: m.file_size(),
        blocks: m.file_size().div_ceil(SECTOR_BYTES),
        block_size: BLOCK_BYTES,
        atime: time(m.accessed()),
        mtime,
        ctime: mtime,
        crtime: time(m.created()),
        rdev_major: 0,
        rdev_minor: 0,
        flags: 0,
    }
}

fn time(time: io::Result<SystemTime>) -> Timestamp {
    let since = time.unwrap_or(UNIX_EPOCH).duration_since(UNIX_EPOCH);
    let (sec, nsec) = match since {
        Ok(after) => (after.as_secs().cast_signed(), after.subsec_nanos()),
        // Nanoseconds count forward.
        Err(e) => match e.duration() {
            before if before.subsec_nanos() == 0 => (-before.as_secs().cast_signed(), 0),
            before => (
                -before.as_secs().cast_signed() - 1,
                1_000_000_000 - before.subsec_nanos(),
            ),
        },
    };
    Timestamp { sec, nsec }
}

/// The permission bits of a file.
pub fn permissions(m: &Metadata) -> u16 {
    let all = match kind(m) {
        FileKind::Regular => 0o644,
        FileKind::Symlink => 0o777,
        _ => return 0o755,
    };
    match m.permissions().readonly() {
        true => all & !0o222,
        false => all,
    }
}

/// Nothing: new files can be read and written.
///
/// # Errors
/// None.
pub fn set_mode_of_open(_: &File, _: u16) -> io::Result<()> {
    Ok(())
}

/// Makes a file read-only if its mode has no permission to write. Directories have no such attribute.
///
/// # Errors
/// The host's.
pub fn set_mode(path: &Path, mode: u16) -> io::Result<()> {
    let there = fs::symlink_metadata(path)?;
    let mut permissions = there.permissions();
    let readonly = mode & 0o222 == 0;
    if kind(&there) != FileKind::Regular || permissions.readonly() == readonly {
        return Ok(());
    }
    permissions.set_readonly(readonly);
    fs::set_permissions(path, permissions)
}

/// Fails: owners are not kept.
///
/// # Errors
/// Always.
pub fn set_owner(_: &Path, _: u32, _: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Reads at an offset.
///
/// # Errors
/// The host's.
pub fn read_at(file: &File, data: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(data, offset)
}

/// Writes all at an offset.
///
/// # Errors
/// The host's.
pub fn write_all_at(file: &File, mut data: &[u8], mut offset: u64) -> io::Result<()> {
    while !data.is_empty() {
        let written = file.seek_write(data, offset)?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        data = data.get(written..).unwrap_or(&[]);
        offset += written as u64;
    }
    Ok(())
}

/// `offset`: nothing is known of holes.
///
/// # Errors
/// None.
pub fn next_data(_: &File, offset: u64) -> io::Result<Option<u64>> {
    Ok(Some(offset))
}

/// True: reading waits.
///
/// # Errors
/// None.
pub fn wait_readable(_: &impl AsHandle) -> io::Result<bool> {
    Ok(true)
}

/// True: writing waits.
///
/// # Errors
/// None.
pub fn wait_writable(_: &impl AsHandle) -> io::Result<bool> {
    Ok(true)
}

/// Standard input, as it was opened.
///
/// # Errors
/// The host's.
pub fn stdin() -> io::Result<File> {
    Ok(io::stdin().as_handle().try_clone_to_owned()?.into())
}

/// Standard output, as it was opened.
///
/// # Errors
/// The host's.
pub fn stdout() -> io::Result<File> {
    Ok(io::stdout().as_handle().try_clone_to_owned()?.into())
}

/// False: that something is to be read is not waited for.
pub fn stdin_is_pipe() -> bool {
    false
}

/// Fails; see [`stdin_is_pipe`].
///
/// # Errors
/// Always.
pub fn replace_stdin(_: File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Nothing: files do not wait.
pub fn nonblocking(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Opens a file to write, empty.
///
/// # Errors
/// The host's.
pub fn create(path: &Path, _: u16, how: Creation) -> io::Result<File> {
    let mut options = File::options();
    options.write(true);
    match how {
        Creation::Device | Creation::Fifo | Creation::Special => &mut options,
        Creation::Any => options.create(true).truncate(true),
        Creation::Existing => options.truncate(true),
        Creation::New => options.create_new(true),
    };
    options.open(path)
}

/// Whether opening a FIFO is refused as it has no reader.
pub fn has_no_reader(_: &io::Error) -> bool {
    false
}

/// Makes a directory or an empty file.
///
/// # Errors
/// The host's; Windows has no such thing.
pub fn make(path: &Path, _: u16, kind: NewKind<'_>) -> io::Result<()> {
    let what = match kind {
        NewKind::Directory => return fs::create_dir(path),
        NewKind::Regular => {
            let mut options = File::options();
            return options.write(true).create_new(true).open(path).map(drop);
        }
        NewKind::Symlink(_) => "a symbolic link",
        NewKind::Fifo => "a FIFO",
        NewKind::Socket => "a socket",
        NewKind::Device { .. } => "a device",
    };
    let why = format!("is {what} in the image, which is not made on Windows");
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

/// Changes times, and whether a file is read-only; owners are not kept.
///
/// # Errors
/// The host's.
pub fn set_attr(path: &Path, kind: FileKind, change: &SetAttr) -> io::Result<()> {
    if change.atime.is_some() || change.mtime.is_some() {
        let mut options = File::options();
        options.access_mode(WRITE_ATTRIBUTES);
        let file = options
            .custom_flags(BACKUP_SEMANTICS | OPEN_REPARSE_POINT)
            .open(path)?;
        let mut times = FileTimes::new();
        if let Some(time) = change.atime.and_then(system_time) {
            times = times.set_accessed(time);
        }
        if let Some(time) = change.mtime.and_then(system_time) {
            times = times.set_modified(time);
        }
        file.set_times(times)?;
    }
    match change.mode.filter(|_| kind == FileKind::Regular) {
        Some(mode) => set_mode(path, mode),
        None => Ok(()),
    }
}

/// A time of the host, unless it has none so far away.
fn system_time(time: TimeSet) -> Option<SystemTime> {
    let TimeSet::At(time) = time else {
        return Some(SystemTime::now());
    };
    let whole = Duration::from_secs(time.sec.unsigned_abs());
    let whole = match time.sec < 0 {
        true => UNIX_EPOCH.checked_sub(whole)?,
        false => UNIX_EPOCH.checked_add(whole)?,
    };
    whole.checked_add(Duration::from_nanos(time.nsec.into()))
}

/// The extended attributes of a file: none.
///
/// # Errors
/// None.
pub fn xattrs(_: &Path) -> io::Result<Xattrs> {
    Ok(Vec::new())
}

/// False: there are no extended attributes.
///
/// # Errors
/// None.
pub fn set_xattr(_: &Path, _: &[u8], _: &[u8]) -> io::Result<bool> {
    Ok(false)
}
