//! Unwritten blocks whose data is on the device become written: many writers' at a time.
//!
//! # Data model
//! A writer adds its blocks to the batch that is being collected. A writer that finds none being converted
//! converts the batch, in one handle as far as credits go, while the next one is collected.
//!
//! # Invariants
//! A writer returns once its blocks are converted, so that a later read finds its data, and fsync
//! the transaction to wait for. Blocks of a batch that failed are converted again by each of its writers,
//! which so learn why; converting what is written changes nothing.
//!
//! # Locking
//! The batch has a leaf lock (class `direct`), held for a moment; waiting for a batch is done with the
//! inode's `ilock` and the write's range held, which a conversion does not take.

use crate::error::Result;
use crate::file::FileIo;
use crate::inode::Inode;
use crate::mapping::extents::convert::Written;
use crate::volume::handles;

/// What converting one run may change: a leaf, the inode, and nodes if an extent has to be cut after all.
const RUN_CREDITS: u32 = 8;
/// Credits of the handle of a batch.
const BATCH_CREDITS: u32 = 16;

impl FileIo {
    /// Makes blocks written whose data is on the device, or in its cache: the commit flushes that.
    ///
    /// # Locks
    /// May wait for another thread that converts, and for the journal.
    ///
    /// # Errors
    /// The journal's, or damage; never a lack of space, as the extents are cut already.
    pub(super) fn convert_when_written(&self, inode: &Inode, runs: &[(u64, u64)]) -> Result<()> {
        if runs.is_empty() {
            return Ok(());
        }
        let conversions = &inode.direct().conversions;
        let mut batches = conversions.batches.lock();
        batches.waiting.extend_from_slice(runs);
        let mine = batches.collecting;
        while batches.ended < mine {
            if batches.running {
                conversions.ended.wait(&mut batches);
                continue;
            }
            let batch = std::mem::take(&mut batches.waiting);
            batches.collecting += 1;
            batches.running = true;
            drop(batches);
            let result = self.convert_batch(inode, &batch);
            batches = conversions.batches.lock();
            batches.running = false;
            batches.ended = mine;
            if result.is_err() {
                batches.failed = mine;
            }
            conversions.ended.notify_all();
        }
        let failed = batches.failed >= mine;
        drop(batches);
        if failed {
            return self.convert_batch(inode, runs);
        }
        Ok(())
    }

    fn convert_batch(&self, inode: &Inode, runs: &[(u64, u64)]) -> Result<()> {
        let mut handle = self.volume.journal().start(BATCH_CREDITS)?;
        for &run in runs {
            if !handle.extend(RUN_CREDITS) {
                handle = handle.restart(BATCH_CREDITS)?;
            }
            let mut map = inode.map.write();
            self.mapping
                .convert_extents(&handle, inode, &mut map, run, Written::Yes, true)?;
            handle.complete();
        }
        let published = self.publish_size(&handle, inode, 0, 0);
        handles::end(handle, published)
    }
}
