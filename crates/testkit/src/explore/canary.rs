//! Planted bugs, each of which the explorer must catch.
//!
//! A bug bends what passes between the file system and the device, as if the file system did it: while the
//! workload runs, while a state is recovered, or after that. Nothing inside the file system knows of them.

use super::alphabet::Sequences;
use super::base::{BLOCK, Base, Config, STALE, TOP, free_blocks};
use super::bug::Bug;
use super::others::Others;
use super::recovery::replay;
use super::run::{explore, number_at};
use super::shared::Shared;
use super::tally::Tally;
use crate::device::ForkDevice;
use crate::external::*;
use crate::tree::Tree;
use uext4_ondisk::{JournalBlockType, JournalHeader, JournalSuper, SUPERBLOCK_OFFSET};
use uext4_sync::{Mutex, MutexGuard, class};
use zerocopy::IntoBytes;

/// A bug, what it does, and where to search for it.
#[derive(Clone, Copy, Debug)]
pub struct Canary {
    /// The bug.
    pub bug: Bug,
    /// What it does.
    pub what: &'static str,
    /// The kind of file system.
    config: &'static str,
    /// Steps of the sequences.
    steps: u32,
}

const fn canary(bug: Bug, config: &'static str, steps: u32, what: &'static str) -> Canary {
    Canary {
        bug,
        what,
        config,
        steps,
    }
}

/// All of them.
#[rustfmt::skip]
pub const CANARIES: [Canary; 27] = [
    canary(Bug::NoBarrierBeforeCommit, "writeback", 1, "the commit block is written without a flush of what it commits"),
    canary(Bug::CommitNotDurable, "ordered", 1, "the commit block is not made durable before fsync returns"),
    canary(Bug::CommitBeforeLog, "writeback", 1, "the commit block is written before the transaction's blocks"),
    canary(Bug::DataAfterCommit, "ordered", 1, "data reaches the device after the commit of what points to it"),
    canary(Bug::TailBeforeCheckpoint, "ordered", 1, "the log's tail moves before the checkpoint's writes are durable"),
    canary(Bug::LogNeverInUse, "ordered", 1, "the log's superblock never says that the log is in use"),
    canary(Bug::TailNeverMoves, "wrap", 2, "the log is written again where its superblock says it is in use"),
    canary(Bug::RevokesForgotten, "journal", 2, "freed blocks of metadata and journaled data are not revoked"),
    canary(Bug::CopyIsStale, "writeback", 1, "a block is copied to the log as it was before the transaction"),
    canary(Bug::CopyHasAnotherPlace, "writeback", 1, "a descriptor names another block than the one that was copied"),
    canary(Bug::CheckpointLosesABlock, "ordered", 1, "a checkpoint leaves a block out"),
    canary(Bug::CheckpointMisplacesABlock, "ordered", 1, "a checkpoint writes a block to the place after its own"),
    canary(Bug::DataLost, "ordered", 1, "a write of data never reaches the device"),
    canary(Bug::DeviceLies, "ordered", 1, "flushes and durable writes make nothing durable"),
    canary(Bug::RecoveryWithoutFlush, "ordered", 1, "recovery marks the log empty without a flush of what it replayed"),
    canary(Bug::RecoveryEmptiesLogFirst, "ordered", 1, "recovery marks the log empty before it replays it"),
    canary(Bug::RecoverySkipsABlock, "ordered", 1, "recovery leaves a block of the log out"),
    canary(Bug::RecoveryIgnoresTheLog, "ordered", 1, "a mount takes a log in use for an empty one"),
    canary(Bug::OrphansForgotten, "wrap", 1, "the list of orphans is empty after a crash"),
    canary(Bug::BitmapBitLost, "ordered", 1, "a block in use is free in its bitmap"),
    canary(Bug::LinkCountOff, "writeback", 1, "an inode has one name more than it counts"),
    canary(Bug::FreeBlockInLog, "ordered", 1, "the log has a copy of a free block, to be replayed over whatever comes there"),
    canary(Bug::DataBlockInLog, "ordered", 1, "the log has a copy of a file's data that does not go through it"),
    canary(Bug::SyncedByteChanged, "ordered", 1, "a byte of synced data is another after recovery"),
    canary(Bug::NameLost, "writeback", 1, "a synced name is gone after recovery"),
    canary(Bug::StaleBlockShown, "ordered", 1, "a file shows what its block held before it was the file's"),
    canary(Bug::SyncForgotten, "ordered", 1, "a sync says that it is done, and does nothing"),
];

