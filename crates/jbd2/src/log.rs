//! The log: where the next block goes, how much room there is, what its superblock says.
//!
//! # Invariants
//! Blocks from the tail to the head belong to transactions that are not all in place. The superblock
//! names the tail, durably, before the blocks behind it are written again.
//!
//! | module | holds |
//! | --- | --- |
//! | `chunk` | a descriptor block and the blocks that it names |
//! | `fast_commits` | fast commits, in the area behind the log |

mod chunk;
mod fast_commits;

pub(crate) use chunk::Chunk;

use crate::error::{JournalError, Result};
use crate::map::LogMap;
use fast_commits::FastCommits;
use std::sync::Arc;
use uext4_block::BlockDevice;
use uext4_ondisk::{
    CommitBlock, DescriptorBuilder, JournalFormat, JournalIncompat, JournalSuper, Pblk,
    RevokeBuilder, Tid,
};

/// What the file system requires of a log that it opens.
#[derive(Clone, Copy, Debug)]
pub struct LogFeatures {
    /// Checksums (version 3, unless the log has version 2).
    pub checksums: bool,
    /// Block numbers of 64 bits.
    pub wide: bool,
    /// Blocks at the end are for fast commits.
    pub fast_commits: bool,
}

/// What a log has to be to be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opened {
    /// Empty.
    Empty,
    /// Recovered, but not marked empty because of fast commits.
    WithFastCommits,
}

/// A log that is open for writing.
#[derive(Debug)]
pub(crate) struct Log {
    map: LogMap,
    sb: JournalSuper,
    format: JournalFormat,
    /// The next block to be written.
    head: u32,
    /// Blocks from the tail to the head.
    used: u32,
    pub(crate) fast: FastCommits,
    /// The transaction being written.
    tid: Tid,
    /// Bytes written for the transaction.
    bytes: u64,
}

impl Log {
    /// Opens a log that holds no transactions to be replayed.
    pub fn open(map: LogMap, features: LogFeatures, opened: Opened) -> Result<Log> {
        let block_size = map.block_size();
        let mut block = vec![0; block_size];
        map.read(0, &mut block)?;
        let mut sb = JournalSuper::parse(&block, block_size as u32)?;
        if !sb.is_empty() && opened == Opened::Empty {
            return Err(JournalError::Unsupported("it needs recovery first".into()));
        }
        if sb.raw.maxlen.get() > map.len() {
            return Err(
                uext4_ondisk::Corrupt::new(uext4_ondisk::CorruptKind::JournalMaxLen).into(),
            );
        }
        if sb.raw.block_type.get() == uext4_ondisk::JournalBlockType::SuperV2.to_raw() {
            sb = set_features(&map, sb, features)?;
        }
        let format = sb.format();
        Ok(Log {
            head: sb.raw.start.get().max(sb.raw.first.get()),
            used: 0,
            fast: match opened {
                Opened::WithFastCommits => FastCommits::full(next_tid(&sb)),
                Opened::Empty => FastCommits::default(),
            },
            tid: Tid(sb.raw.sequence.get()),
            bytes: 0,
            format,
            sb,
            map,
        })
    }

    /// The number of the first transaction, with the bits above those of the log never all 0.
    pub fn next_tid(&self) -> u64 {
        next_tid(&self.sb)
    }

    fn first(&self) -> u32 {
        self.sb.raw.first.get()
    }

    fn capacity(&self) -> u32 {
        self.sb.log_end() - self.first()
    }

    fn free(&self) -> i64 {
        i64::from(self.capacity()) - i64::from(self.used)
    }

    /// The most blocks one transaction may hold.
    pub fn transaction_max(&self) -> i64 {
        i64::from(self.capacity() / 4)
    }

    /// Blocks that a transaction may hold now, with what describes them left aside.
    pub fn room(&self) -> i64 {
        Self::without_overhead(self.free())
    }

    /// [`Log::room`] after a transaction of `blocks` blocks is written.
    pub fn room_after(&self, blocks: i64) -> i64 {
        let descriptors = blocks / Chunk::capacity(&self.format) as i64;
        Self::without_overhead(self.free() - blocks - descriptors - 16)
    }

