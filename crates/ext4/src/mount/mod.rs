//! Mounting, syncing, remounting and unmounting.
//!
//! # Crash
//! While mounted for writing the superblock says that the journal needs recovery. Unmounting commits,
//! writes everything in place, empties the log and clears that mark. Dropping without unmounting does the same as far
//! as it can; a killed process leaves a journal that recovers.
//!
//! | module | holds |
//! | --- | --- |
//! | `features` | which features are read and written |
//! | `journal` | finding, recovering and opening the journal |
//! | `external_journal` | a journal on a device of its own |
//! | `fast_commit` | replaying fast commits of other systems |
//! | `replace_blocks` | replacing blocks of an image, all or none |
//! | `quota` | reading the quota files |
//! | `grow` | a larger file system while it is in use |
//! | `freeze` | an image that is clean and stays as it is while it is mounted |
//! | `remount` | options that change while the file system is in use |

mod external_journal;
pub(crate) mod fast_commit;
mod features;
mod freeze;
mod grow;
mod journal;
mod quota;
mod remount;
mod replace_blocks;
#[cfg(all(test, not(shuttle), not(loom)))]
mod tests;

use crate::fs::Ext4;
use crate::kinds;
use crate::mmp::{MmpHold, check_hold};
use crate::mount::features::{check_features, check_size};
use crate::mount::journal::{check_log_apart, find_log, open_journal, recover_log};
use crate::options::MountOptions;
use crate::prelude::*;
use crate::superblock::{
    ask_for_recovery_on, read_superblock, read_superblock_to_recover, superblock_place, unix_now,
};
use crate::volume::Volume;
use crate::volume::freeze_hook::{DescForm, Freezer};
use crate::volume::generations::{Generation, Generations};
use crate::volume::groups::load_groups;
use uext4_jbd2::Opened;
use uext4_ondisk::RawSuperblock;

/// Blocks of quota files that a handle may change besides its own: those of three owners before and after.
const QUOTA_CREDITS: u32 = 6;

impl Ext4 {
    /// Mounts the file system on `device`, recovering its journal and its orphans.
    ///
    /// # Errors
    /// No ext4, an unsupported feature (by name), damage (by place), or the device's.
    pub fn mount(device: Arc<dyn BlockDevice>, options: MountOptions) -> Result<Arc<Ext4>> {
        Self::mount_with_journal(device, None, options)
    }

    /// As [`Ext4::mount`], of a file system whose journal is on `journal_device`. A file system that has
    /// its journal inside, or none, leaves that device alone.
    ///
    /// # Errors
    /// As [`Ext4::mount`]; [`Ext4Error::JournalUuid`], [`Ext4Error::Invalid`]: another's journal.
    pub fn mount_with_journal(
        device: Arc<dyn BlockDevice>,
        journal_device: Option<Arc<dyn BlockDevice>>,
        mut options: MountOptions,
    ) -> Result<Arc<Ext4>> {
        options.read_only |= device.is_read_only();
        let (mut sb, mut torn) = read_superblock_to_recover(&*device)?;
        check_features(&sb, &mut options)?;
        let needs_recovery = torn.is_some() || sb.incompat.contains(Incompat::RECOVER);
        let recovers = needs_recovery && !options.noload && !device.is_read_only();
        let mut hold = match recovers || !options.read_only {
            true => MmpHold::acquire(&device, &sb, options.exclusion)?,
            false => None,
        };
        if hold.is_some() {
            // Another host may have changed it until then.
            (sb, torn) = read_superblock_to_recover(&*device)?;
            check_features(&sb, &mut options)?;
        }
        check_size(&sb, &*device)?;
        let log = find_log(&sb, &device, journal_device.as_ref(), &options)?;
        if let Some(map) = log.as_ref().filter(|_| !options.read_only) {
            map.allocate()?;
        }
        if let Some(map) = &log
            && !options.noload
            && let Some(records) = recover_log(map, &device, &sb, torn.is_some())?
        {
            check_hold(hold.as_ref())?;
            sb = read_superblock(&*device)?;
            if !records.is_empty() {
                fast_commit::replay(&device, &sb, map, &options, &records)?;
                check_hold(hold.as_ref())?;
                sb = read_superblock(&*device)?;
            }
            check_features(&sb, &mut options)?;
            if hold.is_none() && !options.read_only {
                // The log may have brought the feature.
                hold = MmpHold::acquire(&device, &sb, options.exclusion)?;
                sb = read_superblock(&*device)?;
                check_features(&sb, &mut options)?;
            }
        } else if let Some(why) = torn {
            return Err(why.into());
        }
        let fs = Self::assemble(device, sb, log, options, Opened::Empty)?;
        match hold {
            Some(hold) if fs.volume.options.read_only => hold.release()?,
            Some(hold) => fs.volume.keep_hold(hold),
            None => {}
        }
        if fs.volume.options.data.is_some()
            && !fs.volume.journal().has_log()
            && !fs.volume.is_read_only()
        {
            return Err(Ext4Error::Invalid("data= without a journal"));
        }
        if !fs.volume.is_read_only() {
            fs.mark_mounted()?;
            fs.deletion.recover_orphans()?;
            if fs.volume.options.lazytime {
                fs.table.start_writeback();
            }
        }
        Ok(fs)
    }

