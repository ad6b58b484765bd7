//! The journal: headers, commit and revoke blocks of transactions.
//!
//! Everything is big-endian. The superblock is in [`crate::jbd2_super`], descriptor blocks are in
//! [`crate::jbd2_tag`].
//! Source: Linux documentation, filesystems/ext4, "Journal (jbd2)".

use crate::bytes::{be32, be64, put_be32, put_be64};
use crate::checksum::crc32c;
use crate::corrupt::{Corrupt, CorruptKind, Result};
use crate::types::{Pblk, Tid};

/// Magic of every journal block.
pub const JOURNAL_MAGIC: u32 = 0xc03b_3998;
/// Bytes of a block header.
pub const JOURNAL_HEADER: usize = 12;

const CHECKSUM_CRC32: u8 = 1;
const REVOKE_RECORDS_AT: usize = 16;

/// Version of checksums in a journal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum JournalCsum {
    /// None.
    None,
    /// crc32 of the transaction in the commit block.
    V1,
    /// crc32c of each block, cut to 16 bits in tags.
    V2,
    /// crc32c of each block.
    V3,
}

/// How the blocks of transactions are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalFormat {
    /// Bytes of a block.
    pub block_size: u32,
    /// Block numbers have 64 bits.
    pub bit64: bool,
    /// Checksums.
    pub csum: JournalCsum,
    /// Where crc32c chains start.
    pub seed: u32,
    /// UUID that descriptors carry.
    pub uuid: [u8; 16],
}

impl JournalFormat {
    /// True with checksums of each block.
    #[inline]
    pub fn has_block_csum(&self) -> bool {
        self.csum >= JournalCsum::V2
    }

    /// Bytes at the end of descriptor and revoke blocks that hold the checksum.
    #[inline]
    pub fn tail_bytes(&self) -> usize {
        if self.has_block_csum() { 4 } else { 0 }
    }

    /// Where content ends in descriptor and revoke blocks.
    #[inline]
    pub(crate) fn data_end(&self, block: &[u8]) -> usize {
        block.len().saturating_sub(self.tail_bytes())
    }

    /// Stores the checksum of a descriptor or revoke block. The last step before writing.
    pub fn tail_checksum_set(&self, block: &mut [u8]) {
        if self.has_block_csum() {
            let at = self.data_end(block);
            let sum = self.tail_checksum(block);
            // A block has at least 1024 bytes.
            let _ = put_be32(block, at, sum);
        }
    }

    fn tail_checksum(&self, block: &[u8]) -> u32 {
        let body = block.get(..self.data_end(block)).unwrap_or(&[]);
        crc32c(crc32c(self.seed, body), &[0; 4])
    }

    /// Checks the checksum of a descriptor or revoke block.
    ///
    /// # Errors
    /// [`CorruptKind::JournalTailChecksum`].
    pub fn tail_checksum_verify(&self, block: &[u8]) -> Result<()> {
        let at = self.data_end(block);
        if !self.has_block_csum() || be32(block, at) == Some(self.tail_checksum(block)) {
            return Ok(());
        }
        Err(CorruptKind::JournalTailChecksum.into())
    }

    /// Checksum of a journaled block, as its tag holds it. The block is the one in the journal, after
    /// escaping.
    #[inline]
    pub fn data_checksum(&self, tid: Tid, block: &[u8]) -> u32 {
        match self.csum {
            JournalCsum::V2 => self.raw_data_checksum(tid, block) & 0xffff,
            JournalCsum::V3 => self.raw_data_checksum(tid, block),
            JournalCsum::None | JournalCsum::V1 => 0,
        }
    }

    fn raw_data_checksum(&self, tid: Tid, block: &[u8]) -> u32 {
        crc32c(crc32c(self.seed, &tid.0.to_be_bytes()), block)
    }
}

/// Kinds of journal blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum JournalBlockType {
    /// Says where the blocks that follow belong.
    Descriptor,
    /// Ends a transaction.
    Commit,
    /// Superblock, version 1.
    SuperV1,
    /// Superblock, version 2.
    SuperV2,
    /// Blocks not to be replayed.
    Revoke,
    /// Anything else: the end of the log, as far as replay is concerned.
    Unknown(u32),
}

