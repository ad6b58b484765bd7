//! Pointers of C as references and slices.

use crate::failure::{Failure, Result};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::slice;

/// The bytes of a string.
///
/// # Safety
/// `string` is null or a string that stays as it is for `'a`.
pub unsafe fn bytes<'a>(string: *const c_char) -> Result<&'a [u8]> {
    if string.is_null() {
        return Err(Failure::argument("a string is NULL"));
    }
    // SAFETY: it is not null, so the caller's string.
    Ok(unsafe { CStr::from_ptr(string) }.to_bytes())
}

/// A path of the host.
///
/// # Safety
/// As [`bytes`].
pub unsafe fn host_path<'a>(string: *const c_char) -> Result<&'a Path> {
    // SAFETY: as the caller's.
    let bytes = unsafe { bytes(string) }?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// A buffer to be read.
///
/// # Safety
/// `data` is null or has `size` bytes, which stay as they are for `'a`.
pub unsafe fn buffer<'a>(data: *const c_void, size: usize) -> Result<&'a [u8]> {
    if size == 0 {
        return Ok(&[]);
    }
    check(data, size)?;
    // SAFETY: it is not null, so the caller's bytes.
    Ok(unsafe { slice::from_raw_parts(data.cast(), size) })
}

/// A buffer to be written.
///
/// # Safety
/// `data` is null or has `size` bytes, which nothing else uses for `'a`.
pub unsafe fn buffer_mut<'a>(data: *mut c_void, size: usize) -> Result<&'a mut [u8]> {
    if size == 0 {
        return Ok(&mut []);
    }
    check(data, size)?;
    // Memory of malloc(3) has no value yet.
    // SAFETY: it is not null, so the caller's bytes.
    unsafe { data.cast::<u8>().write_bytes(0, size) };
    // SAFETY: as before, and they have values now.
    Ok(unsafe { slice::from_raw_parts_mut(data.cast(), size) })
}

fn check(data: *const c_void, size: usize) -> Result<()> {
    match data.is_null() || size > isize::MAX as usize {
        true => Err(Failure::argument("the buffer is NULL or too large")),
        false => Ok(()),
    }
}

/// Copies `value` to a buffer, if it fits, and returns its length: with a size of 0 the length alone.
pub fn copy(value: &[u8], to: &mut [u8]) -> Result<i64> {
    if !to.is_empty() {
        let part = to.get_mut(..value.len());
        let part = part.ok_or_else(|| {
            Failure::new(libc::ERANGE, format!("the value has {} bytes", value.len()))
        })?;
        part.copy_from_slice(value);
    }
    length(value.len())
}

/// A length that a call returns.
pub fn length(bytes: usize) -> Result<i64> {
    i64::try_from(bytes).map_err(|_| Failure::argument("the length is too large"))
}

/// A handle or a structure that must be there.
pub fn there<T>(reference: Option<T>) -> Result<T> {
    reference.ok_or_else(|| Failure::argument("a handle or a structure is NULL"))
}

/// Puts a value in its place, or nothing if `make` fails.
pub fn put<T>(place: Option<&mut MaybeUninit<T>>, make: impl FnOnce() -> Result<T>) -> Result<()> {
    there(place)?.write(make()?);
    Ok(())
}

/// Puts a new handle in its place, or null if `make` fails.
pub fn give<T>(
    place: Option<&mut MaybeUninit<Option<Box<T>>>>,
    make: impl FnOnce() -> Result<T>,
) -> Result<()> {
    // A panic too leaves null.
    let place = there(place)?.write(None);
    *place = Some(Box::new(make()?));
    Ok(())
}
