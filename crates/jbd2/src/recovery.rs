//! Replaying a log: scan for complete transactions, collect revocations, write the newest copies.
//!
//! # Crash
//! Replaying is idempotent: the log is marked empty only once everything it holds is durable in place.

use crate::error::{JournalError, Result};
use crate::log;
use crate::map::LogMap;
use std::collections::{BTreeMap, HashMap};
use uext4_block::BlockDevice;
use uext4_ondisk::{
    BlockTag, CommitBlock, Corrupt, CorruptKind, DescriptorReader, JournalBlockType, JournalFormat,
    JournalHeader, JournalIncompat, JournalSuper, RevokeReader, TagFlags, Tid, crc32_be,
    journal_unescape,
};

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Complete transactions found.
    pub transactions: u32,
    /// Blocks written in place.
    pub replayed: u64,
    /// Copies not written because they were revoked or superseded.
    pub skipped: u64,
}

/// A copy in the log.
#[derive(Clone, Copy)]
struct Copy {
    at: u32,
    tag: BlockTag,
    tid: Tid,
}

/// What the scan collects.
#[derive(Default)]
struct Scan {
    copies: Vec<Copy>,
    /// The newest transaction that revoked a block.
    revoked: HashMap<u64, Tid>,
    transactions: u32,
}

/// Walks the log, wrapping at its end, no further than its length.
struct Cursor<'a> {
    map: &'a LogMap,
    at: u32,
    first: u32,
    end: u32,
    left: u32,
}

impl Cursor<'_> {
    /// Reads the next block; false when the whole log was read.
    fn read(&mut self, block: &mut [u8]) -> Result<Option<u32>> {
        let at = self.at;
        if !self.skip() {
            return Ok(None);
        }
        self.map.read(at, block)?;
        Ok(Some(at))
    }

    fn skip(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.at += 1;
        if self.at >= self.end {
            self.at = self.first;
        }
        true
    }
}

/// Reads and checks the log's superblock.
fn read_super(map: &LogMap) -> Result<JournalSuper> {
    let size = map.block_size();
    let mut block = vec![0; size];
    map.read(0, &mut block)?;
    let sb = JournalSuper::parse(&block, size as u32)?;
    if sb.raw.maxlen.get() > map.len() {
        return Err(Corrupt::new(CorruptKind::JournalMaxLen).into());
    }
    Ok(sb)
}

/// Whether the log holds nothing to be replayed.
///
/// # Errors
/// A damaged log, or the device's.
pub fn is_empty(map: &LogMap) -> Result<bool> {
    Ok(read_super(map)?.is_empty())
}

/// Marks the log empty without replaying it.
///
/// # Errors
/// A damaged log, or the device's.
pub fn skip(map: &LogMap) -> Result<()> {
    let mut sb = read_super(map)?;
    let first_tid = Tid(sb.raw.sequence.get());
    let transactions = scan(map, &sb, first_tid)?.transactions;
    mark_empty(map, &mut sb, first_tid, transactions)
}

/// One past the last: what an older, longer run left behind the end never looks like the next.
fn mark_empty(map: &LogMap, sb: &mut JournalSuper, first: Tid, transactions: u32) -> Result<()> {
    sb.raw.start = 0.into();
    sb.raw.sequence = first.0.wrapping_add(transactions + 1).into();
    log::write_super(map, sb)
}

/// Replays what the log at `map` holds onto `device` and marks it empty.
///
/// # Errors
/// A damaged log (naming the block), unknown features, or the device's.
pub fn recover(map: &LogMap, device: &dyn BlockDevice) -> Result<RecoveryReport> {
    let mut sb = read_super(map)?;
    if sb.is_empty() {
        return Ok(RecoveryReport::default());
    }
    if sb.incompat.contains(JournalIncompat::FAST_COMMIT) {
        return Err(JournalError::Unsupported("fast_commit".into()));
    }
    let first_tid = Tid(sb.raw.sequence.get());
    let scan = scan(map, &sb, first_tid)?;
    let report = replay(map, device, &sb.format(), &scan)?;
    device.flush()?;
    mark_empty(map, &mut sb, first_tid, scan.transactions)?;
    Ok(report)
}

