//! What every file system shares: the trait it gives, and the caches, locks and rules above it.
//!
//! # Data model
//! A file system type has a [`registry::Registry`] of live superblocks; a superblock has an
//! [`icache::InodeCache`]; an inode has an [`ilock::ILock`]. Front ends see a
//! [`filesystem::FileSystem`] and its nodes, find nodes by path with [`walk`], and keep an
//! [`open_file::OpenFile`] for each open(2). Nothing here knows a disk.
//!
//! # References
//! A `SuperRef` keeps a superblock alive; an open file keeps the file system and its node; a node
//! keeps its inode in memory. They are dropped in the opposite order: open file, node, superblock.
//!
//! # Locking
//! Outermost first: `s_umount`, `rename`, `dir_ilock`, `ilock` (see `docs/LOCKING.md`), then what the
//! file system takes itself. `registry`, `icache` and `open_files` are leaves: no callback, no load and
//! no wait happens under them. Superblocks and inodes under construction are published as *new*,
//! filled with no lock held, and then made available.
//!
//! | module | holds |
//! | --- | --- |
//! | [`errno`] | error numbers and the error type |
//! | [`mod@variants`] | names of variants |
//! | [`attr`], [`caller`] | attributes and credentials |
//! | [`filesystem`], [`io`] | the trait that a file system gives; how it reads and writes |
//! | [`registry`] | live superblocks of a type (`mqueue-super=`) |
//! | [`icache`] | inodes in memory (`icache=`) |
//! | [`mod@ilock`] | the inode lock, the order of two, and ranges of a file (`dio-lock=`) |
//! | [`permission`] | permission checks |
//! | [`walk`] | paths |
//! | [`open_file`] | open files |
//! | `span`, `failures` | spans around operations; failures by error number |
#![forbid(unsafe_code)]

#[macro_use]
pub mod variants;
pub mod attr;
pub mod caller;
pub mod errno;
mod failures;
pub mod fiemap;
pub mod filesystem;
pub mod icache;
pub mod ilock;
pub mod io;
#[cfg(all(test, not(shuttle)))]
mod memory_fs;
pub mod open_file;
pub mod permission;
pub mod registry;
mod span;
pub mod walk;

pub use attr::{
    Attr, DirEntry, FileHandle, FileKind, NewKind, NewNode, RenameFlags, SetAttr, StatFs, TimeSet,
    Timestamp, XattrFlags,
};
pub use caller::{Caller, Capabilities};
pub use errno::{Errno, Error, Result};
pub use failures::Failures;
pub use fiemap::{FiemapExtent, FiemapFlags, FiemapOf};
pub use filesystem::{FileSystem, NAME_BYTES_MAX, PATH_BYTES_MAX};
pub use icache::{CachedInode, IcacheVariant, InodeCache};
pub use ilock::{
    DioLock, ILock, ILockGuard, LockMode, ilock, ilock_range, try_ilock, try_ilock_range,
};
pub use io::{Fallocate, IoFlags, Written};
pub use open_file::{OpenFile, OpenFlags};
pub use permission::Access;
pub use registry::{OtherMode, Registry, SuperKey, SuperRef, SuperVariant, Superblock};
pub use span::in_span;
pub use uext4_sync::{RangeGuard, RangeLock};
pub use walk::{Parent, WalkFlags, resolve, resolve_parent};
