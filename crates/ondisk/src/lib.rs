//! ext4 and jbd2 on disk: bytes to values and back, checksums and name hashes.
//!
//! # Data model
//! One file per structure, named after it. A `Raw*` type or a slice is disk bytes; the decoded type
//! next to it holds plain values. Views (`ExtentNode`, `DxView`, ...) read and change bytes in place.
//! Everything takes slices and gives values; only extended attributes and error details allocate.
//!
//! # Invariants
//! Parsing never panics, whatever the bytes: a check that fails gives a [`Corrupt`] with the one
//! [`CorruptKind`] of that check, or a [`FormatError`] for a superblock. There is no I/O and no lock.
//!
//! | module | holds |
//! | --- | --- |
//! | [`types`] | block, inode, group and transaction numbers |
//! | [`corrupt`] | errors |
//! | [`checksum`] | crc32c as ext4 chains it, crc16, seeds |
//! | [`features`] | feature bits and their mke2fs names |
//! | [`superblock`], [`geometry`] | superblock, and what follows from it |
//! | [`group_desc`] | group descriptors, bitmap checksums |
//! | [`inode`], [`inode_flags`], [`file_type`], [`timestamp`] | inodes |
//! | [`extent`], [`extent_node`], [`block_map`] | extents and the nodes of their tree; pointers to blocks, where there are no extents |
//! | [`fast_commit`] | fast commits |
//! | [`dirent`], [`hash`], [`htree`] | directories |
//! | [`dir_blocks`] | directories made at once |
//! | [`casefold`] | names in directories that ignore case |
//! | [`xattr`], [`xattr_list`], [`acl`] | extended attributes |
//! | [`jbd2`], [`jbd2_super`], [`jbd2_tag`] | the journal |
//! | [`hash_tree`], [`fs_verity`] | trees of hashes, of dm-verity and fs-verity; what a file with fs-verity has |
//! | [`fscrypt`] | policies of encrypted inodes; their names as they are shown without a key |
//! | [`orphan_file`], [`mmp`] | orphan file and multi-mount protection blocks |
//! | [`quota`] | quota files |
//! | [`growth`], [`resize_inode`] | what a larger file system has; blocks reserved for its descriptors |
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

pub mod acl;
pub mod block_map;
mod bytes;
pub mod casefold;
pub mod checksum;
pub mod corrupt;
pub mod dir_blocks;
pub mod dirent;
pub mod extent;
pub mod extent_node;
pub mod fast_commit;
pub mod features;
pub mod file_type;
pub mod fs_verity;
pub mod fscrypt;
pub mod geometry;
pub mod group_desc;
pub mod growth;
pub mod hash;
pub mod hash_tree;
pub mod htree;
pub mod inode;
pub mod inode_flags;
pub mod jbd2;
pub mod jbd2_super;
pub mod jbd2_tag;
pub mod mmp;
mod name_ending;
pub mod orphan_file;
pub mod quota;
pub mod raw_superblock;
pub mod resize_inode;
pub mod superblock;
pub mod timestamp;
pub mod types;
pub mod xattr;
pub mod xattr_list;

pub use acl::*;
pub use block_map::*;
pub use casefold::*;
pub use checksum::*;
pub use corrupt::*;
pub use dir_blocks::*;
pub use dirent::*;
pub use extent::*;
pub use extent_node::*;
pub use fast_commit::*;
pub use features::*;
pub use file_type::*;
pub use fs_verity::*;
pub use fscrypt::*;
pub use geometry::*;
pub use group_desc::*;
pub use growth::*;
pub use hash::*;
pub use hash_tree::*;
pub use htree::*;
pub use inode::*;
pub use inode_flags::InodeFlags;
pub use jbd2::*;
pub use jbd2_super::*;
pub use jbd2_tag::*;
pub use mmp::*;
pub use orphan_file::*;
pub use quota::*;
pub use raw_superblock::*;
pub use resize_inode::*;
pub use superblock::*;
pub use timestamp::*;
pub use types::*;
pub use xattr::*;
pub use xattr_list::*;
