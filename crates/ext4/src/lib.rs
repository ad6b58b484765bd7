//! ext4: the file system over the journal, for many threads at once.
//!
//! # Data model
//! [`Ext4`] is a mounted file system; [`InodeRef`] a counted reference to an inode in it. On disk
//! are the structures of `uext4_ondisk`; in memory a group keeps its bitmaps as atomic words
//! ([`group`]) and an inode its decoded form ([`inode`]). Everything else is buffers, changed through
//! journal handles only.
//!
//! # Invariants
//! A handle's changes become durable together. What a transaction changed is completed (native state
//! encoded, checksums computed) once, when the journal copies it ([`freeze`]).
//!
//! # Locking
//! See `docs/LOCKING.md`: directory `ilock`, other `ilock`, handle, `xattr`, `map`, orphan list,
//! buffers, group.
//!
//! | module | holds |
//! | --- | --- |
//! | [`fs`], [`options`] | mounting, syncing, unmounting |
//! | [`group`], [`bitmap`], [`ialloc`], [`balloc`] | groups and the allocators |
//! | [`flags`] | what chattr(1) sets |
//! | [`generation`], [`version`] | stamps of inodes: drawn; read, set, and changed with the boot loader |
//! | `lazytime` | timestamps that wait in memory |
//! | `load` | inodes as they are in their table |
//! | `host_space` | space on the host, for metadata of sparse images |
//! | `handles` | how operations start and end their journal handles |
//! | [`inode`], [`create`], [`orphan`] | inodes: in memory, made, taken away, on record |
//! | [`mapping`], [`extents`], `blockmap`, `fixed` | block mapping, of two kinds; blocks of no file |
//! | [`mod@file`], [`dio`] | data, also direct |
//! | `inline` | data in the inode itself |
//! | [`fallocate`], [`seek`] | ranges that get or lose blocks; where data is |
//! | `external_journal` | a journal on a device of its own |
//! | `fast_commit` | what other systems' fast commits say, replayed |
//! | `flush_debt` | data that the device may still cache |
//! | [`dir`], [`namei`], [`rename`] | directories and names |
//! | [`xattr`], [`access`], `acl` | attributes and permission; access control lists |
//! | `remount` | options that change while it is in use |
//! | [`freeze`], [`kinds`] | completing blocks for the journal |
//! | [`vfs_impl`] | the adapter to `vfs` |
//! | `errors`, `errno` | the boundary at which an error becomes an errno, and `errors=` is honoured |
#![forbid(unsafe_code)]

pub mod access;
mod acl;
pub mod balloc;
pub mod bitmap;
mod blockmap;
pub mod create;
pub mod dio;
pub mod dir;
mod errno;
pub mod error;
mod errors;
pub mod extents;
mod external_journal;
pub mod fallocate;
mod fast_commit;
pub mod fiemap;
pub mod file;
mod fixed;
pub mod flags;
mod flush_debt;
pub mod freeze;
pub mod fs;
pub mod generation;
pub mod group;
mod handles;
mod host_space;
pub mod ialloc;
mod inline;
pub mod inode;
mod journaled_data;
pub mod kinds;
mod lazytime;
mod load;
pub mod mapping;
mod move_range;
pub mod namei;
pub mod options;
pub mod orphan;
mod remount;
pub mod rename;
pub mod seek;
mod trim;
pub mod version;
pub mod vfs_impl;
pub mod xattr;

pub use error::{Ext4Error, Result};
pub use fs::{Ext4, read_superblock};
pub use generation::GenerationArm;
pub use ialloc::IallocArm;
pub use inode::{Inode, InodeRef};
pub use options::{AtimeUpdate, DataMode, MountOptions};
