//! Replacing blocks of an image that is not mounted, all of them or none.
//!
//! # Crash
//! Blocks that were free are written first, in place, where nothing refers to them. The others are one transaction of the log, and the
//! image is recovered from it, as after a crash. The write of the superblock that asks for recovery decides: without it the image is as
//! it was.

#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;

use crate::fs::Ext4;
use crate::mmp::{MmpHold, check_hold, check_hold_known};
use crate::mount::journal::{find_log, open_journal};
use crate::options::{Exclusion, MountOptions};
use crate::prelude::*;
use crate::superblock::{
    read_superblock, read_superblock_to_recover, superblock_place, with_superblock,
};
use uext4_jbd2::Opened;
use uext4_ondisk::RawSuperblock;

/// Bytes of blocks that are written in place at a time.
const AT_ONCE: u64 = 1 << 20;

impl Ext4 {
    /// Recovers the journal and the orphans of an image that is not mounted, if it was not unmounted cleanly. The caller holds it,
    /// if it has `mmp`.
    ///
    /// # Errors
    /// As [`Ext4::mount_with_journal`] and [`MmpHold::check`].
    pub fn recover(
        device: &Arc<dyn BlockDevice>,
        journal_device: Option<&Arc<dyn BlockDevice>>,
        hold: Option<&MmpHold>,
    ) -> Result<()> {
        let (sb, torn) = read_superblock_to_recover(&**device)?;
        if torn.is_none() && !sb.incompat.contains(Incompat::RECOVER) {
            return Ok(());
        }
        check_hold(hold)?;
        let fs = Ext4::mount_with_journal(Arc::clone(device), journal_device.cloned(), held())?;
        if let Some(hold) = hold {
            fs.volume.stop_with(hold);
        }
        fs.unmount()?;
        check_hold(hold)
    }

    /// Gives the blocks `changed`, in ascending order, of the image on `device` the content that they have on `new`, which must be a clean
    /// image. Those of the log are left out. The caller holds the image, if it has `mmp`. Returns the bytes that were replaced.
    ///
    /// # Crash
    /// All are replaced or none, if the image has a journal; else a crash may leave some of them.
    ///
    /// # Errors
    /// [`JournalError::TooLarge`]: the journal is too small, and nothing was changed. The device's, and those of
    /// [`Ext4::mount_with_journal`]: all is replaced or none once the image is recovered. Those of [`MmpHold::check`], after which nothing
    /// is written.
    pub fn replace_blocks(
        device: &Arc<dyn BlockDevice>,
        journal_device: Option<&Arc<dyn BlockDevice>>,
        changed: &[u64],
        new: &dyn BlockDevice,
        hold: Option<&MmpHold>,
    ) -> Result<u64> {
        check_hold(hold)?;
        let journal_device = journal_device.cloned();
        let read_only = MountOptions {
            read_only: true,
            ..held()
        };
        let mount =
            |options| Ext4::mount_with_journal(Arc::clone(device), journal_device.clone(), options);
        let old = mount(read_only.clone())?;
        let sb = read_superblock(&**device)?;
        let log = find_log(&sb, device, journal_device.as_ref(), &read_only)?;
        let (free, used) = old.split(changed, log.as_ref())?;
        old.unmount()?;
        let block_size = u64::from(sb.geometry.block_size);
        let replaced = (free.len() + used.len()) as u64 * block_size;
        // A full host refuses before anything is written.
        for run in changed.chunk_by(|a, b| a + 1 == *b) {
            if let Some(first) = run.first() {
                device.allocate(first * block_size, run.len() as u64 * block_size)?;
            }
        }
        let Some(log) = log else {
            copy(&**device, new, &free, block_size, hold)?;
            device.flush()?;
            check_hold(hold)?;
            copy(&**device, new, &used, block_size, hold)?;
            device.flush()?;
            return Ok(replaced);
        };
        log.allocate()?;
        let cache = BufferCache::new(Arc::clone(device), block_size as usize, used.len().max(64));
        let options = MountOptions::default();
        let journal = open_journal(&sb, &Arc::new(cache), Some(log), &options, Opened::Empty)?;
        if let Some(hold) = hold {
            hold.protect(&journal);
        }
        let done = commit(&journal, new, &free, &used, block_size, hold);
        // What the transaction holds is written in place by recovery.
        journal.abort(JournalError::Aborted("its blocks are recovered".into()));
        journal.stop();
        done?;
        // It has the superblock's flag now.
        Ext4::recover(device, journal_device.as_ref(), hold)?;
        Ok(replaced)
    }