/// Reads complete transactions in order; the log ends at the first thing that does not fit.
fn scan(map: &LogMap, sb: &JournalSuper, first_tid: Tid) -> Result<Scan> {
    let format = sb.format();
    let (first, end) = (sb.raw.first.get(), sb.log_end());
    let mut cursor = Cursor {
        map,
        at: sb.raw.start.get(),
        first,
        end,
        left: end - first,
    };
    let mut scan = Scan::default();
    let mut tid = first_tid;
    while let Some(found) = scan_transaction(&mut cursor, &format, tid)? {
        scan.copies.extend(found.copies);
        for (block, _) in found.revoked {
            scan.revoked.insert(block, tid);
        }
        scan.transactions += 1;
        tid = tid.next();
    }
    Ok(scan)
}

/// Reads one transaction; None if it is not complete.
fn scan_transaction(
    cursor: &mut Cursor<'_>,
    format: &JournalFormat,
    tid: Tid,
) -> Result<Option<Scan>> {
    let mut block = vec![0; format.block_size as usize];
    let mut found = Scan::default();
    let mut v1 = u32::MAX;
    loop {
        if cursor.read(&mut block)?.is_none() {
            return Ok(None);
        }
        let Ok(header) = JournalHeader::read(&block) else {
            return Ok(None);
        };
        if header.tid != tid {
            return Ok(None);
        }
        match header.block_type {
            JournalBlockType::Descriptor => {
                let Ok(tags) = DescriptorReader::new(&block, format) else {
                    return Ok(None);
                };
                let tags: std::result::Result<Vec<BlockTag>, Corrupt> = tags.collect();
                let Ok(tags) = tags else { return Ok(None) };
                v1 = crc32_be(v1, &block);
                for tag in tags {
                    let at = cursor.at;
                    if format.csum == uext4_ondisk::JournalCsum::V1 {
                        if cursor.read(&mut block)?.is_none() {
                            return Ok(None);
                        }
                        v1 = crc32_be(v1, &block);
                    } else if !cursor.skip() {
                        return Ok(None);
                    }
                    found.copies.push(Copy { at, tag, tid });
                }
            }
            JournalBlockType::Revoke => {
                let Ok(revoked) = RevokeReader::new(&block, format) else {
                    return Ok(None);
                };
                found.revoked.extend(revoked.map(|b| (b.0, tid)));
            }
            JournalBlockType::Commit => {
                let Ok(commit) = CommitBlock::decode(&block, format) else {
                    return Ok(None);
                };
                let fits = commit.v1_checksum.is_none_or(|sum| sum == v1);
                return Ok(fits.then_some(found));
            }
            _ => return Ok(None),
        }
    }
}

/// Writes the newest copy of each block that was not revoked later.
fn replay(
    map: &LogMap,
    device: &dyn BlockDevice,
    format: &JournalFormat,
    scan: &Scan,
) -> Result<RecoveryReport> {
    let size = format.block_size as usize;
    let blocks = device.len() / size as u64;
    let mut newest: BTreeMap<u64, Copy> = BTreeMap::new();
    for copy in &scan.copies {
        let block = copy.tag.pblk.0;
        if scan
            .revoked
            .get(&block)
            .is_some_and(|revoked| revoked.after_eq(copy.tid))
        {
            continue;
        }
        if block >= blocks {
            return Err(Corrupt::new(CorruptKind::BlockRange)
                .pblk(copy.tag.pblk)
                .detail(format_args!("journal block {}", copy.at))
                .into());
        }
        newest.insert(block, *copy);
    }
    let mut data = vec![0; size];
    for (block, copy) in &newest {
        map.read(copy.at, &mut data)?;
        copy.tag.verify_data(format, copy.tid, &data)?;
        if copy.tag.flags.contains(TagFlags::ESCAPE) {
            journal_unescape(&mut data);
        }
        device.write_at(block * size as u64, &data)?;
    }
    Ok(RecoveryReport {
        transactions: scan.transactions,
        replayed: newest.len() as u64,
        skipped: (scan.copies.len() - newest.len()) as u64,
    })
}
