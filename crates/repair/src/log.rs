//! Edits as one transaction of the journal of the image.
//!
//! # Crash
//! The superblock asks for recovery before the log holds anything, and the commit block completes the transaction: before it the image is as
//! it was, after it whatever recovers the journal (this crate, the kernel, e2fsck) completes the repair. A superblock that is damaged can't
//! ask before: it is replaced by one that does once the transaction is complete.

use crate::error::RepairError;
use crate::write;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use uext4_block::BlockDevice;
use uext4_check::{EDIT_UNIT, EditedDevice, FaultKind, LogPlace, Plan};
use uext4_jbd2::buffer::BufferCache;
use uext4_jbd2::{
    Journal, JournalError, JournalOptions, LogFeatures, LogMap, LogRun, Opened, clear, is_empty,
    skip,
};
use uext4_ondisk::{Ino, RawSuperblock, SUPERBLOCK_OFFSET, SUPERBLOCK_SIZE, Superblock};

/// Blocks of a run of a file at most.
const RUN_BLOCKS_MAX: u64 = 1 << 16;
/// Bytes of a read or write: the memory for more is mapped for each anew.
const READ_BYTES_MAX: u64 = 1 << 16;

/// A transaction that can be made of the edits of a plan.
pub(crate) struct Transaction<'p> {
    place: &'p LogPlace,
    /// Blocks that change, without those of the log.
    blocks: BTreeSet<u64>,
    /// The first block of the log changes too: its own superblock.
    changes_log: bool,
}

