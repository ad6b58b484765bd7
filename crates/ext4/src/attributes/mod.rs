//! Attributes of inodes: extended attributes, access control lists, and what a caller may do by them.
//!
//! | module | holds |
//! | --- | --- |
//! | `xattr` | extended attributes |
//! | `acl` | access control lists |
//! | `encryption` | encrypted inodes |
//! | `access` | permission |

pub(crate) mod access;
pub(crate) mod acl;
pub(crate) mod encryption;
pub(crate) mod xattr;

use crate::block_allocator::BlockAllocator;
use crate::inline::InlineData;
use crate::inode_table::InodeTable;
use crate::inodes::Inodes;
use crate::mapping::Mapping;
use crate::orphans::OrphanList;
use crate::owners::Owners;
use crate::volume::Volume;
use std::sync::Arc;

/// The attributes of inodes; see the module.
pub struct Attributes {
    pub(crate) volume: Arc<Volume>,
    pub(crate) blocks: Arc<BlockAllocator>,
    pub(crate) table: Arc<InodeTable>,
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) inline: Arc<InlineData>,
    pub(crate) inodes: Arc<Inodes>,
    pub(crate) orphans: Arc<OrphanList>,
    pub(crate) owners: Arc<Owners>,
}
