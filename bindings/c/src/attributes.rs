//! Attributes of files.

use crate::argument::{bytes, put};
use crate::failure::{Failure, Result, done};
use crate::fs::{image, uext4_fs};
use rust_uext4::unstable::SetAttr;
use rust_uext4::{FileKind, Metadata, TimeSet, Timestamp};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

/// A time since 1970.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct uext4_time {
    pub seconds: i64,
    /// 0 to 999999999, or UTIME_NOW where a time is set.
    pub nanoseconds: u32,
    /// 0.
    pub reserved: u32,
}

/// Attributes of a file.
#[repr(C)]
pub struct uext4_attr {
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Units of 512 bytes that are allocated.
    pub blocks: u64,
    pub accessed: uext4_time,
    pub modified: uext4_time,
    pub changed: uext4_time,
    pub created: uext4_time,
    /// Kind (S_IFMT) and permissions.
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    /// The major number of a device.
    pub major: u32,
    /// The minor number of a device.
    pub minor: u32,
    /// Flags of the inode (FS_IMMUTABLE_FL ...).
    pub flags: u32,
    /// Tells files apart that had the inode one after the other.
    pub generation: u32,
    /// 0.
    pub reserved: [u64; 4],
}

/// The bits of a mode that say what a file is.
pub fn kind_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => libc::S_IFREG,
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Symlink => libc::S_IFLNK,
        FileKind::CharDevice => libc::S_IFCHR,
        FileKind::BlockDevice => libc::S_IFBLK,
        FileKind::Fifo => libc::S_IFIFO,
        FileKind::Socket => libc::S_IFSOCK,
    }
}

fn time(of: Timestamp) -> uext4_time {
    uext4_time {
        seconds: of.sec,
        nanoseconds: of.nsec,
        reserved: 0,
    }
}

/// Attributes as C has them.
pub fn stat(of: &Metadata) -> uext4_attr {
    let (major, minor) = of.rdev();
    uext4_attr {
        ino: of.ino(),
        size: of.len(),
        blocks: of.blocks(),
        accessed: time(of.accessed()),
        modified: time(of.modified()),
        changed: time(of.changed()),
        created: time(of.created()),
        mode: kind_bits(of.file_kind()) | u32::from(of.permissions()),
        nlink: of.nlink(),
        uid: of.uid(),
        gid: of.gid(),
        major,
        minor,
        flags: of.flags().bits(),
        generation: of.generation(),
        reserved: [0; 4],
    }
}

/// Attributes of a file; a symbolic link is followed. Returns 0 or a negative errno: -ENOENT, -ENOTDIR, -ELOOP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_stat(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    to: Option<&mut MaybeUninit<uext4_attr>>,
) -> c_int {
    done(|| {
        // SAFETY: a string, as the header asks.
        let path = unsafe { bytes(path) }?;
        put(to, || Ok(stat(&image(fs)?.metadata(path)?)))
    })
}

/// As uext4_stat, of a symbolic link its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_lstat(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    to: Option<&mut MaybeUninit<uext4_attr>>,
) -> c_int {
    done(|| {
        // SAFETY: a string, as the header asks.
        let path = unsafe { bytes(path) }?;
        put(to, || Ok(stat(&image(fs)?.symlink_metadata(path)?)))
    })
}

/// Sets the permissions of a file; a symbolic link is followed. Returns 0 or a negative errno: -ENOENT, -EPERM, -EROFS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_chmod(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    mode: u32,
) -> c_int {
    done(|| {
        // SAFETY: a string, as the header asks.
        let path = unsafe { bytes(path) }?;
        Ok(image(fs)?.set_permissions(path, (mode & 0o7777) as u16)?)
    })
}

/// Sets the owner and the group of a file, each but UINT32_MAX; of a symbolic link its own. Returns 0 or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_lchown(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    uid: u32,
    gid: u32,
) -> c_int {
    done(|| {
        // SAFETY: a string, as the header asks.
        let path = unsafe { bytes(path) }?;
        let given = |id: u32| (id != u32::MAX).then_some(id);
        Ok(image(fs)?.chown(path, given(uid), given(gid))?)
    })
}

fn time_set(time: Option<&uext4_time>) -> Result<Option<TimeSet>> {
    let Some(time) = time else { return Ok(None) };
    match time.nanoseconds {
        now if i64::from(now) == libc::UTIME_NOW => Ok(Some(TimeSet::Now)),
        nsec @ 0..1_000_000_000 => {
            let sec = time.seconds;
            Ok(Some(TimeSet::At(Timestamp { sec, nsec })))
        }
        _ => Err(Failure::argument("nanoseconds that can't be")),
    }
}

/// Sets the times of last access and last change of a file, each but NULL; a symbolic link is followed. Returns 0 or a negative errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_utimens(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    accessed: Option<&uext4_time>,
    modified: Option<&uext4_time>,
) -> c_int {
    done(|| {
        // SAFETY: a string, as the header asks.
        let path = unsafe { bytes(path) }?;
        Ok(image(fs)?.set_times(path, time_set(accessed)?, time_set(modified)?)?)
    })
}

/// As uext4_utimens, of a symbolic link its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_lutimens(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    accessed: Option<&uext4_time>,
    modified: Option<&uext4_time>,
) -> c_int {
    done(|| {
        // SAFETY: a string, as the header asks.
        let path = unsafe { bytes(path) }?;
        let change = SetAttr {
            atime: time_set(accessed)?,
            mtime: time_set(modified)?,
            ..SetAttr::default()
        };
        Ok(image(fs)?.set_attr(path, &change)?)
    })
}

/// Sets the length of a file; a symbolic link is followed. Returns 0 or a negative errno: -ENOENT, -EISDIR, -EFBIG, -EROFS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_truncate(
    fs: Option<&uext4_fs>,
    path: *const c_char,
    length: u64,
) -> c_int {
    done(|| {
        // SAFETY: a string, as the header asks.
        let path = unsafe { bytes(path) }?;
        Ok(image(fs)?.truncate(path, length)?)
    })
}
