//! The end of an inode: its blocks, attributes and number are freed.
//!
//! # Crash
//! An inode without links is on the orphan list until its deletion is complete; a small one is deleted in the handle
//! that removes its last name.
//!
//! | module | holds |
//! | --- | --- |
//! | `recover` | inodes that a crash left on record |

mod recover;
#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;

use crate::attributes::Attributes;
use crate::clock::now;
use crate::inline::InlineData;
use crate::inode::Inode;
use crate::inode::reference::{InodeOwner, InodeRef};
use crate::inode_allocator::InodeAllocator;
use crate::inode_table::InodeTable;
use crate::inodes::Inodes;
use crate::mapping::extents::remove::{Content, Restart};
use crate::mapping::{Mapping, Root};
use crate::orphans::OrphanList;
use crate::prelude::*;
use crate::quota::OwnerIds;
use crate::volume::handles::LazyHandle;
use crate::volume::{Volume, handles};

/// Blocks that deleting a small inode changes.
pub(crate) const DELETE_CREDITS: u32 = 24;

/// What deleting an inode has to deal with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeletePlan {
    /// Its names.
    pub links: u32,
    /// It takes a handful of blocks, so that one handle does it.
    pub small: bool,
    /// Sectors that it has.
    pub blocks: u64,
    /// The block of its extended attributes, or 0.
    pub acl: Pblk,
}

/// Deletes inodes; see the module.
pub struct Deletion {
    pub(crate) volume: Arc<Volume>,
    pub(crate) numbers: Arc<InodeAllocator>,
    pub(crate) table: Arc<InodeTable>,
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) inline: Arc<InlineData>,
    pub(crate) inodes: Arc<Inodes>,
    pub(crate) orphans: Arc<OrphanList>,
    pub(crate) attributes: Arc<Attributes>,
    /// Inodes that lost their last reference while the file system was frozen.
    pub(crate) put_off: Mutex<Vec<Arc<Inode>>>,
}

impl InodeOwner for Deletion {
    fn delete(&self, inode: &Arc<Inode>) {
        if let Some(_change) = self.volume.freeze.try_change() {
            return self.delete_or_warn(inode);
        }
        self.put_off.lock().push(Arc::clone(inode));
        // A thaw may have ended since, and taken the list before.
        if let Some(_change) = self.volume.freeze.try_change() {
            self.delete_put_off();
        }
    }
}

impl Deletion {
    /// Deletes what a freeze put off. The caller keeps the gate of changes from being closed.
    pub(crate) fn delete_put_off(&self) {
        loop {
            let inode = self.put_off.lock().pop();
            match inode {
                Some(inode) => self.delete_or_warn(&inode),
                None => return,
            }
        }
    }

    fn delete_or_warn(&self, inode: &Arc<Inode>) {
        if let Err(why) = self.volume.report(self.delete_inode(inode)) {
            // It stays on the orphan list, and the next mount deletes it.
            tracing::warn!("cannot delete inode {}: {why}", inode.ino);
        }
    }
}

impl Deletion {
    /// Deletes an inode without links that is unreachable, with handles of its own. It is
    /// on the orphan list.
    pub(crate) fn delete_inode(&self, inode: &Arc<Inode>) -> Result<()> {
        if self.volume.is_read_only() {
            return Err(Ext4Error::ReadOnly);
        }
        self.attributes.drop_values(inode)?;
        self.numbers.check_ino_in_use(inode.ino)?;
        self.mapping.check_removable(inode, 0, 1 << 32)?;
        self.attributes.check_xattr_block(inode)?;
        let handle = self.volume.journal().start(DELETE_CREDITS)?;
        let handle = self.mapping.remove_blocks(
            handle,
            inode,
            0,
            1 << 32,
            self.mapping.content_of(inode),
            Restart::Allowed,
        )?;
        let handle = handle.extend_or_restart(DELETE_CREDITS)?;
        self.orphans.remove_orphan(&handle, inode)?;
        let acl = inode.state().file_acl;
        let freed = self.free_inode(&handle, inode, acl);
        handles::end(handle, freed)
    }

    /// What there is to do when the inode is deleted.
    pub(crate) fn remains(&self, inode: &Inode) -> DeletePlan {
        let state = inode.state();
        let root = Root::of(&state);
        DeletePlan {
            links: state.links,
            small: root.is_short() && self.is_small(self.mapping.content_of(inode), state.blocks),
            blocks: state.blocks,
            acl: state.file_acl,
        }
    }

    /// Whether deleting what takes so many sectors, with a short root, changes a handful of blocks, so that one
    /// handle does it: each block that went through the journal is one, also behind the end of a file.
    fn is_small(&self, content: Content, sectors: u64) -> bool {
        // One more is for attributes.
        content == Content::Data || sectors <= 9 * (self.volume.block_size() / 512)
    }

