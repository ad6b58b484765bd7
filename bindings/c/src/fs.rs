//! Open images.

use crate::argument::{give, host_path, put, there};
use crate::failure::{Failure, Result, done};
use crate::settings::{Setting, settings};
use rust_uext4::{Caller, DataMode, Filesystem, ImageOptions};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::time::Duration;

/// An open image.
pub struct uext4_fs(Filesystem);

/// How an image is opened.
#[repr(C)]
#[allow(non_camel_case_types, reason = "names of C")]
pub enum uext4_open_flags {
    /// To be read only; the image is not written, even if its journal needs recovery.
    #[expect(dead_code, reason = "no bit is set")]
    UEXT4_OPEN_READ_ONLY = 0,
    /// To be read and written.
    UEXT4_OPEN_READ_WRITE = 1,
    /// Other programs are not kept out.
    UEXT4_OPEN_SHARED = 2,
    /// Past the cache of the host (O_DIRECT).
    UEXT4_OPEN_DIRECT = 4,
    /// The journal is not recovered; read-only.
    UEXT4_OPEN_NO_RECOVERY = 8,
    /// Freed blocks are discarded.
    UEXT4_OPEN_DISCARD = 16,
    /// Time stamps are written with other changes of a file.
    UEXT4_OPEN_LAZYTIME = 32,
}

/// Sizes and free space.
#[repr(C)]
pub struct uext4_space {
    /// Blocks that can hold data.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Free blocks that users other than the superuser can have.
    pub blocks_available: u64,
    pub inodes: u64,
    pub inodes_free: u64,
    /// Identity of the file system.
    pub fsid: u64,
    /// Bytes of a block.
    pub block_size: u32,
    /// The longest name, in bytes.
    pub name_max: u32,
    /// 1 if writes are refused.
    pub read_only: u32,
    /// 0.
    pub reserved: [u32; 5],
}

/// The image of a handle.
pub fn image(fs: Option<&uext4_fs>) -> Result<&Filesystem> {
    Ok(&there(fs)?.0)
}

/// Opens the image `path` of the host. `flags` are of enum uext4_open_flags; `options` is NULL or strings "name=value", of which the
/// last is NULL:
///
///     journal=PATH           the file or block device of a journal outside of the image
///     data=ordered|journal|writeback
///     commit_interval=MILLISECONDS
///     cache_bytes=BYTES
///     caller=UID:GID         the user that calls act for, instead of the superuser
///
/// Returns 0, or -EBUSY: another program has it open, -EUCLEAN: damage, -EINVAL: no ext4, or flags or options that can't be, -EROFS,
/// or another errno of the host; `*fs` is NULL then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_open(
    path: *const c_char,
    flags: u32,
    options: *const *const c_char,
    fs: Option<&mut MaybeUninit<Option<Box<uext4_fs>>>>,
) -> c_int {
    done(|| {
        give(fs, || {
            // SAFETY: a string and a list, as the header asks.
            let (path, settings) = unsafe { (host_path(path)?, settings(options)?) };
            let mut options = flagged(flags)?;
            for setting in settings {
                options = set(options, setting)?;
            }
            Ok(uext4_fs(Filesystem::open(path, &options)?))
        })
    })
}

fn flagged(flags: u32) -> Result<ImageOptions> {
    use uext4_open_flags::*;
    let mut left = flags;
    let mut take = |flag: uext4_open_flags| {
        let flag = flag as u32;
        let found = left & flag != 0;
        left &= !flag;
        found
    };
    let options = match take(UEXT4_OPEN_READ_WRITE) {
        true => ImageOptions::read_write(),
        false => ImageOptions::read_only(),
    };
    let options = options
        .exclusive(!take(UEXT4_OPEN_SHARED))
        .direct(take(UEXT4_OPEN_DIRECT))
        .skip_recovery(take(UEXT4_OPEN_NO_RECOVERY))
        .discard(take(UEXT4_OPEN_DISCARD))
        .lazytime(take(UEXT4_OPEN_LAZYTIME));
    match left {
        0 => Ok(options),
        unknown => Err(Failure::argument(format!("flags {unknown:#x} can't be"))),
    }
}

fn set(options: ImageOptions, to: Setting<'_>) -> Result<ImageOptions> {
    Ok(match to.name {
        "journal" => options.journal(to.path()),
        "data" => options.data(match to.text()? {
            "ordered" => DataMode::Ordered,
            "journal" => DataMode::Journal,
            "writeback" => DataMode::Writeback,
            _ => return Err(to.wrong()),
        }),
        "commit_interval" => options.commit_interval(Duration::from_millis(to.number()?)),
        "cache_bytes" => options.cache_bytes(to.number()?),
        "caller" => {
            let (uid, gid) = to.pair()?;
            options.caller(Caller::user(uid, gid))
        }
        _ => return Err(to.unknown()),
    })
}

/// Makes all changes durable and closes the image. No other thread may use the handle any more, and it is gone even if the call fails;
/// files and directories that are still open can only be closed. Returns 0 or -EIO.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_close(fs: Option<Box<uext4_fs>>) -> c_int {
    done(|| Ok(there(fs)?.0.unmount()?))
}

/// Makes all changes durable. Returns 0 or -EIO.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_sync(fs: Option<&uext4_fs>) -> c_int {
    done(|| Ok(image(fs)?.sync()?))
}

/// Sizes and free space, as statvfs(3). Returns 0 or a negative errno.
#[unsafe(no_mangle)]
pub extern "C" fn uext4_statfs(
    fs: Option<&uext4_fs>,
    space: Option<&mut MaybeUninit<uext4_space>>,
) -> c_int {
    done(|| {
        put(space, || {
            let of = image(fs)?.statfs()?;
            Ok(uext4_space {
                blocks: of.blocks,
                blocks_free: of.blocks_free,
                blocks_available: of.blocks_available,
                inodes: of.inodes,
                inodes_free: of.inodes_free,
                fsid: of.fsid,
                block_size: of.block_size,
                name_max: of.name_bytes_max,
                read_only: of.read_only.into(),
                reserved: [0; 5],
            })
        })
    })
}