impl Canary {
    /// What the explorer says of the bug; `None` if nothing, after `sequences` sequences.
    pub fn caught(&self, sequences: u64) -> Result<Option<String>> {
        let mut base = Base::new(Config::find(self.config)?)?;
        base.bug = Some(self.bug);
        let shared = Shared::new(false);
        let others = Others::new(Arc::clone(&shared.shapes), false)?;
        let all = Sequences::of(self.steps);
        let mut tally = Tally::default();
        for place in 0..sequences.min(all.count()) {
            let number = number_at(&all, place);
            let done = explore(&base, &all, number, (&shared, &others), None, &mut tally);
            if let Err(failed) = done {
                return Ok(Some(failed.why));
            }
        }
        Ok(None)
    }
}

/// Where the log is, and how its blocks are written.
#[derive(Debug)]
struct Layout {
    log: Range<u64>,
    sb: JournalSuper,
    /// A block of a file.
    data: u32,
}

/// A device that bends what passes as a bug would.
#[derive(Debug)]
pub struct Bent {
    inner: Arc<dyn BlockDevice>,
    bug: Bug,
    layout: Layout,
    held: Mutex<Held>,
}

/// What was not passed on yet.
#[derive(Debug, Default)]
struct Held {
    writes: Vec<(u64, Vec<u8>)>,
    count: u64,
}

impl Bent {
    /// Bends writes to `inner`, a copy of `base`.
    pub fn new(base: &Base, inner: Arc<dyn BlockDevice>, bug: Bug) -> Result<Bent> {
        let block = base.image.block(base.log.start);
        let sb = JournalSuper::parse(block, BLOCK as u32).context("a log")?;
        let data = (0..base.image.len() / BLOCK as u64)
            .find(|number| base.image.block(*number) == [0x11; BLOCK])
            .context("a block of the file `a`")?;
        Ok(Bent {
            inner,
            bug,
            layout: Layout {
                log: base.log.clone(),
                sb,
                data: data as u32,
            },
            held: Mutex::new(&class::DEVICE, Held::default()),
        })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }

    fn is_log(&self, offset: u64) -> bool {
        self.layout.log.contains(&(offset / BLOCK as u64))
    }

    fn is_log_super(&self, offset: u64) -> bool {
        offset / BLOCK as u64 == self.layout.log.start
    }

    fn hold(&self, offset: u64, bytes: &[u8]) {
        self.held().writes.push((offset, bytes.to_vec()));
    }

    fn release(&self) -> uext4_block::Result<()> {
        let writes = std::mem::take(&mut self.held().writes);
        writes
            .iter()
            .try_for_each(|(offset, bytes)| self.inner.write_at(*offset, bytes))
    }

    /// Whether it is the turn of the bug: one time in `n`.
    fn turn(&self, n: u64) -> bool {
        let mut held = self.held();
        held.count += 1;
        held.count.is_multiple_of(n)
    }

