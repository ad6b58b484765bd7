//! Images made.

use crate::argument::host_path;
use crate::failure::{Result, done};
use crate::settings::{Setting, settings};
use rust_uext4::{ImageFormat, MkfsOptions, NoProgress};
use std::ffi::{c_char, c_int};

/// Makes an image of `size` bytes in the file or block device `path` of the host; with a size of 0 it is as large as its files need,
/// or as what is there.
///
/// `options` is NULL or strings "name=value", of which the last is NULL:
///
///     from=DIR            a directory of the host whose files are copied, or an archive; may be given several times
///     features=LIST       as mke2fs -O: "64bit,^has_journal"
///     block_size=BYTES    cluster_size=BYTES    inode_size=BYTES    journal_size=BYTES
///     inodes=COUNT        inode_ratio=BYTES     reserved_percent=PERCENT
///     label=TEXT          uuid=UUID             time=SECONDS, of every time stamp
///     limit=BYTES         the most that an image without a size may need
///     owner=UID:GID       of the root directory
///     exclude=PATTERN     fsverity=PATTERN      of files; may be given several times
///     manifest=FILE       platform=NAME         threads=COUNT
///     format=raw|qcow2    partition=NUMBER
///
/// Returns 0, -EINVAL: options that can't be, -ENOSPC: too small for its files, -EBUSY: in use, or another errno of the host. A file
/// that held data is replaced once the new image is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uext4_mkfs(
    path: *const c_char,
    size: u64,
    options: *const *const c_char,
) -> c_int {
    done(|| {
        // SAFETY: a string and a list, as the header asks.
        let (path, settings) = unsafe { (host_path(path)?, settings(options)?) };
        let mut options = MkfsOptions::new();
        if size > 0 {
            options = options.size(size);
        }
        for setting in settings {
            options = set(options, setting)?;
        }
        rust_uext4::mkfs(path, &options, &NoProgress)?;
        Ok(())
    })
}

fn set(options: MkfsOptions, to: Setting<'_>) -> Result<MkfsOptions> {
    Ok(match to.name {
        "from" => options.from_named(to.path()),
        "features" => options.features(to.text()?)?,
        "block_size" => options.block_size(to.number()?),
        "cluster_size" => options.cluster_size(to.number()?),
        "inode_size" => options.inode_size(to.number()?),
        "journal_size" => options.journal_size(to.number()?),
        "inodes" => options.inodes(to.number()?),
        "inode_ratio" => options.inode_ratio(to.number()?),
        "reserved_percent" => options.reserved_percent(to.number()?),
        "label" => options.label(to.text()?),
        "uuid" => {
            let uuid = uuid::Uuid::parse_str(to.text()?).map_err(|_| to.wrong())?;
            options.uuid(uuid.into_bytes())
        }
        "time" => options.time(to.number()?),
        "limit" => options.limit(to.number()?),
        "owner" => {
            let (uid, gid) = to.pair()?;
            options.owner(uid, gid)
        }
        "exclude" => options.exclude(to.text()?),
        "fsverity" => options.fsverity(to.text()?),
        "manifest" => options.manifest(to.path()),
        "platform" => options.platform(to.text()?),
        "threads" => options.threads(to.number()?),
        "format" => options.format(match to.text()? {
            "raw" => ImageFormat::Raw,
            "qcow2" => ImageFormat::Qcow2,
            _ => return Err(to.wrong()),
        }),
        "partition" => options.partition(to.text()?),
        _ => return Err(to.unknown()),
    })
}