    fn without_overhead(free: i64) -> i64 {
        // Descriptors are a third where each has two blocks.
        let share = if cfg!(shuttle) { 3 } else { 32 };
        free - free / share - 16
    }

    /// Whether it is time to make room.
    pub fn is_low(&self) -> bool {
        self.free() < i64::from(self.capacity() / 2)
    }

    /// Starts writing a transaction; returns its first block.
    pub fn begin(&mut self, tid: u64) -> Result<u32> {
        self.tid = Tid(tid as u32);
        self.bytes = 0;
        if self.used == 0 {
            // A log that is marked empty is not read.
            self.write_super(self.head, self.tid)?;
        }
        Ok(self.head)
    }

    /// An empty log does not say that it has fast commits, so that an implementation without them can open it.
    fn write_super(&mut self, start: u32, sequence: Tid) -> Result<()> {
        self.sb.raw.start = start.into();
        self.sb.raw.sequence = sequence.0.into();
        let mut incompat = self.sb.incompat;
        if start == 0 {
            incompat -= JournalIncompat::FAST_COMMIT;
        }
        self.sb.raw.feature_incompat = incompat.bits().into();
        write_super(&self.map, &mut self.sb)
    }

    /// Writes blocks at the head, which moves; the log may wrap in between.
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let size = self.format.block_size as usize;
        let mut rest = bytes;
        while !rest.is_empty() {
            let till_end = (self.sb.log_end() - self.head) as usize * size;
            let (now, later) = rest.split_at(till_end.min(rest.len()));
            let blocks = (now.len() / size) as u32;
            if i64::from(blocks) >= self.free() {
                return Err(JournalError::Aborted("the log is full".into()));
            }
            self.map.write(self.head, now)?;
            self.advance(blocks);
            rest = later;
        }
        Ok(())
    }

    fn advance(&mut self, blocks: u32) {
        self.head += blocks;
        self.used += blocks;
        self.bytes += u64::from(blocks) * u64::from(self.format.block_size);
        if self.head >= self.sb.log_end() {
            self.head = self.first();
        }
    }

    /// Writes revoke records.
    pub fn revokes(&mut self, blocks: &[u64]) -> Result<()> {
        let mut block = vec![0; self.format.block_size as usize];
        for some in blocks.chunks(RevokeBuilder::capacity(&self.format).max(1)) {
            let mut builder = RevokeBuilder::new(&mut block, self.format, self.tid);
            for b in some {
                // The chunk is no longer than a block's capacity.
                let _ = builder.push(Pblk(*b));
            }
            builder.finish();
            self.append(&block)?;
        }
        Ok(())
    }

    /// How its blocks are laid out.
    pub fn format(&self) -> JournalFormat {
        self.format
    }

    /// Writes blocks and the descriptor block that names them; `chunk` is empty then.
    pub fn write_chunk(&mut self, chunk: &mut Chunk) -> Result<()> {
        if chunk.tags.is_empty() {
            return Ok(());
        }
        let size = self.format.block_size as usize;
        if let Some(head) = chunk.bytes.get_mut(..size) {
            let mut builder = DescriptorBuilder::new(head, self.format, self.tid);
            for (pblk, escaped, checksum) in chunk.tags.drain(..) {
                // It has no more than fit.
                let _ = builder.push(pblk, escaped, checksum);
            }
            builder.finish();
        }
        let written = self.append(&chunk.bytes);
        chunk.bytes.clear();
        written
    }

    /// Makes what is written to `device` and to the log durable before the commit block is. A device whose flush is atomic makes all of it
    /// durable with that block.
    pub fn flush_before_commit(&self, device: &Arc<dyn BlockDevice>) -> Result<()> {
        match self.is_apart_from(device) || !device.is_flush_atomic() {
            true => self.flush(device),
            false => Ok(()),
        }
    }

    /// Whether the log is on another device.
    fn is_apart_from(&self, device: &Arc<dyn BlockDevice>) -> bool {
        let own = self.map.device();
        let identity = own.identity();
        // Two without an identity may be different ones.
        let is_same = identity.is_some() && identity == device.identity();
        !is_same && !Arc::ptr_eq(device, own)
    }

    /// Makes what is written to `device` and to the log durable.
    pub fn flush(&self, device: &Arc<dyn BlockDevice>) -> Result<()> {
        device.flush()?;
        if self.is_apart_from(device) {
            self.map.device().flush()?;
        }
        Ok(())
    }

    /// Writes the commit block, durably if `barrier`; returns the bytes of the transaction.
    pub fn commit(&mut self, barrier: bool) -> Result<u64> {
        let now = uext4_sync::clock::since_epoch();
        let mut block = vec![0; self.format.block_size as usize];
        CommitBlock {
            tid: self.tid,
            sec: now.as_secs(),
            nsec: now.subsec_nanos(),
            v1_checksum: None,
        }
        .encode_into(&mut block, &self.format);
        if self.free() <= 1 {
            return Err(JournalError::Aborted("the log is full".into()));
        }
        if barrier {
            self.map.write_fua(self.head, &block)?;
        } else {
            self.map.write(self.head, &block)?;
        }
        self.advance(1);
        Ok(self.bytes)
    }

    /// Moves the tail to the start of a transaction, or empties the log; `next` is the transaction
    /// that will be written next. While that has fast commits, the log is not marked empty.
    pub fn set_tail(&mut self, tail: Option<(u64, u32)>, next: u64) -> Result<()> {
        let Some((tid, start)) = tail else {
            self.used = 0;
            if self.fast.are_of(next) {
                return self.write_super(self.head, Tid(next as u32));
            }
            // It names the next transaction already.
            if self.sb.is_empty() {
                return Ok(());
            }
            return self.write_super(0, Tid(next as u32));
        };
        let behind = i64::from(self.head) - i64::from(start);
        self.used = behind.rem_euclid(i64::from(self.capacity())) as u32;
        if self.sb.raw.start.get() == start {
            return Ok(());
        }
        self.write_super(start, Tid(tid as u32))
    }
}