    /// The blocks of a write to the log, bent.
    fn bend_log(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bent = bytes.to_vec();
        let format = self.layout.sb.format();
        let mut descriptor = false;
        for block in bent.chunks_mut(BLOCK) {
            let kind = JournalHeader::read(block)
                .ok()
                .map(|header| header.block_type);
            match (self.bug, kind) {
                (Bug::RevokesForgotten, Some(JournalBlockType::Revoke)) => {
                    block[12..16].copy_from_slice(&16u32.to_be_bytes());
                    format.tail_checksum_set(block);
                }
                (Bug::CopyHasAnotherPlace, Some(JournalBlockType::Descriptor)) => {
                    let place = u32::from_be_bytes([block[12], block[13], block[14], block[15]]);
                    block[12..16].copy_from_slice(&(place + 1).to_be_bytes());
                }
                (Bug::FreeBlockInLog | Bug::DataBlockInLog, Some(JournalBlockType::Descriptor)) => {
                    // Block 2047 of 2048 is never needed.
                    let place = match self.bug {
                        Bug::FreeBlockInLog => 2047,
                        _ => self.layout.data,
                    };
                    block[12..16].copy_from_slice(&place.to_be_bytes());
                    format.tail_checksum_set(block);
                }
                (Bug::CopyIsStale, Some(JournalBlockType::Descriptor)) => descriptor = true,
                (Bug::CopyIsStale, _) if descriptor => {
                    block.fill(0);
                    descriptor = false;
                }
                _ => {}
            }
        }
        bent
    }

    fn write_in_place(&self, offset: u64, buf: &[u8]) -> uext4_block::Result<()> {
        let is_data =
            free_blocks(&*self.inner).is_ok_and(|free| free.contains(offset / BLOCK as u64));
        match self.bug {
            Bug::DataAfterCommit if is_data => {
                self.hold(offset, buf);
                Ok(())
            }
            Bug::TailBeforeCheckpoint | Bug::RecoveryEmptiesLogFirst if !is_data => {
                self.hold(offset, buf);
                Ok(())
            }
            Bug::CheckpointLosesABlock | Bug::RecoverySkipsABlock if !is_data && self.turn(5) => {
                Ok(())
            }
            Bug::CheckpointMisplacesABlock if !is_data && self.turn(5) => {
                self.inner.write_at(offset + BLOCK as u64, buf)
            }
            Bug::DataLost if is_data => Ok(()),
            _ => self.inner.write_at(offset, buf),
        }
    }
}