    /// Reads what deleting an inode will need, if it is small, so that a device that fails does so
    /// before anything changed; and says what there is to do.
    ///
    /// # Locks
    /// The caller holds the inode's `ilock` alone. Reads from the device: before the handle starts.
    ///
    /// # Errors
    /// The device's, or damage.
    pub(crate) fn prepare_delete(&self, inode: &Inode) -> Result<DeletePlan> {
        let mut remains = self.remains(inode);
        // Each value in an inode of its own takes a handle of its own.
        remains.small &= !self.attributes.has_values(inode)?;
        self.numbers.check_ino_in_use(inode.ino)?;
        if remains.blocks == 0 || !remains.small {
            return Ok(remains);
        }
        self.mapping.check_removable(inode, 0, 1 << 32)?;
        self.attributes.check_xattr_block(inode)?;
        Ok(remains)
    }

    /// Deletes a small inode without links, taken for deletion, within `handle`.
    ///
    /// # Journal
    /// [`DELETE_CREDITS`].
    pub(crate) fn delete_small<'h>(
        &self,
        handle: Handle<'h>,
        inode: &Arc<Inode>,
        blocks: u64,
        acl: Pblk,
    ) -> Result<Handle<'h>> {
        let handle = if blocks == 0 {
            handle
        } else {
            // Name and inode go together, so the handle must not be restarted.
            self.mapping.remove_blocks(
                handle,
                inode,
                0,
                1 << 32,
                self.mapping.content_of(inode),
                Restart::Never,
            )?
        };
        self.free_inode(&handle, inode, acl)?;
        Ok(handle)
    }

    /// Gives the inode's number back. Nothing of it is left but what says that it was deleted.
    pub(crate) fn free_inode(
        &self,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
        acl: Pblk,
    ) -> Result<()> {
        if acl != Pblk(0) {
            self.attributes.put_xattr_block(handle, inode, acl)?;
        }
        let translator = inode.state().translator;
        if translator != 0 {
            self.attributes.free_translator(handle, translator)?;
        }
        let time = now();
        self.table.update_inode(inode, handle, |disk| {
            disk.translator = 0;
            disk.links = 0;
            disk.dtime = u32::try_from(time.sec).unwrap_or(u32::MAX);
            disk.size = 0;
            disk.blocks = 0;
            disk.file_acl = Pblk(0);
        })?;
        if let Some(quotas) = self.volume.quotas() {
            let owners = OwnerIds::of(&inode.state());
            quotas.count_inode(handle, inode.ino, owners, -1);
        }
        // Out of the cache before the number can be claimed again.
        self.table.icache.remove(u64::from(inode.ino.0));
        self.numbers.release_ino(handle, inode.ino, inode.is_dir())
    }

    /// Frees what a file maps past its size: the end of an interrupted truncate.
    pub(crate) fn finish_truncate(&self, inode: &Inode) -> Result<()> {
        let size = inode.size();
        let first = size.div_ceil(self.volume.block_size());
        self.mapping.check_removable(inode, first, 1 << 32)?;
        let handle = self.volume.journal().start(DELETE_CREDITS)?;
        let handle = self.mapping.remove_blocks(
            handle,
            inode,
            first,
            1 << 32,
            self.mapping.content_of(inode),
            Restart::Allowed,
        )?;
        let handle = handle.extend_or_restart(4)?;
        let removed = self.orphans.remove_orphan(&handle, inode);
        handles::end(handle, removed)
    }
}

impl Deletion {
    /// Takes back an inode that could not be named because of `why`. If another thread opened it by its number
    /// meanwhile, its last reference deletes it. A fault may have left more behind than the inode: then the
    /// journal is aborted.
    pub(crate) fn discard_new(
        &self,
        late: LazyHandle<'_>,
        inode: &InodeRef,
        why: Ext4Error,
    ) -> Ext4Error {
        let Some(handle) = late.into_handle().filter(|_| !why.is_fault()) else {
            return why;
        };
        let remains = DeletePlan {
            links: 1,
            ..self.remains(inode)
        };
        match self.drop_link(handle, inode, &remains) {
            Ok(()) => why,
            Err(worse) => worse,
        }
    }

    /// One link less; an inode without links is deleted, now if this is its only reference and it is small.
    ///
    /// # Locks
    /// The caller has held the inode's `ilock` alone since it prepared.
    pub(crate) fn drop_link(
        &self,
        handle: Handle<'_>,
        target: &InodeRef,
        remains: &DeletePlan,
    ) -> Result<()> {
        if remains.links > 1 {
            let time = now();
            let dropped = self.table.update_inode(target, &handle, |disk| {
                disk.links -= 1;
                disk.ctime = time;
            });
            return handles::end(handle, dropped);
        }
        if remains.small && target.claim_deletion() {
            // No reference is left to note it again; after it the number may be another's.
            self.volume.names.forget_passage(target.inode());
            self.delete_small(handle, target.inode(), remains.blocks, remains.acl)?
                .finish();
            return Ok(());
        }
        let time = now();
        self.table.update_inode(target, &handle, |disk| {
            disk.links = 0;
            disk.ctime = time;
        })?;
        self.orphans.add_orphan(&handle, target.inode())?;
        target.set_unlinked(true);
        self.volume.names.forget_passage(target.inode());
        handle.finish();
        Ok(())
    }
}
