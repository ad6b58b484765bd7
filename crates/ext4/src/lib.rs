//! ext4: the file system over the journal, for many threads at once.
//!
//! # Data model
//! [`Ext4`] is a mounted file system, composed of parts that own what they guard; [`InodeRef`] is a counted reference to
//! an inode in it. On disk are the structures of `uext4_ondisk`; in memory a group keeps its bitmaps as atomic words
//! and an inode its decoded form. Everything else is buffers, changed through journal handles only.
//!
//! # Invariants
//! A handle's changes become durable together. What a transaction changed is completed (native state encoded, checksums
//! computed) once, when the journal copies it (`volume::freeze_hook`).
//!
//! # Locking
//! See `docs/LOCKING.md`: directory `ilock`, other `ilock`, handle, `xattr`, `map`, orphan list, buffers, group.
//!
//! | module | holds |
//! | --- | --- |
//! | `fs` | [`Ext4`], composed of its parts |
//! | `mount` | mounting, recovery, syncing, remounting, unmounting |
//! | `vfs_impl` | the adapter to `vfs` |
//! | `namei` | names: create, link, unlink, rename |
//! | `file` | data, also direct and journaled; flags, fallocate, generations |
//! | `deletion` | the end of an inode |
//! | `directory` | entries: linear, hashed, inline |
//! | `encryption` | keys of encrypted inodes, ciphers |
//! | `attributes` | extended attributes, access control lists, permission |
//! | `orphans` | inodes to delete or truncate after a crash |
//! | `inodes` | inodes, found and made |
//! | `inline` | data in the inode itself |
//! | `mapping` | where the blocks of files are: extents and block maps |
//! | `inode_table`, `inode` | inodes in memory and in their table; lazy timestamps |
//! | `inode_allocator`, [`generation`] | inode numbers and generations |
//! | `block_allocator` | blocks |
//! | `volume` | superblock, groups, buffer cache, journal, errors |
//! | `quota`, `owners` | what owners have and may have; entries of new owners, limits, reports |
//! | `mmp` | holding a file system against other hosts |
//! | `backup_superblock` | reading an image whose superblock is damaged |
//! | `group`, [`bitmap`] | a block group in memory, completed for the journal |
//! | `options`, `error`, `errno` | mount options; errors, and the errno of each |
#![forbid(unsafe_code)]

mod attributes;
mod backup_superblock;
mod block_allocator;
mod clock;
mod deletion;
mod directory;
mod encryption;
mod errno;
mod error;
mod file;
#[cfg(all(test, not(shuttle), not(loom)))]
mod fixture;
mod fs;
pub mod generation;
mod group;
mod inline;
mod inode;
mod inode_allocator;
mod inode_table;
mod inodes;
mod kinds;
mod mapping;
mod mmp;
mod mount;
mod namei;
mod options;
mod orphans;
mod owners;
mod prelude;
mod quota;
mod run;
mod superblock;
mod vfs_impl;
mod volume;

pub use attributes::Attributes;
pub use backup_superblock::BackupSuperblock;
pub use block_allocator::BlockAllocator;
pub use deletion::Deletion;
pub use directory::Directory;
pub use encryption::{KeyRing, MASTER_KEY_BYTES};
pub use error::{Ext4Error, Result};
pub use file::{FileIo, Fragments};
pub use fs::Ext4;
pub use generation::GenerationVariant;
pub use group::bitmap;
pub use inode::Inode;
pub use inode::reference::InodeRef;
pub use inode_allocator::InodeAllocator;
pub use inode_table::InodeTable;
pub use inodes::Inodes;
pub use mapping::Mapping;
pub use mmp::{MmpHold, MmpHolder};
pub use namei::Namei;
pub use options::balloc_variant::BallocVariant;
pub use options::dir_lock_variant::DirLockVariant;
pub use options::ialloc_variant::IallocVariant;
pub use options::{AtimeUpdate, DataMode, EnforcedQuotas, Exclusion, FsVerityReads, MountOptions};
pub use orphans::OrphanList;
pub use owners::{Owners, QuotaReport, QuotaSettings};
pub use quota::dquot::Limits as QuotaLimits;
pub use run::{Run, RunLookup};
pub use superblock::{read_superblock, read_superblock_to_recover};
pub use uext4_sync::Durations;
pub use volume::Volume;
