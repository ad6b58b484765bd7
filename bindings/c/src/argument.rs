//! Pointers of C as references.

use crate::failure::Failure;
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The bytes of a string.
///
/// # Safety
/// `string` is null or a string that stays as it is for `'a`.
pub unsafe fn bytes<'a>(string: *const c_char) -> Result<&'a [u8], Failure> {
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
pub unsafe fn host_path<'a>(string: *const c_char) -> Result<&'a Path, Failure> {
    // SAFETY: as the caller's.
    let bytes = unsafe { bytes(string) }?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// What a handle points to.
///
/// # Safety
/// `handle` is null or points to a `T` that lives for `'a`.
pub unsafe fn handle<'a, T>(handle: *const T) -> Result<&'a T, Failure> {
    // SAFETY: as the caller's.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::argument("a handle is NULL"))
}

/// Puts a new handle in `out`.
///
/// # Safety
/// `out` is null or can be written.
pub unsafe fn give<T>(
    out: *mut *mut T,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::argument("the place of the handle is NULL"));
    }
    let made = Box::into_raw(Box::new(make()?));
    // SAFETY: it is not null, so the caller's place.
    unsafe { out.write(made) };
    Ok(())
}

/// A handle that its caller gives back.
///
/// # Safety
/// `handle` is null or from [`give`], and nothing uses it any more.
pub unsafe fn take<T>(handle: *mut T) -> Result<T, Failure> {
    if handle.is_null() {
        return Err(Failure::argument("a handle is NULL"));
    }
    // SAFETY: it is not null, so from `give`.
    Ok(*unsafe { Box::from_raw(handle) })
}