impl BlockDevice for Bent {
    forward_device!(self => self.inner; len, is_read_only, discard, zero, set_len, identity);

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> uext4_block::Result<()> {
        self.inner.read_at(offset, buf)?;
        if self.bug == Bug::RecoveryIgnoresTheLog
            && self.is_log_super(offset)
            && let Ok(mut sb) = JournalSuper::parse(buf, BLOCK as u32)
        {
            sb.raw.start = 0.into();
            sb.raw.update_checksum();
            let bytes = sb.bytes();
            buf[..bytes.len()].copy_from_slice(bytes);
        }
        let end = offset + buf.len() as u64;
        for (at, bytes) in &self.held().writes {
            let (from, to) = (offset.max(*at), end.min(at + bytes.len() as u64));
            if from < to {
                let part = &bytes[(from - at) as usize..(to - at) as usize];
                buf[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> uext4_block::Result<()> {
        if !self.is_log(offset) {
            return self.write_in_place(offset, buf);
        }
        let bytes = self.bend_log(buf);
        match self.bug {
            Bug::CommitBeforeLog => {
                self.hold(offset, &bytes);
                Ok(())
            }
            _ => self.inner.write_at(offset, &bytes),
        }
    }

    fn flush(&self) -> uext4_block::Result<()> {
        match self.bug {
            Bug::NoBarrierBeforeCommit | Bug::DeviceLies | Bug::RecoveryWithoutFlush => Ok(()),
            Bug::CommitBeforeLog => Ok(()),
            _ => self.inner.flush(),
        }
    }

    fn write_fua(&self, offset: u64, buf: &[u8]) -> uext4_block::Result<()> {
        let is_super = self.is_log_super(offset);
        match self.bug {
            Bug::DeviceLies => return self.inner.write_at(offset, buf),
            Bug::CommitNotDurable if !is_super => return self.inner.write_at(offset, buf),
            Bug::LogNeverInUse | Bug::TailNeverMoves if is_super => {
                let is_in_use =
                    JournalSuper::parse(buf, BLOCK as u32).is_ok_and(|sb| !sb.is_empty());
                let drops = match self.bug {
                    Bug::LogNeverInUse => is_in_use,
                    _ => is_in_use && self.turn(2),
                };
                if drops {
                    return Ok(());
                }
            }
            _ => {}
        }
        self.inner.write_fua(offset, buf)?;
        let releases = match self.bug {
            Bug::TailBeforeCheckpoint | Bug::RecoveryEmptiesLogFirst => is_super,
            _ => !is_super,
        };
        match releases {
            true => self.release(),
            false => Ok(()),
        }
    }
}

impl Bug {
    /// Whether it bends what a recovery writes.
    fn is_in_recovery(self) -> bool {
        matches!(
            self,
            Bug::RecoveryWithoutFlush
                | Bug::RecoveryEmptiesLogFirst
                | Bug::RecoverySkipsABlock
                | Bug::RecoveryIgnoresTheLog
        )
    }

    /// Bends what a workload does to `device`.
    pub fn in_workload(
        self,
        base: &Base,
        device: Arc<dyn BlockDevice>,
    ) -> Result<Arc<dyn BlockDevice>> {
        match self.is_in_recovery() {
            true => Ok(device),
            false => Ok(Arc::new(Bent::new(base, device, self)?)),
        }
    }

    /// Bends what a recovery does to `device`.
    pub fn in_recovery(
        self,
        base: &Base,
        device: Arc<dyn BlockDevice>,
    ) -> Result<Arc<dyn BlockDevice>> {
        match self.is_in_recovery() {
            true => Ok(Arc::new(Bent::new(base, device, self)?)),
            false => Ok(device),
        }
    }

    /// Bends what the journal's recovery has left, before orphans are processed.
    pub fn before_orphans(self, base: &Base, device: &Arc<ForkDevice>) -> Result<()> {
        if self != Bug::OrphansForgotten {
            return Ok(());
        }
        replay(base, device)?;
        // A torn one is for the mount to repair.
        let Ok(mut sb) = read_superblock(&**device) else {
            return Ok(());
        };
        sb.raw.last_orphan = 0.into();
        sb.raw.update_checksum();
        Ok(device.write_at(SUPERBLOCK_OFFSET, sb.raw.as_bytes())?)
    }

    /// Bends what a mount found.
    pub fn in_tree(self, tree: &mut Tree) {
        let path = format!("{TOP}/a").into_bytes();
        match self {
            Bug::NameLost => drop(tree.remove(&path)),
            Bug::SyncedByteChanged | Bug::StaleBlockShown => {
                let Some(entry) = tree.get_mut(&path) else {
                    return;
                };
                let len = match self {
                    Bug::SyncedByteChanged => 1,
                    _ => BLOCK,
                };
                let bytes = entry.data.iter_mut().take(len);
                bytes.for_each(|byte| *byte = STALE);
            }
            _ => {}
        }
    }

    /// Bends what a recovery has left, before the verifier sees it.
    pub fn before_check(self, device: &ForkDevice) -> Result<()> {
        let sb = read_superblock(device)?;
        let (block, at) = sb.geometry.group_desc_location(GroupNo(0));
        let mut bytes = vec![0; BLOCK];
        device.read_at(block.0 * BLOCK as u64, &mut bytes)?;
        let desc = bytes.get(at..at + usize::from(sb.geometry.desc_size));
        let desc = GroupDesc::decode(desc.context("a group descriptor")?)?;
        match self {
            // The first block of the group is the superblock's.
            Bug::BitmapBitLost => flip(device, desc.block_bitmap.0 * BLOCK as u64, 1)?,
            // The root's inode is the second; its count of names is 26 bytes into it.
            Bug::LinkCountOff => {
                let inode = desc.inode_table.0 * BLOCK as u64 + u64::from(sb.geometry.inode_size);
                flip(device, inode + 26, 1)?;
            }
            _ => {}
        }
        Ok(())
    }
}

fn flip(device: &ForkDevice, at: u64, bits: u8) -> Result<()> {
    let mut byte = [0];
    device.read_at(at, &mut byte)?;
    Ok(device.write_at(at, &[byte[0] ^ bits])?)
}
