//! Replaying a log: scan for complete transactions, collect revocations, write the newest copies.
//!
//! # Crash
//! Replaying is idempotent: the log is marked empty only once everything it holds is durable in place.
//!
//! A transaction whose commit block, or any other block, did not reach the device ends the log: a crash cut it
//! short. If a later commit block is there, it did not: a commit block is written only when the one before it is
//! durable. Then the log is damaged, and transactions that were durable would be lost with it, so it is refused
//! where checksums prove it.

use crate::error::Result;
use crate::log;
use crate::map::LogMap;
use std::collections::{BTreeMap, HashMap};
use uext4_block::BlockDevice;
use uext4_ondisk::{
    BlockTag, CommitBlock, Corrupt, CorruptKind, DescriptorReader, FastCommitRecord,
    FastCommitScan, JournalBlockType, JournalCsum, JournalFormat, JournalHeader, JournalIncompat,
    JournalSuper, RevokeReader, TagFlags, Tid, crc32_be, journal_unescape,
};

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Complete transactions found.
    pub transactions: u32,
    /// Blocks written in place.
    pub replayed: u64,
    /// Copies not written because they were revoked or superseded.
    pub skipped: u64,
    /// What fast commits say happened after these transactions; for the file system to replay in the
    /// first transaction of a journal that is [`crate::Opened::WithFastCommits`]. Until that is durable, the
    /// log is not empty and recovery finds them again.
    pub fast_commits: Vec<FastCommitRecord>,
}

/// Copies and revocations that one recovery takes into memory, some 30 bytes each: what a log of 32 GiB holds.
const RECORDS_MAX: usize = 8 << 20;

/// Bytes of a read where all that follows in the log is examined; a multiple of every block size.
const READ_BYTES: usize = 256 << 10;

/// A copy in the log.
#[derive(Clone, Copy)]
struct Copy {
    at: u32,
    tag: BlockTag,
    tid: Tid,
}

/// What reading one transaction came to.
enum Outcome {
    Complete(Found),
    /// The commit block is there, but this block of the transaction is not what it was.
    Torn(Corrupt),
    /// The log ends here.
    End,
}

/// What one transaction holds.
#[derive(Default)]
struct Found {
    copies: Vec<Copy>,
    revoked: Vec<u64>,
    /// When it was committed, in seconds since 1970.
    time: u64,
}

/// What the scan collects.
#[derive(Default)]
struct Scan {
    copies: Vec<Copy>,
    /// The newest transaction that revoked a block.
    revoked: HashMap<u64, Tid>,
    transactions: u32,
    /// Where the next transaction would begin.
    next: u32,
}

