//! Attributes of inodes: extended attributes, access control lists, and what a caller may do by them.
//!
//! | module | holds |
//! | --- | --- |
//! | `xattr` | extended attributes |
//! | `acl` | access control lists |
//! | `access` | permission |

pub(crate) mod access;
pub(crate) mod acl;
pub(crate) mod xattr;

use crate::block_allocator::BlockAllocator;
use crate::inline::InlineData;
use crate::inode_table::InodeTable;
use crate::inodes::Inodes;
use crate::mapping::Mapping;
use crate::orphans::OrphanList;
use crate::volume::Volume;
use std::sync::Arc;

/// The attributes of inodes; see the module.
pub struct Attributes {
    volume: Arc<Volume>,
    blocks: Arc<BlockAllocator>,
    table: Arc<InodeTable>,
    mapping: Arc<Mapping>,
    inline: Arc<InlineData>,
    inodes: Arc<Inodes>,
    orphans: Arc<OrphanList>,
}

impl Attributes {
    pub(crate) fn new(
        volume: Arc<Volume>,
        blocks: Arc<BlockAllocator>,
        table: Arc<InodeTable>,
        mapping: Arc<Mapping>,
        inline: Arc<InlineData>,
        inodes: Arc<Inodes>,
        orphans: Arc<OrphanList>,
    ) -> Attributes {
        Attributes {
            volume,
            blocks,
            table,
            mapping,
            inline,
            inodes,
            orphans,
        }
    }
}
