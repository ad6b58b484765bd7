//! Open files.

use crate::argument::{buffer, buffer_mut, bytes, give, length, put, there};
use crate::attributes::{stat, uext4_attr};
use crate::failure::{Failure, Result, border, done};
use crate::fs::{image, uext4_fs};
use rust_uext4::{Fallocate, File, OpenOptions};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

/// An open file.
pub struct uext4_file(File);

/// Opens a file; a symbolic link is followed. `flags` are those of open(2): O_RDONLY, O_WRONLY or O_RDWR, with O_CREAT, O_EXCL, O_TRUNC,
/// O_APPEND, O_DIRECT, O_DSYNC, O_SYNC; to create a file it must be open for writing. `mode` has the permissions of a new file. Returns
/// 0 or a negative errno, and `*file` is NULL then: -ENOENT, -EEXIST, -EISDIR, -EINVAL: flags that can't be, -ENOSPC, -EROFS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_file_open(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    flags: c_int,
    mode: u32,
    file: Option<&mut MaybeUninit<Option<Box<uext4_file>>>>,
) -> c_int {
    done(|| {
        give(file, || {
            // SAFETY: a string, as the header asks.
            let path = unsafe { bytes(path) }?;
            let options = flagged(flags)?.mode((mode & 0o7777) as u16);
            Ok(uext4_file(options.open(image(fs)?, path)?))
        })
    })
}

/// The flags of open(2) as options.
fn flagged(flags: c_int) -> Result<OpenOptions> {
    const KNOWN: c_int = libc::O_ACCMODE
        | libc::O_CREAT
        | libc::O_EXCL
        | libc::O_TRUNC
        | libc::O_APPEND
        | libc::O_DIRECT
        | libc::O_SYNC
        | libc::O_LARGEFILE
        | libc::O_CLOEXEC;
    let access = flags & libc::O_ACCMODE;
    if flags & !KNOWN != 0 || access == libc::O_ACCMODE {
        return Err(Failure::argument(format!("flags {flags:#o} can't be")));
    }
    // O_SYNC has the bit of O_DSYNC.
    let has = |flag: c_int| flags & flag == flag;
    let create = has(libc::O_CREAT);
    let write = access != libc::O_RDONLY;
    Ok(OpenOptions::new()
        .read(access != libc::O_WRONLY)
        .write(write)
        .append(write && has(libc::O_APPEND))
        .truncate(has(libc::O_TRUNC))
        .create(create)
        .create_new(create && has(libc::O_EXCL))
        .direct(has(libc::O_DIRECT))
        .data_sync(has(libc::O_DSYNC))
        .sync(has(libc::O_SYNC)))
}

/// Closes a file. Its data is durable only after uext4_file_sync or uext4_sync. No other thread may use the handle any more. Returns 0 or
/// -EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_file_close(file: Option<Box<uext4_file>>) -> c_int {
    done(|| there(file).map(drop))
}

/// Reads at `offset`. Returns the bytes read, fewer than `size` at the end of the file or before data that can't be read, or a negative
/// errno: -EBADF: not open for reading, -EIO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_file_pread(
    file: Option<&uext4_file>,
    data: *mut c_void,
    size: usize,
    offset: u64,
) -> i64 {
    border(|| {
        let file = &there(file)?.0;
        // SAFETY: a buffer, as the header asks.
        let mut left = unsafe { buffer_mut(data, size) }?;
        let mut read = 0;
        while !left.is_empty() {
            let at = offset.saturating_add(read as u64);
            match file.read_at(left, at) {
                Ok(0) => break,
                Ok(bytes) => {
                    left = left.get_mut(bytes..).unwrap_or_default();
                    read += bytes;
                }
                Err(_) if read > 0 => break,
                Err(e) => return Err(e.into()),
            }
        }
        length(read)
    })
}

/// Writes at `offset`, or at the end with O_APPEND. Returns the bytes written, which may be fewer than `size`, or a negative errno:
/// -EBADF: not open for writing, -ENOSPC, -EFBIG, -EIO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_file_pwrite(
    file: Option<&uext4_file>,
    data: *const c_void,
    size: usize,
    offset: u64,
) -> i64 {
    border(|| {
        let file = &there(file)?.0;
        // SAFETY: a buffer, as the header asks.
        let data = unsafe { buffer(data, size) }?;
        length(file.write_at(data, offset)?)
    })
}

/// Sets the length of a file. Returns 0 or a negative errno: -EBADF: not open for writing, -EFBIG.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_file_truncate(file: Option<&uext4_file>, length: u64) -> c_int {
    done(|| Ok(there(file)?.0.set_len(length)?))
}

/// Makes a file's data and attributes durable, as fsync(2). Returns 0 or -EIO.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_file_sync(file: Option<&uext4_file>) -> c_int {
    done(|| Ok(there(file)?.0.sync_all()?))
}

/// Makes a file's data durable and what is needed to read it, as fdatasync(2). Returns 0 or -EIO.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_file_datasync(file: Option<&uext4_file>) -> c_int {
    done(|| Ok(there(file)?.0.sync_data()?))
}

/// Attributes of a file. Returns 0 or a negative errno.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_file_stat(
    file: Option<&uext4_file>,
    to: Option<&mut MaybeUninit<uext4_attr>>,
) -> c_int {
    done(|| put(to, || Ok(stat(&there(file)?.0.metadata()?))))
}

/// Allocates, punches, zeroes, removes or inserts a range, as fallocate(2): `mode` is 0 or of FALLOC_FL_*. Returns 0 or a negative errno:
/// -EOPNOTSUPP: a mode that can't be, -ENOSPC, -EFBIG, -EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_file_fallocate(
    file: Option<&uext4_file>,
    mode: c_int,
    offset: u64,
    length: u64,
) -> c_int {
    use libc::{
        FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_KEEP_SIZE,
        FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE,
    };
    const PUNCH: c_int = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    const ZERO_KEEP: c_int = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
    done(|| {
        let what = match mode {
            0 => Fallocate::Allocate,
            FALLOC_FL_KEEP_SIZE => Fallocate::AllocateKeepSize,
            PUNCH => Fallocate::PunchHole,
            FALLOC_FL_ZERO_RANGE => Fallocate::ZeroRange,
            ZERO_KEEP => Fallocate::ZeroRangeKeepSize,
            FALLOC_FL_COLLAPSE_RANGE => Fallocate::CollapseRange,
            FALLOC_FL_INSERT_RANGE => Fallocate::InsertRange,
            _ => {
                let text = format!("mode {mode:#x} of fallocate can't be");
                return Err(Failure::new(libc::EOPNOTSUPP, text));
            }
        };
        Ok(there(file)?.0.fallocate(what, offset, length)?)
    })
}

/// The next data (SEEK_DATA) or hole (SEEK_HOLE) at or after `offset`, as lseek(2). Returns its offset or a negative errno: -ENXIO: none.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_file_seek(file: Option<&uext4_file>, offset: u64, whence: c_int) -> i64 {
    border(|| {
        let file = &there(file)?.0;
        let found = match whence {
            libc::SEEK_DATA => file.seek_data(offset)?,
            libc::SEEK_HOLE => file.seek_hole(offset)?,
            _ => return Err(Failure::argument("SEEK_DATA or SEEK_HOLE")),
        };
        // Files of ext4 end below 2^63.
        Ok(found.cast_signed())
    })
}
