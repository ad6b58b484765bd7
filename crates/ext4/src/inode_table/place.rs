//! Where an inode lies in the inode table.

use crate::group::Group;
use crate::inode_table::InodeTable;
use crate::kinds;
use crate::prelude::*;
use crate::run::Run;
use std::cell::RefCell;

uext4_sync::thread_local! {
    /// The block of an inode table in which this thread made an inode last, and of which mount. While
    /// it is held here it is the one that the cache has.
    static LAST_TABLE: RefCell<Option<(u64, Arc<Buffer>)>> = const { RefCell::new(None) };
}

impl InodeTable {
    /// The block of the inode table that holds `ino`, and where. `fresh`: the inode was just claimed,
    /// so that a block in which nothing else was ever used need not be read.
    pub(crate) fn inode_place(&self, ino: Ino, fresh: bool) -> Result<crate::inode::InodePlace> {
        let geometry = self.volume.geometry();
        let (no, index) = geometry.group_of_ino(ino)?;
        let group = self.volume.group(no)?;
        let (block, offset) = geometry.itable_position(index);
        let pblk = Pblk(group.inode_table().0 + u64::from(block));
        let first = index - index % geometry.inodes_per_block;
        let remembered = fresh.then(|| self.remembered_block(pblk)).flatten();
        let is_remembered = remembered.is_some();
        let buffer = remembered.unwrap_or_else(|| self.volume.cache().get_unread(pblk.0));
        if !buffer.is_uptodate() {
            if fresh {
                self.volume.allocate_on_host(Run { pblk, len: 1 })?;
            }
            let was_used = || group.used_table_blocks.contains(self.used_shape, block);
            if fresh && !was_used() && self.block_never_used(group, first, index) {
                let mut content = buffer.write();
                if !buffer.is_uptodate() {
                    content.data_mut().fill(0);
                    buffer.set_uptodate(&mut content);
                }
            } else {
                drop(self.volume.cache().get(pblk.0)?);
            }
        }
        let first_ino = geometry.ino_in_group(no, first);
        kinds::take(&buffer, kinds::INODE_TABLE, first_ino.0)?;
        if fresh && !is_remembered {
            group.used_table_blocks.insert(self.used_shape, block);
            let last = Some((self.volume.mount_id, Arc::clone(&buffer)));
            LAST_TABLE.with(|place| place.replace(last));
        }
        Ok(crate::inode::InodePlace {
            buffer,
            offset,
            slot: index - first,
        })
    }

    /// The block of an inode table in which this thread made an inode last, if it is this one: most new inodes are
    /// made without a look-up.
    #[inline]
    fn remembered_block(&self, pblk: Pblk) -> Option<Arc<Buffer>> {
        LAST_TABLE.with(|last| match &*last.borrow() {
            Some((mount, buffer)) if *mount == self.volume.mount_id && buffer.block() == pblk.0 => {
                Some(Arc::clone(buffer))
            }
            _ => None,
        })
    }

    /// Whether no inode of the table block from index `first` on is in use but `index` itself, so
    /// that what the device has there does not matter.
    fn block_never_used(&self, group: &Group, first: u32, index: u32) -> bool {
        let Some(bits) = group.inode_bits() else {
            return false;
        };
        let end = first + self.volume.geometry().inodes_per_block;
        let others = (first..end)
            .filter(|i| *i != index && bits.is_set(*i))
            .count();
        others == 0
            && self.volume.csum != GroupCsum::None
            && first >= self.highest_used_at_mount(group)
    }

    /// The inode index in `group` from which on no inode was ever used when it was mounted. A block from there on that
    /// this mount used since then is in `used_table_blocks`.
    fn highest_used_at_mount(&self, group: &Group) -> u32 {
        self.volume.geometry().inodes_per_group - group.mounted_unused()
    }
}