    pub(crate) fn assemble(
        device: Arc<dyn BlockDevice>,
        sb: Superblock,
        log: Option<LogMap>,
        mut options: MountOptions,
        opened: Opened,
    ) -> Result<Arc<Ext4>> {
        let geometry = sb.geometry;
        let block_size = geometry.block_size as usize;
        let blocks = (options.cache_bytes / block_size as u64) as usize;
        let cache = Arc::new(BufferCache::new(Arc::clone(&device), block_size, blocks));
        let csum = GroupCsum::of(&sb);
        let groups = load_groups(&sb, &cache, csum)?;
        let first = Generation::of(&sb, groups, device.len());
        let generations = Arc::new(Generations::new(first));
        let (super_block, super_at) = superblock_place(geometry.block_size);
        let super_buffer = cache.get(super_block.0)?;
        kinds::take(&super_buffer, kinds::SUPER, 0)?;
        let quotas = Arc::new(OnceLock::new());
        cache.set_hook(Arc::new(Freezer {
            generations: Arc::clone(&generations),
            descs: DescForm::of(&sb),
            inode_size: usize::from(geometry.inode_size),
            super_at,
            quotas: Arc::clone(&quotas),
        }));
        if let Some(log) = log
            .as_ref()
            .filter(|log| Arc::ptr_eq(log.device(), &device))
        {
            check_log_apart(log, &generations.current().fixed)?;
        }
        quota::load_or_read_only(&sb, &cache, &mut options, &quotas)?;
        let journal = open_journal(&sb, &cache, log, &options, opened)?;
        let volume = Volume::new(
            sb,
            cache,
            super_buffer,
            generations,
            journal,
            quotas,
            options,
        );
        if volume.quotas().is_some() {
            volume.journal().set_handle_extra(QUOTA_CREDITS);
        }
        Ok(Ext4::compose(Arc::new(volume)))
    }

    /// As [`Ext4::mark_in_use`], and that it was mounted once more.
    pub(crate) fn mark_mounted(&self) -> Result<()> {
        self.mark_in_use(|raw| {
            raw.mnt_count = raw.mnt_count.get().saturating_add(1).into();
            raw.set_mount_time(unix_now());
        })
    }

    /// Writes into the superblock that the journal needs recovery from now on, and what `more` changes.
    pub(crate) fn mark_in_use(&self, more: impl FnOnce(&mut RawSuperblock)) -> Result<()> {
        let has_log = self.volume.journal().has_log();
        if has_log {
            ask_for_recovery_on(self.volume.device())?;
            self.volume.journal().flush_device()?;
        }
        self.volume.set_mounted(true);
        let handle = self.volume.journal().start(1)?;
        self.volume.change_superblock(&handle, |raw| {
            let mut ro_compat = raw.ro_compat();
            if raw.compat().contains(Compat::ORPHAN_FILE) {
                ro_compat |= RoCompat::ORPHAN_PRESENT;
            }
            if has_log {
                raw.set_features(raw.compat(), raw.incompat() | Incompat::RECOVER, ro_compat);
            } else {
                raw.set_features(raw.compat(), raw.incompat(), ro_compat);
                raw.state = (raw.state.get() & !uext4_ondisk::STATE_CLEAN).into();
            }
            self.volume.count_free(raw);
            more(raw);
        })?;
        handle.finish();
        self.volume.journal().sync()?;
        // The log has it; should this write be torn, the next mount finds it there.
        let (block, _) = superblock_place(self.volume.geometry().block_size);
        let content = self.volume.super_buffer.read();
        let offset = self.volume.geometry().block_offset(block);
        self.volume.device().write_at(offset, content.data())?;
        Ok(self.volume.journal().flush_device()?)
    }