impl JournalBlockType {
    /// From the number on disk.
    pub const fn from_raw(v: u32) -> Self {
        match v {
            1 => JournalBlockType::Descriptor,
            2 => JournalBlockType::Commit,
            3 => JournalBlockType::SuperV1,
            4 => JournalBlockType::SuperV2,
            5 => JournalBlockType::Revoke,
            v => JournalBlockType::Unknown(v),
        }
    }

    /// The number on disk.
    pub const fn to_raw(self) -> u32 {
        match self {
            JournalBlockType::Descriptor => 1,
            JournalBlockType::Commit => 2,
            JournalBlockType::SuperV1 => 3,
            JournalBlockType::SuperV2 => 4,
            JournalBlockType::Revoke => 5,
            JournalBlockType::Unknown(v) => v,
        }
    }
}

/// What every journal block starts with, but for journaled data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalHeader {
    /// Kind of the block.
    pub block_type: JournalBlockType,
    /// Transaction it belongs to.
    pub tid: Tid,
}

impl JournalHeader {
    /// Reads a header.
    ///
    /// # Errors
    /// [`CorruptKind::JournalShort`], or [`CorruptKind::JournalMagic`], which in replay means that the
    /// log ends here.
    pub fn read(block: &[u8]) -> Result<Self> {
        let (Some(magic), Some(kind), Some(tid)) = (be32(block, 0), be32(block, 4), be32(block, 8))
        else {
            return Err(CorruptKind::JournalShort.into());
        };
        if magic != JOURNAL_MAGIC {
            return Err(CorruptKind::JournalMagic.into());
        }
        Ok(JournalHeader {
            block_type: JournalBlockType::from_raw(kind),
            tid: Tid(tid),
        })
    }

    /// Writes a header; a slice under 12 bytes is left alone.
    pub fn write(self, block: &mut [u8]) {
        if let Some(head) = block.get_mut(..JOURNAL_HEADER) {
            // The slice has twelve bytes.
            let _ = put_be32(head, 0, JOURNAL_MAGIC);
            let _ = put_be32(head, 4, self.block_type.to_raw());
            let _ = put_be32(head, 8, self.tid.0);
        }
    }

    /// Checks kind and transaction of a block that must be there.
    pub(crate) fn expect(block: &[u8], want: JournalBlockType) -> Result<Tid> {
        let h = Self::read(block)?;
        if h.block_type == want {
            Ok(h.tid)
        } else {
            Err(Corrupt::new(CorruptKind::JournalBlockType).detail(h.block_type.to_raw()))
        }
    }
}

/// True if a block to be journaled starts with the magic, and so must be escaped.
#[inline]
pub fn journal_needs_escape(block: &[u8]) -> bool {
    be32(block, 0) == Some(JOURNAL_MAGIC)
}

/// Takes the magic away from the copy in the journal.
pub fn journal_escape(block: &mut [u8]) {
    // An empty block has nothing to take away.
    let _ = put_be32(block, 0, 0);
}

/// Puts the magic back in replay.
pub fn journal_unescape(block: &mut [u8]) {
    // An empty block has nothing to put it in.
    let _ = put_be32(block, 0, JOURNAL_MAGIC);
}

/// The block that ends a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitBlock {
    /// The transaction.
    pub tid: Tid,
    /// Seconds since 1970 of the commit.
    pub sec: u64,
    /// Nanoseconds of the commit.
    pub nsec: u32,
    /// Version 1 checksum: crc32 of all blocks of the transaction before this one
    /// ([`crate::checksum::crc32_be`] from all ones).
    pub v1_checksum: Option<u32>,
}

impl CommitBlock {
    /// Makes a whole block, with its checksum.
    pub fn encode_into(&self, block: &mut [u8], fmt: &JournalFormat) {
        block.fill(0);
        JournalHeader {
            block_type: JournalBlockType::Commit,
            tid: self.tid,
        }
        .write(block);
        // A block has at least 1024 bytes.
        let _ = put_be64(block, 48, self.sec);
        let _ = put_be32(block, 56, self.nsec);
        if let (JournalCsum::V1, Some(sum)) = (fmt.csum, self.v1_checksum) {
            let _ = put_be32(block, 12, u32::from_be_bytes([CHECKSUM_CRC32, 4, 0, 0]));
            let _ = put_be32(block, 16, sum);
        } else if fmt.has_block_csum() {
            let sum = commit_checksum(block, fmt.seed);
            let _ = put_be32(block, 16, sum);
        }
    }

