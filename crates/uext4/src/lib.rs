//! ext4 images in user space: made, checked, opened, read and written, from many threads at once.
//!
//! # Data model
//! [`mkfs()`] makes an image and [`check()`] verifies one. A [`Filesystem`] is an open image, used by
//! path as `std::fs` is; a [`File`] is an open file; a [`Dir`] is a directory that names are looked up
//! in, as the `*at` system calls do. Paths and names inside an image are bytes: see [`ImagePath`].
//!
//! ```
//! use std::sync::Arc;
//! use uext4::{Filesystem, ImageOptions, MemoryDevice, MkfsOptions, NoProgress, mkfs_on};
//!
//! let device = Arc::new(MemoryDevice::new(16 << 20));
//! mkfs_on(&*device, &MkfsOptions::new(), &NoProgress)?;
//! let fs = Filesystem::open_device(device, &ImageOptions::read_write())?;
//! fs.create_dir_all("/etc/conf.d")?;
//! fs.write("/etc/hostname", b"demo\n")?;
//! assert_eq!(fs.read("/etc/hostname")?, b"demo\n");
//! fs.unmount()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//! Operations on an image return [`Error`], an [`Errno`] of Linux with the operation and the cause; it becomes
//! a [`std::io::Error`] with `?`. Making and checking images have errors of their own, [`MkfsError`] and
//! [`CheckError`].
//!
//! # Locks
//! Every type is `Send + Sync` and needs no lock around it. Calls on different files run at the same
//! time, and so do calls on different names of a directory as far as the format allows. Calls block the
//! thread; none calls back into the program but those that take a progress or a device.
//!
//! # Crash
//! A change is durable once [`Filesystem::sync`], [`File::sync_all`] or [`Filesystem::unmount`] returns.
//! Recovery finds any other change of names and attributes as a whole or not at all.
//!
//! # Observability
//! Each operation on an image runs in a span `library` of `tracing` at level debug, with the fields `operation`, `inode` or
//! `path`, and `errno` if it fails. [`failures()`] returns how many operations failed, by error number.
//!
//! # Stability
//! The crate follows semantic versioning, without the feature `unstable`, which uext4's own programs use. The
//! crates that it is made of have no stable interface. It needs Rust 1.95; a later version is a minor release.
//!
//! Enumerations without `#[non_exhaustive]` are closed sets of Linux or of the format.
//!
//! | module | holds |
//! | --- | --- |
//! | [`filesystem`], [`image_options`] | an open image; how it is opened |
//! | [`edit`] | changes that are made together |
//! | [`frozen`] | an open image that stays as it is, to be copied |
//! | [`paths`], [`image_path`] | operations by path; paths |
//! | [`mod@file`], [`open_options`] | open files; how they are opened |
//! | [`dir`], [`read_dir`] | directories |
//! | [`metadata`], [`statfs`] | attributes of files; sizes of file systems |
//! | [`mod@mkfs`], [`mkfs_options`], [`mkfs_sources`], [`check_options`], [`replace`] | making and checking images in files |
//! | `operation` | the span of an operation, and the count of failures |
//! | `archive` | trees as archives and layers, and what differs between two |
//! | [`session`], [`mount`] | a mount on behalf of a caller; which images are open, and how |
//! | `unstable` | what the feature adds |
#![forbid(unsafe_code)]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "the table is for readers of the source"
)]

mod archive;
mod check_options;
mod digest;
mod dir;
mod edit;
mod file;
mod filesystem;
mod frozen;
mod image_options;
mod image_path;
#[cfg(feature = "unstable")]
mod line;
mod metadata;
mod mkfs;
mod mkfs_options;
mod mkfs_sources;
mod mount;
mod open_options;
mod operation;
mod paths;
mod quota;
#[cfg(feature = "unstable")]
mod raw_key;
mod read_dir;
#[cfg(feature = "unstable")]
mod repair;
mod replace;
#[cfg(feature = "unstable")]
mod reporter;
mod session;
mod statfs;
#[cfg(feature = "unstable")]
pub mod unstable;

pub use archive::{
    Change, ChangeKind, Compression, Difference, ExportError, ExportOptions, ExportReport,
};
pub use check_options::CheckOptions;
pub use dir::Dir;
pub use edit::Edit;
pub use file::File;
pub use filesystem::Filesystem;
pub use frozen::Frozen;
pub use image_options::ImageOptions;
pub use image_path::ImagePath;
pub use metadata::Metadata;
pub use mkfs::{check, check_on, mkfs, mkfs_on};
pub use mkfs_options::{ImageFormat, MkfsOptions};
pub use mkfs_sources::feature_names;
pub use open_options::OpenOptions;
pub use operation::failures;
pub use quota::{OwnerQuota, QuotaUsage, Quotas};
pub use read_dir::{DirEntry, ReadDir};
pub use statfs::StatFs;

pub use uext4_block::partitions::Partition;
pub use uext4_block::{
    BlockDevice, BlockError, BlockOp, DeviceId, FileDevice, ImageFiles, ImageName, IoEngine,
    MemoryDevice, OpenOptions as DeviceOptions, Origin, OverlayDevice, Qcow2Device, RangeDevice,
    open_image,
};
pub use uext4_build::{
    FsVerityFile, MkfsError, MkfsReport, NoProgress, Progress, SourceFile, SourceKind, TreeSource,
    VerityReport,
};
pub use uext4_check::{
    CheckError, CheckReport, Fault, FaultKind, Level as FaultLevel, NoProgress as NoCheckProgress,
    Progress as CheckProgress,
};
pub use uext4_ext4::{
    AtimeUpdate, DataMode, EnforcedQuotas, Fragments, FsVerityReads, QuotaLimits,
};
pub use uext4_ondisk::{
    BlockHash, ErrorsBehaviour, FsVerity, FsVerityDescriptor, GroupNo, HashAlgorithm, Ino,
    InodeFlags, Pblk, QuotaKind,
};
pub use uext4_vfs::{
    Access, Caller, Capabilities, Errno, Error, Fallocate, FiemapExtent, FiemapFlags, FiemapOf,
    FileHandle, FileKind, IoFlags, NewKind, RenameFlags, Result, TimeSet, Timestamp, Written,
    XattrFlags,
};

/// The example of the README compiles.
#[cfg(all(doctest, feature = "unstable"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// So do those of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../cli/topics/embedding.md")]
struct Guide;

#[cfg(test)]
mod tests;
