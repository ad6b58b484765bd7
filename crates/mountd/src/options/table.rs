//! Options that are accepted without effect, and options that are refused, each with the reason.

/// Whether an option has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `name`.
    Plain,
    /// `name=value`.
    Valued,
    /// Either.
    Both,
}

/// Why an option is accepted and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harmless {
    /// It is for mount(8) or for readers of fstab.
    ForMount,
    /// It requests what uext4 always does.
    Always,
    /// It tunes a mechanism that uext4 implements differently; files and the state after a crash do not depend on it.
    Tuning,
}

use Harmless::{Always, ForMount, Tuning};
use Shape::{Both, Plain, Valued};

/// The options without effect.
pub const HARMLESS: &[(&str, Shape, Harmless)] = &[
    ("defaults", Plain, ForMount),
    ("auto", Plain, ForMount),
    ("noauto", Plain, ForMount),
    ("user", Both, ForMount),
    ("users", Plain, ForMount),
    ("nouser", Plain, ForMount),
    ("owner", Plain, ForMount),
    ("noowner", Plain, ForMount),
    ("group", Plain, ForMount),
    ("nogroup", Plain, ForMount),
    ("nofail", Plain, ForMount),
    ("_netdev", Plain, ForMount),
    ("comment", Valued, ForMount),
    ("subtype", Valued, ForMount),
    ("helper", Valued, ForMount),
    ("uhelper", Valued, ForMount),
    ("nonempty", Plain, ForMount),
    // Options that lists of FUSE mounts show and mount(8) passes on remount.
    ("user_id", Valued, ForMount),
    ("group_id", Valued, ForMount),
    ("rootmode", Valued, ForMount),
    ("max_read", Valued, ForMount),
    ("blksize", Valued, ForMount),
    // An image file needs no loop device to be mounted.
    ("loop", Both, ForMount),
    ("silent", Plain, ForMount),
    ("loud", Plain, ForMount),
    // The kernel always checks permissions.
    ("default_permissions", Plain, Always),
    // If the server dies, the mount is unmounted.
    ("auto_unmount", Plain, Always),
    ("nomand", Plain, Always),
    ("symfollow", Plain, Always),
    ("user_xattr", Plain, Always),
    ("acl", Plain, Always),
    ("bsddf", Plain, Always),
    ("nogrpid", Plain, Always),
    ("sysvgroups", Plain, Always),
    ("load", Plain, Always),
    ("norelatime", Plain, Always),
    // Metadata is checked whenever it is read.
    ("block_validity", Plain, Always),
    ("noblock_validity", Plain, Always),
    ("iversion", Plain, Always),
    ("i_version", Plain, Always),
    ("noiversion", Plain, Always),
    // Blocks are allocated when they are written; there is no delayed allocation.
    ("delalloc", Plain, Tuning),
    ("nodelalloc", Plain, Tuning),
    ("auto_da_alloc", Both, Tuning),
    ("noauto_da_alloc", Plain, Tuning),
    ("inode_readahead_blks", Valued, Tuning),
    ("stripe", Valued, Tuning),
    ("max_batch_time", Valued, Tuning),
    ("min_batch_time", Valued, Tuning),
    ("journal_ioprio", Valued, Tuning),
    // Recovery always checks existing checksums.
    ("journal_checksum", Plain, Tuning),
    ("nojournal_checksum", Plain, Tuning),
    ("journal_async_commit", Plain, Tuning),
    // Inode tables are zeroed when an inode in them is first used.
    ("init_itable", Both, Tuning),
    ("noinit_itable", Plain, Tuning),
    ("mb_optimize_scan", Valued, Tuning),
    ("prefetch_block_bitmaps", Plain, Tuning),
    ("no_prefetch_block_bitmaps", Plain, Tuning),
    ("mbcache", Plain, Tuning),
    ("nombcache", Plain, Tuning),
    ("no_mbcache", Plain, Tuning),
    // Mounting prints no messages that it could extend.
    ("debug", Plain, Tuning),
    // An option of ext2 and ext3: bitmaps are always checked when they are read.
    ("nocheck", Plain, Tuning),
    ("check", Valued, Tuning),
    ("orlov", Plain, Tuning),
    ("oldalloc", Plain, Tuning),
    ("bh", Plain, Tuning),
    ("nobh", Plain, Tuning),
    ("reservation", Plain, Tuning),
    ("noreservation", Plain, Tuning),
    // A failed write is reported to the writer before a commit.
    ("data_err", Valued, Tuning),
    ("warn_on_error", Plain, Tuning),
    ("nowarn_on_error", Plain, Tuning),
    ("inlinecrypt", Plain, Tuning),
];

/// The options that are refused because their effect is missing, and the reasons.
pub const REFUSED: &[(&str, &str)] = &[
    (
        "nouser_xattr",
        "extended attributes of users are always there; leave it out",
    ),
    (
        "noacl",
        "access control lists in an image are always honoured; leave it out",
    ),
    (
        "minixdf",
        "statfs leaves out what the file system itself needs; leave it out",
    ),
    (
        "grpid",
        "a new file gets its maker's group; set the set-group-id bit of a directory instead",
    ),
    (
        "bsdgroups",
        "a new file gets its maker's group; set the set-group-id bit of a directory instead",
    ),
    (
        "resuid",
        "the superblock names the user of reserved blocks; tune2fs -u changes it",
    ),
    (
        "resgid",
        "the superblock names the group of reserved blocks; tune2fs -g changes it",
    ),
    (
        "journal_dev",
        "device numbers are not looked up; give journal=DEVICE",
    ),
    (
        "usrjquota",
        "quotas are kept in files of the file system's own; give usrquota",
    ),
    (
        "grpjquota",
        "quotas are kept in files of the file system's own; give grpquota",
    ),
    (
        "jqfmt",
        "quotas are kept in files of the file system's own; leave it out",
    ),
    (
        "dax",
        "there is no mapping of the device; leave it out, or give dax=never",
    ),
    ("nouid32", "owners have 32 bits always; leave it out"),
    (
        "test_dummy_encryption",
        "files are not encrypted here, only read with --encryption-key; leave it out",
    ),
    (
        "context",
        "labels of files are those of the image; leave it out",
    ),
    (
        "fscontext",
        "labels of files are those of the image; leave it out",
    ),
    (
        "defcontext",
        "labels of files are those of the image; leave it out",
    ),
    (
        "rootcontext",
        "labels of files are those of the image; leave it out",
    ),
    (
        "max_dir_size_kb",
        "the size of directories has no limit; leave it out",
    ),
    (
        "abort",
        "it is for a mount that exists; uext4 umount ends one",
    ),
    (
        "allow_root",
        "the kernel knows no such thing; give allow_other, permissions are checked",
    ),
    ("mand", "Linux has removed mandatory locks; leave it out"),
    (
        "nosymfollow",
        "symbolic links are always followed; leave it out",
    ),
    ("bind", "that is for mount(8) itself; use mount --bind"),
    ("rbind", "that is for mount(8) itself; use mount --rbind"),
    ("move", "that is for mount(8) itself; use mount --move"),
];
