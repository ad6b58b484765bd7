//! Inodes: found by their number, and made.
//!
//! | module | holds |
//! | --- | --- |
//! | `load` | reading and checking an inode of the table |
//! | `new` | making one |

mod load;
pub(crate) mod new;

use crate::generation::Generator;
use crate::inline::InlineData;
use crate::inode::Inode;
use crate::inode::reference::InodeRef;
use crate::inode_allocator::InodeAllocator;
use crate::inode_table::InodeTable;
use crate::mapping::Mapping;
use crate::prelude::*;
use crate::volume::Volume;

/// Finds inodes, and makes new ones.
pub struct Inodes {
    volume: Arc<Volume>,
    numbers: Arc<InodeAllocator>,
    table: Arc<InodeTable>,
    mapping: Arc<Mapping>,
    inline: Arc<InlineData>,
    pub(crate) generator: Generator,
}

impl Inodes {
    pub(crate) fn new(
        volume: Arc<Volume>,
        numbers: Arc<InodeAllocator>,
        table: Arc<InodeTable>,
        mapping: Arc<Mapping>,
        inline: Arc<InlineData>,
    ) -> Inodes {
        let generator = Generator::new(volume.options.generation);
        Inodes {
            volume,
            numbers,
            table,
            mapping,
            inline,
            generator,
        }
    }
}

impl Inodes {
    /// The inode `ino`, from the cache or the disk.
    ///
    /// # Locks
    /// May read from the device and wait for another thread that loads it.
    ///
    /// # Errors
    /// [`Ext4Error::Stale`] if it is not in use, damage, or the device's.
    pub fn get_inode(&self, ino: Ino) -> Result<InodeRef> {
        self.get_inode_with(ino, false)
    }

    /// As [`Inodes::get_inode`], for an orphan, which may have no links.
    pub(crate) fn get_orphan(&self, ino: Ino) -> Result<InodeRef> {
        self.get_inode_with(ino, true)
    }

    fn get_inode_with(&self, ino: Ino, unlinked: bool) -> Result<InodeRef> {
        let mut loaded = false;
        let inode = self.table.icache.get_or_load(u64::from(ino.0), || {
            loaded = true;
            self.load_inode(ino, unlinked).inspect(Inode::note_xattrs)
        })?;
        let pinned = InodeRef::pin(inode).ok_or(Ext4Error::Stale)?;
        // Not while the number's slot is empty: a create that claimed the number waits for it in a
        // handle, and what must be written first may wait for that handle's transaction.
        if loaded {
            self.table.limit_icache();
        }
        Ok(pinned)
    }
}