/// Walks the log, wrapping at its end, no further than its length.
#[derive(Clone)]
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

    /// Reads the next blocks, as many as lie together and have room, and returns the first and how many they are; none when the whole log
    /// was read.
    fn read_run(&mut self, blocks: &mut [u8]) -> Result<(u32, usize)> {
        let size = self.map.block_size();
        let at = self.at;
        let together = self.left.min(self.end.saturating_sub(at)) as usize;
        let count = together.min(blocks.len() / size);
        if let Some(run) = blocks.get_mut(..count * size).filter(|run| !run.is_empty()) {
            self.map.read(at, run)?;
        }
        for _ in 0..count {
            self.skip();
        }
        Ok((at, count))
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

/// Marks a log empty that has one transaction, which is in place: it is not read.
///
/// # Errors
/// A damaged log, or the device's.
pub fn clear(map: &LogMap) -> Result<()> {
    let mut sb = read_super(map)?;
    let first_tid = Tid(sb.raw.sequence.get());
    mark_empty(map, &mut sb, first_tid, 1)
}

/// One past the last: what an older, longer run left behind the end never looks like the next.
fn mark_empty(map: &LogMap, sb: &mut JournalSuper, first: Tid, transactions: u32) -> Result<()> {
    let incompat = sb.incompat - JournalIncompat::FAST_COMMIT;
    sb.raw.feature_incompat = incompat.bits().into();
    sb.raw.start = 0.into();
    sb.raw.sequence = first.0.wrapping_add(transactions + 1).into();
    log::write_super(map, sb)
}

/// Replays what the log at `map` holds onto `device` and marks it empty, unless there are fast commits
/// for the file system to replay.
///
/// # Errors
/// A damaged log (naming the block), unknown features, or the device's.
pub fn recover(map: &LogMap, device: &dyn BlockDevice) -> Result<RecoveryReport> {
    let mut sb = read_super(map)?;
    if sb.is_empty() {
        return Ok(RecoveryReport::default());
    }
    let first_tid = Tid(sb.raw.sequence.get());
    let scan = scan(map, &sb, first_tid)?;
    let next_tid = Tid(first_tid.0.wrapping_add(scan.transactions));
    let fast_commits = read_fast_commits(map, &sb, next_tid)?;
    let mut report = replay(map, device, &sb.format(), &scan)?;
    device.flush()?;
    if fast_commits.is_empty() {
        mark_empty(map, &mut sb, first_tid, scan.transactions)?;
    } else {
        sb.raw.start = scan.next.into();
        sb.raw.sequence = next_tid.0.into();
        log::write_super(map, &mut sb)?;
    }
    report.fast_commits = fast_commits;
    Ok(report)
}

/// The complete fast commits on top of the transaction before `tid`.
fn read_fast_commits(map: &LogMap, sb: &JournalSuper, tid: Tid) -> Result<Vec<FastCommitRecord>> {
    let mut scan = FastCommitScan::new(tid);
    let mut block = vec![0; map.block_size()];
    if sb.incompat.contains(JournalIncompat::FAST_COMMIT) {
        for at in sb.fast_commit_area() {
            map.read(at, &mut block)?;
            if !scan
                .block(&block)
                .map_err(|e| e.detail(format_args!("journal block {at}")))?
            {
                break;
            }
        }
    }
    Ok(scan.into_records())
}

/// Reads complete transactions in order; the log ends at the first thing that does not fit.
///
/// Where commit blocks are not waited for, one may be on the device without the blocks before it: then
/// it is the last, and what it ends never happened. With a transaction after it, it is damage.
fn scan(map: &LogMap, sb: &JournalSuper, first_tid: Tid) -> Result<Scan> {
    let (first, end) = (sb.raw.first.get(), sb.log_end());
    let cursor = Cursor {
        map,
        at: sb.raw.start.get(),
        first,
        end,
        left: end - first,
    };
    let mut reader = Reader {
        cursor,
        format: sb.format(),
        asynchronous: sb.incompat.contains(JournalIncompat::ASYNC_COMMIT),
    };
    let mut scan = Scan {
        next: reader.cursor.at,
        ..Scan::default()
    };
    let mut tid = first_tid;
    let mut time = 0;
    let mut records_left = RECORDS_MAX;
    loop {
        let start = reader.cursor.clone();
        match reader.transaction(tid, records_left)? {
            Outcome::Complete(found) => {
                time = found.time;
                records_left -= found.copies.len() + found.revoked.len();
                scan.copies.extend(found.copies);
                for block in found.revoked {
                    scan.revoked.insert(block, tid);
                }
                scan.transactions += 1;
                scan.next = reader.cursor.at;
                tid = tid.next();
            }
            Outcome::Torn(damage) => match reader.transaction(tid.next(), records_left)? {
                Outcome::End => return Ok(scan),
                _ => return Err(damage.into()),
            },
            Outcome::End => {
                reader.cursor = start;
                reader.check_end(tid, time)?;
                return Ok(scan);
            }
        }
    }
}

/// Reads transactions.
struct Reader<'a> {
    cursor: Cursor<'a>,
    format: JournalFormat,
    /// Commit blocks are written along with what they end.
    asynchronous: bool,
}