    /// Reads a commit block and checks its checksum of version 2 or 3. That of version 1 is for the
    /// caller, which has read the transaction.
    ///
    /// # Errors
    /// [`CorruptKind::JournalBlockType`], [`CorruptKind::JournalCommitChecksum`], and those of
    /// [`JournalHeader::read`].
    pub fn decode(block: &[u8], fmt: &JournalFormat) -> Result<Self> {
        let tid = JournalHeader::expect(block, JournalBlockType::Commit)?;
        if fmt.has_block_csum() && be32(block, 16) != Some(commit_checksum(block, fmt.seed)) {
            return Err(CorruptKind::JournalCommitChecksum.into());
        }
        let v1_checksum = match (fmt.csum, block.get(12..14)) {
            (JournalCsum::V1, Some([CHECKSUM_CRC32, 4])) => be32(block, 16),
            // Without a checksum the field is zero.
            (JournalCsum::V1, Some([0, 0])) if be32(block, 16) == Some(0) => None,
            (JournalCsum::V1, _) => return Err(CorruptKind::JournalCommitChecksum.into()),
            _ => None,
        };
        Ok(CommitBlock {
            tid,
            sec: be64(block, 48).unwrap_or(0),
            nsec: be32(block, 56).unwrap_or(0),
            v1_checksum,
        })
    }
}

fn commit_checksum(block: &[u8], seed: u32) -> u32 {
    let crc = crc32c(seed, block.get(..16).unwrap_or(&[]));
    crc32c(crc32c(crc, &[0; 4]), block.get(20..).unwrap_or(&[]))
}

/// The revoked blocks in a revoke block.
#[derive(Clone, Debug)]
pub struct RevokeReader<'a> {
    records: &'a [u8],
    record: usize,
}

impl<'a> RevokeReader<'a> {
    /// Checks a revoke block, its checksum too.
    ///
    /// # Errors
    /// [`CorruptKind::JournalBlockType`], [`CorruptKind::JournalTailChecksum`],
    /// [`CorruptKind::JournalRevokeCount`], [`CorruptKind::JournalRevokePartial`], and those of
    /// [`JournalHeader::read`].
    pub fn new(block: &'a [u8], fmt: &JournalFormat) -> Result<Self> {
        JournalHeader::expect(block, JournalBlockType::Revoke)?;
        fmt.tail_checksum_verify(block)?;
        let count = be32(block, 12).unwrap_or(0);
        let end = (count as usize).min(block.len());
        let records = block.get(REVOKE_RECORDS_AT..end);
        let Some(records) = records.filter(|_| count as usize <= fmt.data_end(block)) else {
            return Err(Corrupt::new(CorruptKind::JournalRevokeCount).detail(count));
        };
        let record = revoke_record(fmt);
        if !records.len().is_multiple_of(record) {
            return Err(Corrupt::new(CorruptKind::JournalRevokePartial).detail(count));
        }
        Ok(RevokeReader { records, record })
    }
}

impl Iterator for RevokeReader<'_> {
    type Item = Pblk;

    fn next(&mut self) -> Option<Pblk> {
        let b = if self.record == 8 {
            be64(self.records, 0)?
        } else {
            u64::from(be32(self.records, 0)?)
        };
        self.records = self.records.get(self.record..)?;
        Some(Pblk(b))
    }
}

fn revoke_record(fmt: &JournalFormat) -> usize {
    if fmt.bit64 { 8 } else { 4 }
}

/// Fills a revoke block.
#[derive(Debug)]
pub struct RevokeBuilder<'a> {
    block: &'a mut [u8],
    fmt: JournalFormat,
    at: usize,
}

