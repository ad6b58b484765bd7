//! Open files.

use crate::argument::{bytes, give, handle, take};
use crate::failure::{Failure, border, done};
use crate::fs::uext4_fs;
use rust_uext4::{File, OpenOptions};
use std::ffi::{c_char, c_int, c_void};
use std::slice;

/// An open file. Threads may share it.
#[allow(non_camel_case_types, reason = "a name of C")]
pub struct uext4_file(File);

/// Opens a file, to be read and, if `writable`, written, and puts its handle in `file`; `create` makes one with mode
/// 0644 if there is none. Returns 0 or a negative errno.
///
/// # Safety
/// `fs` is an open image, `path` a string, and `file` a place for the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_file_open(
    fs: *const uext4_fs,
    path: *const c_char,
    writable: bool,
    create: bool,
    file: *mut *mut uext4_file,
) -> c_int {
    done(|| {
        // SAFETY: the caller passes an open image.
        let fs = &unsafe { handle(fs) }?.0;
        // SAFETY: the caller passes a string.
        let path = unsafe { bytes(path) }?;
        let options = OpenOptions::new()
            .read(true)
            .write(writable)
            .create(create)
            .mode(0o644);
        // SAFETY: the caller passes a place.
        unsafe { give(file, || Ok(uext4_file(options.open(fs, path)?))) }
    })
}

/// Closes a file; its data is durable after `uext4_file_sync` or `uext4_sync` only. Returns 0 or a negative errno.
///
/// # Safety
/// `file` is from `uext4_file_open`, and nothing uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_file_close(file: *mut uext4_file) -> c_int {
    done(|| {
        // SAFETY: the caller gives it back.
        drop(unsafe { take(file) }?);
        Ok(())
    })
}

/// Reads at `offset`. Returns the bytes read, 0 at the end of the file, or a negative errno.
///
/// # Safety
/// `file` is an open file; `data` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_pread(
    file: *const uext4_file,
    data: *mut c_void,
    size: usize,
    offset: u64,
) -> i64 {
    border(|| {
        check_buffer(data, size)?;
        if size == 0 {
            return Ok(0);
        }
        // SAFETY: the caller passes an open file.
        let file = unsafe { handle(file) }?;
        // Memory of malloc(3) has no value yet.
        // SAFETY: the caller's bytes, of which there are `size`.
        unsafe { data.cast::<u8>().write_bytes(0, size) };
        // SAFETY: as before, and they have values now.
        let data = unsafe { slice::from_raw_parts_mut(data.cast::<u8>(), size) };
        Ok(file.0.read_at(data, offset)? as i64)
    })
}

/// Writes at `offset`. Returns the bytes written, or a negative errno.
///
/// # Safety
/// `file` is an open file; `data` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_pwrite(
    file: *const uext4_file,
    data: *const c_void,
    size: usize,
    offset: u64,
) -> i64 {
    border(|| {
        check_buffer(data, size)?;
        if size == 0 {
            return Ok(0);
        }
        // SAFETY: the caller passes an open file.
        let file = unsafe { handle(file) }?;
        // SAFETY: the caller's bytes, of which there are `size`.
        let data = unsafe { slice::from_raw_parts(data.cast::<u8>(), size) };
        Ok(file.0.write_at(data, offset)? as i64)
    })
}

/// Sets the length of a file. Returns 0 or a negative errno.
///
/// # Safety
/// `file` is an open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_file_truncate(file: *const uext4_file, length: u64) -> c_int {
    done(|| {
        // SAFETY: the caller passes an open file.
        Ok(unsafe { handle(file) }?.0.set_len(length)?)
    })
}

/// Makes a file's data and attributes durable. Returns 0 or a negative errno.
///
/// # Safety
/// `file` is an open file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_file_sync(file: *const uext4_file) -> c_int {
    done(|| {
        // SAFETY: the caller passes an open file.
        Ok(unsafe { handle(file) }?.0.sync_all()?)
    })
}

fn check_buffer(data: *const c_void, size: usize) -> Result<(), Failure> {
    let fits = size <= isize::MAX as usize && (size == 0 || !data.is_null());
    fits.then_some(())
        .ok_or_else(|| Failure::argument("the buffer is NULL or too large"))
}