fn next_tid(sb: &JournalSuper) -> u64 {
    1 << 32 | u64::from(sb.raw.sequence.get())
}

fn set_features(map: &LogMap, mut sb: JournalSuper, features: LogFeatures) -> Result<JournalSuper> {
    let mut want = sb.incompat | JournalIncompat::REVOKE;
    if features.wide {
        want |= JournalIncompat::BIT64;
    }
    // While there may be some, their blocks are reserved.
    let reserves = features.fast_commits && sb.has_room_for_fast_commits() || !sb.is_empty();
    want.set(JournalIncompat::FAST_COMMIT, reserves);
    if features.checksums && !want.contains(JournalIncompat::CSUM_V2) {
        want |= JournalIncompat::CSUM_V3;
    }
    if want == sb.incompat {
        return Ok(sb);
    }
    sb.raw.feature_incompat = want.bits().into();
    if features.checksums {
        // Version 1 checksums exclude the newer ones.
        sb.raw.feature_compat = 0.into();
    }
    // The write that starts the log makes it durable.
    map.write(0, &super_block(map, &mut sb))?;
    let mut block = vec![0; map.block_size()];
    map.read(0, &mut block)?;
    Ok(JournalSuper::parse(&block, map.block_size() as u32)?)
}

/// Writes the log's superblock, durably.
pub(crate) fn write_super(map: &LogMap, sb: &mut JournalSuper) -> Result<()> {
    map.write_fua(0, &super_block(map, sb))
}

/// The block with the log's superblock, with its checksum.
fn super_block(map: &LogMap, sb: &mut JournalSuper) -> Vec<u8> {
    sb.raw.update_checksum();
    let mut block = vec![0; map.block_size()];
    let bytes = sb.bytes();
    if let Some(head) = block.get_mut(..bytes.len()) {
        head.copy_from_slice(bytes);
    }
    block
}
