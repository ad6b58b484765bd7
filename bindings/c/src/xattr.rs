//! Extended attributes; of a symbolic link its own.

use crate::argument::{buffer, buffer_mut, bytes, copy};
use crate::failure::{Failure, border, done};
use crate::fs::{image, uext4_fs};
use rust_uext4::XattrFlags;
use std::ffi::{c_char, c_int, c_void};

/// Copies the value of an extended attribute, `name` with its namespace, and returns its length; with a size of 0 the length alone.
/// Otherwise a negative errno: -ENODATA: no such attribute, -ERANGE: `size` is too small, -EOPNOTSUPP: no such namespace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_xattr_get(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    name: *const c_char,
    value: *mut c_void,
    size: usize,
) -> i64 {
    border(|| {
        // SAFETY: strings and a buffer, as the header asks.
        let (path, name, to) = unsafe { (bytes(path)?, bytes(name)?, buffer_mut(value, size)?) };
        copy(&image(fs)?.get_xattr(path, name)?, to)
    })
}

/// Sets an extended attribute; `flags` are 0, XATTR_CREATE or XATTR_REPLACE. Returns 0 or a negative errno: -EEXIST, -ENODATA: as the
/// flags say, -ENOSPC, -E2BIG: too large.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_xattr_set(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    name: *const c_char,
    value: *const c_void,
    size: usize,
    flags: u32,
) -> c_int {
    done(|| {
        // SAFETY: strings and a buffer, as the header asks.
        let (path, name, value) = unsafe { (bytes(path)?, bytes(name)?, buffer(value, size)?) };
        let flags = XattrFlags::from_bits(flags);
        let flags =
            flags.ok_or_else(|| Failure::argument("flags of an attribute that can't be"))?;
        Ok(image(fs)?.set_xattr(path, name, value, flags)?)
    })
}

/// Copies the names of all extended attributes, each with a 0 at its end, and returns their length; with a size of 0 the length alone.
/// Otherwise a negative errno: -ERANGE: `size` is too small.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_xattr_list(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    names: *mut c_char,
    size: usize,
) -> i64 {
    border(|| {
        // SAFETY: a string and a buffer, as the header asks.
        let (path, to) = unsafe { (bytes(path)?, buffer_mut(names.cast::<c_void>(), size)?) };
        let mut list = Vec::new();
        for name in image(fs)?.list_xattrs(path)? {
            list.extend_from_slice(&name);
            list.push(0);
        }
        copy(&list, to)
    })
}

/// Removes an extended attribute. Returns 0 or a negative errno: -ENODATA: no such attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_xattr_remove(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    name: *const c_char,
) -> c_int {
    done(|| {
        // SAFETY: strings, as the header asks.
        let (path, name) = unsafe { (bytes(path)?, bytes(name)?) };
        Ok(image(fs)?.remove_xattr(path, name)?)
    })
}