impl<'p> Transaction<'p> {
    /// `None` if the image has no sound journal, or the repair needs what its blocks hold.
    pub(crate) fn of(plan: &'p Plan) -> Option<Transaction<'p>> {
        let place = plan.log.as_ref().filter(|_| plan.log_stays)?;
        let first = place.runs.first()?.1.0;
        let in_log = |block: u64| {
            let mut runs = place.runs.iter();
            runs.any(|(_, at, len)| (at.0..at.0.saturating_add(u64::from(*len))).contains(&block))
        };
        // Data of files may lie in the log until it is copied from there. A fault names the first block of a run.
        let near_log = |at: u64| {
            let mut runs = place.runs.iter();
            runs.any(|(_, first, len)| {
                let end = first.0.saturating_add(u64::from(*len));
                (first.0.saturating_sub(RUN_BLOCKS_MAX)..end).contains(&at)
            })
        };
        let claims_log = plan.decisions.iter().any(|d| {
            let kinds = [FaultKind::BlockShared, FaultKind::BlockIsMetadata];
            kinds.contains(&d.fault.kind) && d.fault.pblk.is_none_or(|at| near_log(at.0))
        });
        let units = u64::from(place.block_size) / EDIT_UNIT as u64;
        let blocks = plan.edits.units().map(|(at, _)| at / units);
        let (of_log, blocks): (BTreeSet<_>, _) = blocks.partition(|block| in_log(*block));
        (!claims_log && of_log.iter().all(|block| *block == first)).then_some(Transaction {
            place,
            blocks,
            changes_log: !of_log.is_empty(),
        })
    }

    /// Carries out the edits, all of them or none. False if the log can't take them: then nothing was written but what recovery writes.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn run(
        &self,
        device: &Arc<dyn BlockDevice>,
        plan: &Plan,
    ) -> Result<bool, RepairError> {
        match self.commit_and_write(device, plan) {
            Ok(()) => Ok(true),
            Err(RepairError::Journal(
                JournalError::TooLarge { .. }
                | JournalError::Corrupt(_)
                | JournalError::Unsupported(_),
            )) => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn commit_and_write(
        &self,
        device: &Arc<dyn BlockDevice>,
        plan: &Plan,
    ) -> Result<(), RepairError> {
        let block_size = u64::from(self.place.block_size);
        let map = || {
            let runs = self.place.runs.iter().map(|(first, at, len)| LogRun {
                first: *first,
                pblk: at.0,
                len: *len,
            });
            LogMap::new(Arc::clone(device), block_size as usize, runs.collect())
        };
        if !plan.replay.is_empty() {
            write::ordered(&**device, &plan.replay, Some(self.place))?;
        }
        if self.changes_log {
            write::log_superblock(&**device, self.place, &plan.edits)?;
        }
        // A repair that was interrupted may have left a transaction that no superblock asks for.
        if !is_empty(&map())? {
            skip(&map())?;
        }
        let new = EditedDevice::new(&**device, &plan.edits);
        let super_block = SUPERBLOCK_OFFSET / block_size;
        let mut changed = self.changed(&**device, &new)?;
        changed.retain(|block| *block != super_block);
        let runs = runs(changed.iter().copied(), block_size);
        let superblock = |asks: bool| -> Result<Vec<u8>, RepairError> {
            let mut block = vec![0; block_size as usize];
            new.read_at(super_block * block_size, &mut block)?;
            let at = (SUPERBLOCK_OFFSET % block_size) as usize;
            let raw = block.get_mut(at..at + SUPERBLOCK_SIZE);
            if let Some(raw) = raw.and_then(RawSuperblock::mut_from).filter(|_| asks) {
                raw.ask_for_recovery();
            }
            Ok(block)
        };
        let (asking, last) = (superblock(true)?, superblock(false)?);
        let was = ask_before(&**device, &last, block_size)?;
        let opened = self.journal(device, map(), changed.len());
        let committed = opened.and_then(|journal| {
            let committed = commit(&journal, &new, &runs, (super_block, &asking));
            // The commit thread must not write in place what the superblock does not ask for yet.
            journal.abort(JournalError::Aborted(
                "its blocks are written after it".into(),
            ));
            journal.stop();
            committed
        });
        if let (Err(_), Some(was)) = (&committed, &was) {
            device.write_at(SUPERBLOCK_OFFSET, was)?;
            device.flush()?;
        }
        committed?;
        device.write_at(super_block * block_size, &asking)?;
        if was.is_none() {
            device.flush()?;
        }
        // From here on the repair has been carried out: no error of the log lets it be written again.
        for run in &runs {
            device.write_at(run.start * block_size, &read(&new, run, block_size)?)?;
        }
        device.flush()?;
        // First: e2fsck -p gives up where no recovery is asked for and the log is not empty.
        clear(&map()).map_err(RepairError::Recovery)?;
        device.write_at(super_block * block_size, &last)?;
        Ok(device.flush()?)
    }
}

impl Transaction<'_> {
    /// The journal, for one transaction of so many blocks.
    fn journal(
        &self,
        device: &Arc<dyn BlockDevice>,
        map: LogMap,
        blocks: usize,
    ) -> Result<Arc<Journal>, RepairError> {
        let block_size = self.place.block_size as usize;
        let cache = BufferCache::new(Arc::clone(device), block_size, blocks.saturating_add(64));
        Ok(Journal::open(
            Arc::new(cache),
            map,
            LogFeatures {
                checksums: self.place.has_checksums,
                wide: self.place.is_wide,
                fast_commits: self.place.has_fast_commits,
            },
            JournalOptions {
                fills_log: true,
                ..JournalOptions::default()
            },
            Opened::Empty,
        )?)
    }

    /// The blocks that change still: what recovery has written is there.
    fn changed(
        &self,
        device: &dyn BlockDevice,
        new: &dyn BlockDevice,
    ) -> Result<Vec<u64>, RepairError> {
        let size = u64::from(self.place.block_size);
        let mut changed = Vec::new();
        for run in runs(self.blocks.iter().copied(), size) {
            let (is, will_be) = (read(device, &run, size)?, read(new, &run, size)?);
            let contents = is.chunks(size as usize).zip(will_be.chunks(size as usize));
            let differing = run.zip(contents).filter(|(_, (is, will_be))| is != will_be);
            changed.extend(differing.map(|(block, _)| block));
        }
        Ok(changed)
    }
}

/// Makes the superblock that the device has ask for recovery, and returns what it was: before the log holds anything, as e2fsck -p gives up
/// where no recovery is asked for and the log is not empty. `None` if it is damaged, or names another journal than the `new` one.
fn ask_before(
    device: &dyn BlockDevice,
    new: &[u8],
    block_size: u64,
) -> Result<Option<Vec<u8>>, RepairError> {
    let at = (SUPERBLOCK_OFFSET % block_size) as usize;
    let new = new.get(at..at + SUPERBLOCK_SIZE).unwrap_or(&[]);
    let new = Superblock::parse(new).ok();
    let number = new.and_then(|sb| sb.journal_ino());
    write::mark(device, |raw| {
        raw.ask_for_recovery();
        number == Some(Ino(raw.journal_inum.get()))
    })
}

/// Runs of blocks that follow each other, of [`READ_BYTES_MAX`] bytes at most.
fn runs(blocks: impl Iterator<Item = u64>, block_size: u64) -> Vec<Range<u64>> {
    let most = (READ_BYTES_MAX / block_size).max(1);
    let mut runs: Vec<Range<u64>> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(run) if run.end == block && run.end - run.start < most => run.end += 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs
}

/// What a run of blocks holds.
fn read(
    device: &dyn BlockDevice,
    run: &Range<u64>,
    block_size: u64,
) -> Result<Vec<u8>, RepairError> {
    let mut content = vec![0; ((run.end - run.start) * block_size) as usize];
    device.read_at(run.start * block_size, &mut content)?;
    Ok(content)
}

/// Commits the new content of blocks, and that of the superblock's.
fn commit(
    journal: &Journal,
    new: &dyn BlockDevice,
    runs: &[Range<u64>],
    superblock: (u64, &[u8]),
) -> Result<(), RepairError> {
    let size = superblock.1.len();
    let blocks: u64 = runs.iter().map(|run| run.end - run.start).sum();
    let credits = u32::try_from(blocks.saturating_add(1)).unwrap_or(u32::MAX);
    let handle = journal.start(credits)?;
    for run in runs {
        let content = read(new, run, size as u64)?;
        for (block, content) in run.clone().zip(content.chunks(size)) {
            let buffer = journal.cache().get_unread(block);
            handle.create(&buffer)?.data_mut().copy_from_slice(content);
        }
    }
    let buffer = journal.cache().get_unread(superblock.0);
    let mut content = handle.create(&buffer)?;
    content.data_mut().copy_from_slice(superblock.1);
    drop(content);
    handle.finish();
    Ok(journal.sync()?)
}