    /// Writes everything back and leaves the image clean; ends a freeze. Operations that run beside it are waited for or fail;
    /// from then on everything that would write fails. References to inodes may remain.
    ///
    /// # Locks
    /// Takes every inode's `ilock` in turn; waits for commits.
    ///
    /// # Errors
    /// The device's, or that the journal was aborted; the image then needs recovery.
    pub fn unmount(&self) -> Result<()> {
        self.table.lazytime.stop();
        let _alone = self.volume.freeze.stop_changes();
        let thawed = self.thaw_locked();
        if !self.volume.set_mounted(false) {
            self.volume.journal().stop();
            return self.volume.release_hold();
        }
        let finished = self.finish();
        self.volume.set_read_only();
        self.volume.journal().stop();
        finished.and(self.volume.release_hold()).and(thawed)
    }

    /// Everything in place, and only then the superblock that says so. The caller keeps changes from beginning.
    pub(crate) fn finish(&self) -> Result<()> {
        self.blocks.release_ahead();
        self.table.write_pending_times(Duration::ZERO)?;
        self.deletion.delete_put_off();
        self.volume.record_errors_now();
        self.volume.set_read_only();
        self.wait_for_writers();
        self.close_journal()
    }

    /// Empties the log for good, and then says so in the superblock.
    fn close_journal(&self) -> Result<()> {
        let has_log = self.volume.journal().has_log();
        self.volume.journal().close(|handle| {
            let orphans_left = self.orphans.any_left();
            self.volume.change_superblock(handle, |raw| {
                self.volume.count_free(raw);
                let mut ro_compat = raw.ro_compat();
                if !orphans_left {
                    ro_compat -= RoCompat::ORPHAN_PRESENT;
                }
                raw.set_features(raw.compat(), raw.incompat() - Incompat::RECOVER, ro_compat);
                if !has_log && raw.error_count.get() == 0 {
                    raw.state = (raw.state.get() | uext4_ondisk::STATE_CLEAN).into();
                }
            })
        })
    }

    /// Waits until nothing writes data any more. A later writer finds, with the `ilock` held, that the file
    /// system is read-only.
    fn wait_for_writers(&self) {
        let mut inodes = Vec::new();
        self.table
            .icache
            .for_each(|inode| inodes.push(Arc::clone(inode)));
        for inode in inodes {
            drop(ilock(&inode.ilock, LockMode::Exclusive));
        }
    }

    /// Stops without writing anything, as a crash would; for tests of recovery.
    pub fn crash(&self) {
        self.volume.set_mounted(false);
        self.volume.set_read_only();
        self.volume
            .journal()
            .abort(JournalError::Aborted("crashed on purpose".into()));
        self.table.lazytime.stop();
        self.volume.journal().stop();
        if let Some(hold) = self.volume.take_hold() {
            hold.abandon();
        }
    }

    /// Makes everything durable that was done before the call; a freeze has done that.
    ///
    /// # Errors
    /// The device's, or that the journal was aborted.
    pub fn sync(&self) -> Result<()> {
        self.volume.journal().check_aborted()?;
        let Some(_change) = self.volume.freeze.change_unless_frozen() else {
            return Ok(());
        };
        if self.volume.has_nothing_to_sync() {
            return Ok(());
        }
        self.table.write_pending_times(Duration::ZERO)?;
        self.volume.record_errors_now();
        Ok(self.volume.journal().sync()?)
    }
}
