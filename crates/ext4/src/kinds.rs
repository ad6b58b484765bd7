//! What a metadata block holds: its role, which the freeze hook follows, and of which it has one at a time.

use crate::error::Result;
use uext4_jbd2::buffer::{Buffer, BufferError};

/// Gives a block that has nothing to verify its role.
///
/// # Errors
/// Damage: it has another.
#[inline]
pub fn take(buffer: &Buffer, kind: u8, seed: u32) -> Result<()> {
    if buffer.has_role(kind, seed) || buffer.take_role(&mut buffer.write(), kind, seed) {
        return Ok(());
    }
    let block = buffer.block();
    Err(BufferError::TwoRoles { block }.into())
}

/// The block of the superblock.
pub const SUPER: u8 = 1;
/// Group descriptors; the buffer's seed is the first group.
pub const DESCRIPTORS: u8 = 2;
/// A block bitmap; the buffer's seed is the group.
pub const BLOCK_BITMAP: u8 = 3;
/// An inode bitmap; the buffer's seed is the group.
pub const INODE_BITMAP: u8 = 4;
/// Part of an inode table; the buffer's seed is its first inode, the dirty mask says which changed.
pub const INODE_TABLE: u8 = 5;
/// A leaf of a directory; the buffer's seed is its inode's.
pub const DIR_LEAF: u8 = 6;
/// An index block of a hashed directory, not its root; the buffer's seed is its inode's.
pub const DIR_INDEX: u8 = 7;
/// A node of an extent tree; the buffer's seed is its inode's.
pub const EXTENT_NODE: u8 = 8;
/// A block of extended attributes.
pub const XATTR_BLOCK: u8 = 9;
/// A block of the orphan file; the buffer's seed is its inode's.
pub const ORPHAN_FILE: u8 = 10;
/// The root of a hashed directory; the buffer's seed is its inode's.
pub const DIR_ROOT: u8 = 11;
/// A block of pointers of a block map; the buffer's seed is the inode's number.
pub const MAP_NODE: u8 = 12;
/// A block of a quota file; the buffer's seed is the kind of the file and the block's number in it.
pub const QUOTA_FILE: u8 = 13;
