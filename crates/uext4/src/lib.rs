//! ext4 images in user space: made, checked, opened, read and written, from many threads at once.
//!
//! # Data model
//! [`mkfs()`] makes an image and [`check()`] verifies one. A [`Filesystem`] is an open image, used by
//! path as `std::fs` is; a [`File`] is an open file; a [`Dir`] is a directory that names are looked up
//! in, as the `*at` system calls do. [`Filesystem::inode`] gives the level below, where front ends live.
//!
//! ```
//! use std::sync::Arc;
//! use uext4::{Filesystem, MemoryDevice, MkfsOptions, NoProgress, OpenOptions, mkfs_on};
//!
//! let device = Arc::new(MemoryDevice::new(16 << 20));
//! mkfs_on(&*device, &MkfsOptions::default(), &NoProgress)?;
//! let fs = Filesystem::open_device(device, &OpenOptions::read_write())?;
//! fs.create_dir_all("/etc/conf.d")?;
//! fs.write("/etc/hostname", b"demo\n")?;
//! assert_eq!(fs.read("/etc/hostname")?, b"demo\n");
//! fs.unmount()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Locking
//! Everything is `Send + Sync` and needs no lock around it; calls on different files run at the same
//! time, and so do calls on different names of a directory as far as the format allows.
//!
//! # Crash
//! A change is durable once [`Filesystem::sync`], [`File::sync_all`] or [`Filesystem::unmount`] returns;
//! what was not is, after recovery, as a whole there or not there.
//!
//! | module | holds |
//! | --- | --- |
//! | [`filesystem`], [`options`] | opening an image |
//! | [`mount`] | which images are open, and how |
//! | [`paths`] | operations by path |
//! | [`mod@file`], [`file_options`] | open files |
//! | [`dir`], [`read_dir`] | directories |
//! | [`image`], [`replace`] | making and checking images in files |
#![forbid(unsafe_code)]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the table is for readers of the source"
)]

mod dir;
mod file;
mod file_options;
mod filesystem;
mod image;
mod mount;
mod options;
mod paths;
mod read_dir;
mod replace;

pub use dir::Dir;
pub use file::File;
pub use file_options::FileOptions;
pub use filesystem::Filesystem;
pub use image::{check, check_on, feature_names, mkfs, mkfs_on};
pub use options::OpenOptions;
pub use read_dir::{Entry, ReadDir};

pub use uext4_block::{
    BlockDevice, BlockError, FileDevice, IoEngine, LatencyDevice, MemoryDevice,
    OpenOptions as DeviceOptions, OverlayDevice,
};
pub use uext4_build::{FeatureSet, MkfsError, MkfsOptions, MkfsReport, NoProgress, Progress};
pub use uext4_check::{
    CheckError, CheckOptions, CheckReport, Fault, FaultKind, Level as FaultLevel,
    NoProgress as NoCheckProgress, Progress as CheckProgress,
};
pub use uext4_ext4::{
    AtimeUpdate, DataMode, Ext4, Ext4Error, GenerationArm, IallocArm, InodeRef, MountOptions,
    read_superblock,
};
/// POSIX message queues and their namespaces.
pub use uext4_mqueue as mqueue;
/// The structures of the format, as they are on disk and decoded.
pub use uext4_ondisk as ondisk;
/// Statistics of every lock, as `--lock-stat` prints them.
pub use uext4_sync::{probe as stage_stat, stat as lock_stat};
pub use uext4_vfs::{
    Attr, Caller, Capabilities, DioLock, Errno, Error, Fallocate, FiemapExtent, FiemapFlags,
    FiemapOf, FileHandle, FileKind, FileSystem, IcacheArm, IoFlags, NewKind, NewNode, RenameFlags,
    Result, SetAttr, StatFs, SuperArm, TimeSet, Timestamp, Written, XattrFlags,
};

const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<Filesystem>();
    shared_between_threads::<File>();
    shared_between_threads::<Dir>();
    shared_between_threads::<ReadDir>();
    shared_between_threads::<OverlayDevice>();
};

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(test)]
mod tests;