impl Reader<'_> {
    /// Refuses a log that continues after transaction `tid`, which is incomplete; the one before was committed at
    /// `time`. Without checksums of each block a commit block cannot be distinguished from what an earlier file system left.
    fn check_end(&mut self, tid: Tid, time: u64) -> Result<()> {
        if !self.format.has_block_csum() {
            return Ok(());
        }
        let size = self.format.block_size as usize;
        let mut run = vec![0; READ_BYTES];
        loop {
            let (first, count) = self.cursor.read_run(&mut run)?;
            if count == 0 {
                return Ok(());
            }
            for (at, block) in (first..).zip(run.chunks_exact(size).take(count)) {
                self.check_is_older(at, block, tid, time)?;
            }
        }
    }

    /// Refuses a block that ends a transaction which must not be there, as of [`Reader::check_end`].
    fn check_is_older(&self, at: u32, block: &[u8], tid: Tid, time: u64) -> Result<()> {
        let header = JournalHeader::read(block);
        if !header.is_ok_and(|header| header.block_type == JournalBlockType::Commit) {
            return Ok(());
        }
        let Ok(commit) = CommitBlock::decode(block, &self.format) else {
            return Ok(());
        };
        // Where commit blocks are not waited for, its own may be there without the rest.
        let is_own = commit.tid == tid && !self.asynchronous;
        let is_later = commit.tid != tid && commit.tid.after_eq(tid);
        if (is_own || is_later) && commit.sec >= time {
            return Err(Corrupt::new(CorruptKind::JournalLost)
                .detail(format_args!(
                    "transaction {}, but {} is complete in journal block {at}; run e2fsck",
                    tid.0, commit.tid.0
                ))
                .into());
        }
        Ok(())
    }

    /// Reads the transaction that should come next.
    fn transaction(&mut self, tid: Tid, records_max: usize) -> Result<Outcome> {
        let mut block = vec![0; self.format.block_size as usize];
        let mut found = Found::default();
        let mut torn = None;
        let mut v1 = u32::MAX;
        while self.cursor.read(&mut block)?.is_some() {
            let header = JournalHeader::read(&block);
            let Some(header) = header.ok().filter(|header| header.tid == tid) else {
                break;
            };
            match header.block_type {
                JournalBlockType::Descriptor => {
                    let tags = DescriptorReader::new(&block, &self.format)
                        .and_then(Iterator::collect::<std::result::Result<Vec<BlockTag>, _>>);
                    let Ok(tags) = tags else { break };
                    v1 = crc32_be(v1, &block);
                    if !self.copies(&tags, tid, &mut found, &mut v1, &mut torn)? {
                        break;
                    }
                }
                JournalBlockType::Revoke => {
                    let Ok(revoked) = RevokeReader::new(&block, &self.format) else {
                        break;
                    };
                    found.revoked.extend(revoked.map(|b| b.0));
                }
                JournalBlockType::Commit => {
                    let commit = CommitBlock::decode(&block, &self.format);
                    let fits = |commit: &CommitBlock| commit.v1_checksum.is_none_or(|s| s == v1);
                    if !commit.as_ref().is_ok_and(fits) {
                        break;
                    }
                    found.time = commit.map_or(0, |commit| commit.sec);
                    return Ok(torn.map_or(Outcome::Complete(found), Outcome::Torn));
                }
                _ => break,
            }
            if found.copies.len() + found.revoked.len() > records_max {
                let limit = format_args!("{RECORDS_MAX}");
                return Err(Corrupt::new(CorruptKind::JournalRecords)
                    .detail(limit)
                    .into());
            }
        }
        Ok(Outcome::End)
    }

    /// Passes the copies that follow a descriptor block, reading them where a checksum needs it; false
    /// at the end of the log.
    fn copies(
        &mut self,
        tags: &[BlockTag],
        tid: Tid,
        found: &mut Found,
        v1: &mut u32,
        torn: &mut Option<Corrupt>,
    ) -> Result<bool> {
        let mut block = vec![0; self.format.block_size as usize];
        let (reads_v1, reads_each) = (self.format.csum == JournalCsum::V1, self.asynchronous);
        for tag in tags {
            let at = self.cursor.at;
            if reads_v1 || reads_each {
                if self.cursor.read(&mut block)?.is_none() {
                    return Ok(false);
                }
                *v1 = crc32_be(*v1, &block);
                if let Err(damage) = tag.verify_data(&self.format, tid, &block) {
                    torn.get_or_insert(damage.detail(format_args!("journal block {at}")));
                }
            } else if !self.cursor.skip() {
                return Ok(false);
            }
            let tag = *tag;
            found.copies.push(Copy { at, tag, tid });
        }
        Ok(true)
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
        copy.tag
            .verify_data(format, copy.tid, &data)
            .map_err(|e| e.detail(format_args!("journal block {}", copy.at)))?;
        if copy.tag.flags.contains(TagFlags::ESCAPE) {
            journal_unescape(&mut data);
        }
        device.write_at(block * size as u64, &data)?;
    }
    Ok(RecoveryReport {
        transactions: scan.transactions,
        replayed: newest.len() as u64,
        skipped: (scan.copies.len() - newest.len()) as u64,
        fast_commits: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
