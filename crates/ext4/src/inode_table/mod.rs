//! Inodes in memory and in the inode table: where they lie, how they change, and timestamps that wait in memory.
//!
//! | module | holds |
//! | --- | --- |
//! | `place` | where an inode lies in the table |
//! | `lazytime` | timestamps that wait in memory |

mod lazytime;
mod place;

use crate::group::used_blocks::UsedBlocksShape;
use crate::inode::Inode;
use crate::inode::reference::{InodeOwner, Owner};
use crate::inode::unflushed_writes::UnflushedWrites;
use crate::inode_table::lazytime::Lazytime;
use crate::prelude::*;
use crate::quota::Counted;
use crate::volume::Volume;
use uext4_sync::probe;
use uext4_sync::probe::Stage;
use uext4_vfs::icache::InodeCache;

/// Inodes in memory and in their table; see the module.
pub struct InodeTable {
    volume: Arc<Volume>,
    pub(crate) icache: InodeCache<Inode>,
    pub(crate) lazytime: Arc<Lazytime>,
    /// Overwritten data of inodes that left memory.
    pub(crate) unflushed_evicted: UnflushedWrites,
    used_shape: UsedBlocksShape,
    owner: PerCpu<Owner>,
}

impl InodeTable {
    pub(crate) fn new(volume: Arc<Volume>, owner: &Weak<dyn InodeOwner>) -> InodeTable {
        let options = &volume.options;
        InodeTable {
            icache: InodeCache::new(
                options.icache,
                options.inodes_max,
                volume.geometry().inodes_per_block,
            ),
            lazytime: Arc::new(Lazytime::new()),
            unflushed_evicted: UnflushedWrites::new(),
            used_shape: UsedBlocksShape::new(
                volume.geometry().itable_blocks_per_group,
                volume.geometry().inodes_per_block,
            ),
            owner: PerCpu::new(|_| Arc::new(CachePadded::new(Weak::clone(owner)))),
            volume,
        }
    }
}

impl InodeTable {
    #[inline]
    pub(crate) fn me(&self) -> Owner {
        Arc::clone(self.owner.get())
    }

    /// Evicts unused inodes when there are more than the options say.
    ///
    /// # Locks
    /// May start a handle for pending timestamps, so nothing of that rank or below may be held.
    pub(crate) fn limit_icache(&self) {
        let max = self.volume.options.inodes_max;
        if self
            .icache
            .grown_to()
            .is_some_and(|all| all > max + max / 16)
        {
            let write = |inode: &Arc<Inode>| {
                if let Err(why) = self.write_pending(inode) {
                    tracing::warn!("inode {}: its timestamps stay in memory: {why}", inode.ino);
                }
            };
            // Data that the device may still cache counts for all from now on.
            let evict = |inode: &Arc<Inode>| {
                if inode.unflushed.due().is_some() {
                    self.unflushed_evicted.add();
                }
            };
            self.icache.shrink(max, 256, write, evict);
        }
    }

    /// How many inodes are in memory.
    pub fn cached_inodes(&self) -> usize {
        self.icache.len()
    }

    /// Changes the decoded inode and encodes it into the inode table, as part of `handle`; with
    /// `lazytime` also the pending timestamps of its neighbours in the same block.
    ///
    /// # Locks
    /// Takes the inode-table block, then the inode's state.
    ///
    /// # Journal
    /// One credit.
    ///
    /// # Errors
    /// The journal's; then nothing changed.
    #[inline]
    pub(crate) fn update_inode<R>(
        &self,
        inode: &Inode,
        handle: &Handle<'_>,
        change: impl FnOnce(&mut uext4_ondisk::Inode) -> R,
    ) -> Result<R> {
        let _timed = probe::time(Stage::MarkInodeDirty);
        let content = handle.modify(&inode.itable)?;
        Ok(self.update_inode_in(inode, handle, content, change))
    }

    /// As [`InodeTable::update_inode`], with its block at hand.
    pub(crate) fn update_inode_in<R>(
        &self,
        inode: &Inode,
        handle: &Handle<'_>,
        mut content: BufferWrite<'_>,
        change: impl FnOnce(&mut uext4_ondisk::Inode) -> R,
    ) -> R {
        let mut is_other_mode = false;
        let quotas = self.volume.quotas();
        let mut counted = None;
        let result = inode.change(handle, &mut content, |disk| {
            let before = disk.mode;
            let had = quotas.map(|_| Counted::of(disk));
            let result = change(disk);
            counted = had.map(|had| (had, Counted::of(disk)));
            is_other_mode = disk.mode != before;
            result
        });
        if let (Some(quotas), Some((before, after))) = (quotas, counted) {
            quotas.follow(handle, inode.ino, before, after);
        }
        if is_other_mode {
            self.volume.names.forget_passage(inode);
        }
        self.write_pending_neighbours(handle, &mut content, &inode.itable, inode.ino);
        result
    }
}