    /// Divides blocks into those that nothing uses, and others; those of the log are left out.
    fn split(&self, changed: &[u64], log: Option<&LogMap>) -> Result<(Vec<u64>, Vec<u64>)> {
        let geometry = self.volume.geometry();
        let runs = log
            .filter(|log| Arc::ptr_eq(log.device(), self.volume.device()))
            .map_or(&[][..], LogMap::runs);
        let (mut free, mut used) = (Vec::new(), Vec::new());
        for &block in changed {
            if runs
                .iter()
                .any(|run| (run.pblk..run.pblk + u64::from(run.len)).contains(&block))
            {
                continue;
            }
            let is_free = match geometry.group_of_block(Pblk(block)) {
                Some((no, at)) => self.blocks.is_free(no, at)?,
                // The block in front of the groups.
                None => false,
            };
            let list = if is_free { &mut free } else { &mut used };
            list.push(block);
        }
        Ok((free, used))
    }
}

/// The options of a mount of an image that the caller holds.
fn held() -> MountOptions {
    MountOptions {
        exclusion: Exclusion::Held,
        ..MountOptions::default()
    }
}

/// Writes the free blocks in place and commits the others.
fn commit(
    journal: &Journal,
    new: &dyn BlockDevice,
    free: &[u64],
    used: &[u64],
    block_size: u64,
    hold: Option<&MmpHold>,
) -> Result<()> {
    let credits = u32::try_from(used.len()).unwrap_or(u32::MAX);
    let handle = journal.start(credits)?;
    let device = journal.cache().device();
    copy(&**device, new, free, block_size, hold)?;
    device.flush()?;
    let (super_block, super_at) = superblock_place(block_size as u32);
    let mut superblock = vec![0; block_size as usize];
    new.read_at(super_block.0 * block_size, &mut superblock)?;
    with_superblock(&mut superblock, super_at, RawSuperblock::ask_for_recovery);
    for &block in used {
        let buffer = journal.cache().get_unread(block);
        let mut content = handle.create(&buffer)?;
        match block == super_block.0 {
            true => content.data_mut().copy_from_slice(&superblock),
            false => new.read_at(block * block_size, content.data_mut())?,
        }
    }
    handle.finish();
    journal.sync()?;
    check_hold(hold)?;
    // The log has it; should this write be torn, recovery finds it there.
    device.write_at(super_block.0 * block_size, &superblock)?;
    Ok(device.flush()?)
}

/// Copies blocks to the same places, runs of them at once.
fn copy(
    device: &dyn BlockDevice,
    new: &dyn BlockDevice,
    blocks: &[u64],
    block_size: u64,
    hold: Option<&MmpHold>,
) -> Result<()> {
    let most = (AT_ONCE / block_size) as usize;
    let mut bytes = Vec::new();
    for run in blocks.chunk_by(|a, b| a + 1 == *b) {
        for part in run.chunks(most) {
            let Some(first) = part.first() else {
                continue;
            };
            check_hold_known(hold)?;
            bytes.resize(part.len() * block_size as usize, 0);
            new.read_at(first * block_size, &mut bytes)?;
            device.write_at(first * block_size, &bytes)?;
        }
    }
    Ok(())
}