impl<'a> RevokeBuilder<'a> {
    /// Starts a block.
    pub fn new(block: &'a mut [u8], fmt: JournalFormat, tid: Tid) -> Self {
        block.fill(0);
        JournalHeader {
            block_type: JournalBlockType::Revoke,
            tid,
        }
        .write(block);
        RevokeBuilder {
            block,
            fmt,
            at: REVOKE_RECORDS_AT,
        }
    }

    /// Records that fit a block.
    pub fn capacity(fmt: &JournalFormat) -> usize {
        (fmt.block_size as usize).saturating_sub(REVOKE_RECORDS_AT + fmt.tail_bytes())
            / revoke_record(fmt)
    }

    /// Adds a block; false if this one is full.
    #[must_use]
    pub fn push(&mut self, b: Pblk) -> bool {
        let record = revoke_record(&self.fmt);
        if self.at + record > self.fmt.data_end(self.block) {
            return false;
        }
        let put = if record == 8 {
            put_be64(self.block, self.at, b.0)
        } else {
            put_be32(self.block, self.at, b.0 as u32)
        };
        self.at += record;
        put.is_some()
    }

    /// Writes count and checksum.
    pub fn finish(self) {
        let RevokeBuilder { block, fmt, at } = self;
        // A block has at least 1024 bytes.
        let _ = put_be32(block, 12, at as u32);
        fmt.tail_checksum_set(block);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn formats() -> impl Iterator<Item = JournalFormat> {
        [
            JournalCsum::None,
            JournalCsum::V1,
            JournalCsum::V2,
            JournalCsum::V3,
        ]
        .into_iter()
        .flat_map(|csum| [false, true].map(|bit64| (csum, bit64)))
        .map(|(csum, bit64)| JournalFormat {
            block_size: 1024,
            bit64,
            csum,
            seed: 5,
            uuid: [6; 16],
        })
    }

    #[test]
    fn commit_round_trip() {
        for fmt in formats() {
            let v1 = (fmt.csum == JournalCsum::V1).then_some(0xabcd);
            let c = CommitBlock {
                tid: Tid(9),
                sec: 1 << 33,
                nsec: 7,
                v1_checksum: v1,
            };
            let mut b = vec![0; 1024];
            c.encode_into(&mut b, &fmt);
            assert_eq!(CommitBlock::decode(&b, &fmt).unwrap(), c);
            for at in (12..1024).filter(|_| fmt.has_block_csum()) {
                b[at] ^= 1;
                let e = CommitBlock::decode(&b, &fmt).unwrap_err();
                assert_eq!(e.kind, CorruptKind::JournalCommitChecksum);
                b[at] ^= 1;
            }
            b[7] = 1;
            assert_eq!(
                CommitBlock::decode(&b, &fmt).unwrap_err().kind,
                CorruptKind::JournalBlockType
            );
        }
    }

    #[test]
    fn revoke_round_trip() {
        for fmt in formats() {
            let mut b = vec![0xff; 1024];
            let mut w = RevokeBuilder::new(&mut b, fmt, Tid(3));
            let mut want = Vec::new();
            while w.push(Pblk(want.len() as u64 + 100)) {
                want.push(Pblk(want.len() as u64 + 100));
            }
            w.finish();
            assert_eq!(want.len(), RevokeBuilder::capacity(&fmt));
            assert!(RevokeReader::new(&b, &fmt).unwrap().eq(want));
            let kind = |count: u32| {
                let mut b = b.clone();
                put_be32(&mut b, 12, count).unwrap();
                fmt.tail_checksum_set(&mut b);
                RevokeReader::new(&b, &fmt).unwrap_err().kind
            };
            assert_eq!(kind(15), CorruptKind::JournalRevokeCount);
            assert_eq!(kind(1025), CorruptKind::JournalRevokeCount);
            assert_eq!(kind(u32::MAX), CorruptKind::JournalRevokeCount);
            assert_eq!(kind(19), CorruptKind::JournalRevokePartial);
        }
    }

    #[test]
    fn escape() {
        let mut b = JOURNAL_MAGIC.to_be_bytes();
        assert!(journal_needs_escape(&b));
        journal_escape(&mut b);
        assert!(!journal_needs_escape(&b));
        journal_unescape(&mut b);
        assert!(journal_needs_escape(&b) && !journal_needs_escape(&[]));
    }
}
