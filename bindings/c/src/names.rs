//! Names: made, moved, removed.

use crate::argument::{buffer_mut, bytes, copy};
use crate::failure::{Failure, Result, border, done};
use crate::fs::{image, uext4_fs};
use rust_uext4::{FileKind, NewKind, RenameFlags};
use std::ffi::{c_char, c_int, c_void};

/// The permissions in a mode, without bits that name another kind than `kind`.
fn permissions(mode: u32, kind: u32) -> Result<u16> {
    let known = matches!(mode & !0o7777, 0) || mode & !0o7777 == kind;
    match known {
        true => Ok((mode & 0o7777) as u16),
        false => Err(Failure::argument(format!("mode {mode:#o} can't be"))),
    }
}

/// Makes a directory with permissions `mode`, as mkdir(2). Returns 0 or a negative errno: -EEXIST, -ENOENT, -ENOSPC, -EROFS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_mkdir(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    mode: u32,
) -> c_int {
    done(|| {
        // SAFETY: a string, as the header asks.
        let path = unsafe { bytes(path) }?;
        let mode = permissions(mode, libc::S_IFDIR)?;
        Ok(image(fs)?.mknod(path, mode, NewKind::Directory)?)
    })
}

/// Makes a directory and those above it that do not exist, with permissions 0755. Returns 0 or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_mkdir_all(fs: Option<&uext4_fs>, path: *const c_char) -> c_int {
    done(|| {
        // SAFETY: a string, as the header asks.
        let path = unsafe { bytes(path) }?;
        Ok(image(fs)?.create_dir_all(path)?)
    })
}

/// Makes an empty file, a device, a pipe or a socket, as mknod(2): `mode` has its kind (S_IFREG, S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK)
/// and its permissions; `major` and `minor` are those of a device. Returns 0 or a negative errno: -EEXIST, -ENOENT, -ENOSPC, -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_mknod(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    mode: u32,
    major: u32,
    minor: u32,
) -> c_int {
    done(|| {
        // SAFETY: a string, as the header asks.
        let path = unsafe { bytes(path) }?;
        let device = |kind| NewKind::Device { kind, major, minor };
        let kind = match mode & libc::S_IFMT {
            0 | libc::S_IFREG => NewKind::Regular,
            libc::S_IFCHR => device(FileKind::CharDevice),
            libc::S_IFBLK => device(FileKind::BlockDevice),
            libc::S_IFIFO => NewKind::Fifo,
            libc::S_IFSOCK => NewKind::Socket,
            _ => return Err(Failure::argument(format!("mode {mode:#o} can't be"))),
        };
        let mode = permissions(mode, mode & libc::S_IFMT)?;
        Ok(image(fs)?.mknod(path, mode, kind)?)
    })
}

/// Makes the symbolic link `path`, which holds `target`. Returns 0 or a negative errno: -EEXIST, -ENAMETOOLONG.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_symlink(
    fs: Option<&uext4_fs>,
    target: *const c_char,
    path: *const c_char,
) -> c_int {
    done(|| {
        // SAFETY: strings, as the header asks.
        let (target, path) = unsafe { (bytes(target)?, bytes(path)?) };
        Ok(image(fs)?.symlink(target, path)?)
    })
}

/// Copies what a symbolic link holds to `target`, without a 0 at its end, and returns its length; with a size of 0 the length alone.
/// Otherwise a negative errno: -EINVAL: no symbolic link, -ERANGE: `size` is too small.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_readlink(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    target: *mut c_char,
    size: usize,
) -> i64 {
    border(|| {
        // SAFETY: a string and a buffer, as the header asks.
        let (path, to) = unsafe { (bytes(path)?, buffer_mut(target.cast::<c_void>(), size)?) };
        copy(&image(fs)?.read_link(path)?, to)
    })
}

/// Gives the file `original` the name `path` too; a symbolic link is not followed. Returns 0 or a negative errno: -EEXIST, -EPERM: a
/// directory, -EMLINK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_link(
    fs: Option<&uext4_fs>,
    original: *const c_char,
    path: *const c_char,
) -> c_int {
    done(|| {
        // SAFETY: strings, as the header asks.
        let (original, path) = unsafe { (bytes(original)?, bytes(path)?) };
        Ok(image(fs)?.hard_link(original, path)?)
    })
}

/// Gives `from` the name `to`, as renameat2(2): `flags` are 0, RENAME_NOREPLACE, RENAME_EXCHANGE or RENAME_WHITEOUT. The name refers to
/// the old file or to the new one at any time, also after a crash. Returns 0 or a negative errno: -ENOENT, -ENOTEMPTY, -EEXIST, -EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_rename(
    fs: Option<&uext4_fs>,
    from: *const c_char,
    to: *const c_char,
    flags: u32,
) -> c_int {
    done(|| {
        // SAFETY: strings, as the header asks.
        let (from, to) = unsafe { (bytes(from)?, bytes(to)?) };
        let flags = RenameFlags::from_bits(flags);
        let flags = flags.ok_or_else(|| Failure::argument("flags of rename that can't be"))?;
        Ok(image(fs)?.rename_with(from, to, flags)?)
    })
}

/// Removes a name that is not a directory's. Returns 0 or a negative errno: -ENOENT, -EISDIR, -EPERM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_unlink(fs: Option<&uext4_fs>, path: *const c_char) -> c_int {
    done(|| {
        // SAFETY: a string, as the header asks.
        let path = unsafe { bytes(path) }?;
        Ok(image(fs)?.remove_file(path)?)
    })
}

/// Removes an empty directory. Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -ENOTEMPTY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_rmdir(fs: Option<&uext4_fs>, path: *const c_char) -> c_int {
    done(|| {
        // SAFETY: a string, as the header asks.
        let path = unsafe { bytes(path) }?;
        Ok(image(fs)?.remove_dir(path)?)
    })
}

/// Removes a directory with everything in it; symbolic links are not followed. Returns 0 or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_remove_all(fs: Option<&uext4_fs>, path: *const c_char) -> c_int {
    done(|| {
        // SAFETY: a string, as the header asks.
        let path = unsafe { bytes(path) }?;
        Ok(image(fs)?.remove_dir_all(path)?)
    })
}
