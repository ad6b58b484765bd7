//! Images: made, opened, closed, and what is done by path.

use crate::argument::{bytes, give, handle, host_path, take};
use crate::failure::done;
use rust_uext4::{Filesystem, ImageOptions, MkfsOptions, NoProgress};
use std::ffi::{c_char, c_int};

/// An open image. Threads may share it.
#[allow(non_camel_case_types, reason = "a name of C")]
pub struct uext4_fs(pub(crate) Filesystem);

/// Makes an image of `size` bytes in the file `path` of the host. Returns 0 or a negative errno.
///
/// # Safety
/// `path` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_mkfs(path: *const c_char, size: u64) -> c_int {
    done(|| {
        // SAFETY: the caller passes a string.
        let path = unsafe { host_path(path) }?;
        rust_uext4::mkfs(path, &MkfsOptions::new().size(size), &NoProgress)?;
        Ok(())
    })
}

/// Opens the image `path` of the host, to be read only unless `writable`, and puts its handle in `fs`. Returns 0 or a
/// negative errno: `-EBUSY` when another program has it open.
///
/// # Safety
/// `path` is a string, and `fs` a place for the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_open(
    path: *const c_char,
    writable: bool,
    fs: *mut *mut uext4_fs,
) -> c_int {
    done(|| {
        let options = match writable {
            true => ImageOptions::read_write(),
            false => ImageOptions::read_only(),
        };
        // SAFETY: the caller passes a string.
        let path = unsafe { host_path(path) }?;
        // SAFETY: the caller passes a place.
        unsafe { give(fs, || Ok(uext4_fs(Filesystem::open(path, &options)?))) }
    })
}

/// Makes all changes durable and closes the image. The handle is gone even if that fails; close its files before.
/// Returns 0 or a negative errno.
///
/// # Safety
/// `fs` is from `uext4_open`, and nothing uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_close(fs: *mut uext4_fs) -> c_int {
    done(|| {
        // SAFETY: the caller gives it back.
        let fs = unsafe { take(fs) }?;
        Ok(fs.0.unmount()?)
    })
}

/// Makes all changes durable. Returns 0 or a negative errno.
///
/// # Safety
/// `fs` is an open image.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_sync(fs: *const uext4_fs) -> c_int {
    done(|| {
        // SAFETY: the caller passes an open image.
        let fs = unsafe { handle(fs) }?;
        Ok(fs.0.sync()?)
    })
}

/// Makes a directory. Returns 0 or a negative errno.
///
/// # Safety
/// `fs` is an open image, and `path` a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_mkdir(fs: *const uext4_fs, path: *const c_char) -> c_int {
    done(|| {
        // SAFETY: the caller passes an open image.
        let fs = &unsafe { handle(fs) }?.0;
        // SAFETY: the caller passes a string.
        let path = unsafe { bytes(path) }?;
        Ok(fs.create_dir(path)?)
    })
}

/// Removes an empty directory. Returns 0 or a negative errno.
///
/// # Safety
/// `fs` is an open image, and `path` a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_rmdir(fs: *const uext4_fs, path: *const c_char) -> c_int {
    done(|| {
        // SAFETY: the caller passes an open image.
        let fs = &unsafe { handle(fs) }?.0;
        // SAFETY: the caller passes a string.
        let path = unsafe { bytes(path) }?;
        Ok(fs.remove_dir(path)?)
    })
}

/// Removes a name of a file. Returns 0 or a negative errno.
///
/// # Safety
/// `fs` is an open image, and `path` a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_unlink(fs: *const uext4_fs, path: *const c_char) -> c_int {
    done(|| {
        // SAFETY: the caller passes an open image.
        let fs = &unsafe { handle(fs) }?.0;
        // SAFETY: the caller passes a string.
        let path = unsafe { bytes(path) }?;
        Ok(fs.remove_file(path)?)
    })
}

/// Gives a file another name, in place of what has it. Returns 0 or a negative errno.
///
/// # Safety
/// `fs` is an open image, and `from` and `to` are strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_rename(
    fs: *const uext4_fs,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    done(|| {
        // SAFETY: the caller passes an open image.
        let fs = &unsafe { handle(fs) }?.0;
        // SAFETY: the caller passes a string.
        let from = unsafe { bytes(from) }?;
        // SAFETY: the caller passes a string.
        let to = unsafe { bytes(to) }?;
        Ok(fs.rename(from, to)?)
    })
}

/// Gives a file one name more. Returns 0 or a negative errno.
///
/// # Safety
/// `fs` is an open image, and `from` and `to` are strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_link(
    fs: *const uext4_fs,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    done(|| {
        // SAFETY: the caller passes an open image.
        let fs = &unsafe { handle(fs) }?.0;
        // SAFETY: the caller passes a string.
        let from = unsafe { bytes(from) }?;
        // SAFETY: the caller passes a string.
        let to = unsafe { bytes(to) }?;
        Ok(fs.hard_link(from, to)?)
    })
}

/// Makes the symbolic link `to`, which says `from`. Returns 0 or a negative errno.
///
/// # Safety
/// `fs` is an open image, and `from` and `to` are strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_symlink(
    fs: *const uext4_fs,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    done(|| {
        // SAFETY: the caller passes an open image.
        let fs = &unsafe { handle(fs) }?.0;
        // SAFETY: the caller passes a string.
        let from = unsafe { bytes(from) }?;
        // SAFETY: the caller passes a string.
        let to = unsafe { bytes(to) }?;
        Ok(fs.symlink(from, to)?)
    })
}
