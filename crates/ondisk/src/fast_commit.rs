//! Fast commits: small records, in blocks of their own at the end of the journal, of what changed since
//! the last ordinary transaction.
//!
//! A record is a tag, a length and a value; it lies in one block. A commit ends with a record
//! that has the checksum of all since the last such record; what follows the last good one never
//! happened.
//!
//! Source: Linux documentation, filesystems/ext4, "Journal (jbd2)", "Fast commits".

use crate::bytes::{le16, le32};
use crate::checksum::crc32c;
use crate::corrupt::{Corrupt, CorruptKind, Result};
use crate::extent::Extent;
use crate::inode::GOOD_OLD_INODE_SIZE;
use crate::types::{Ino, Lblk, Pblk, Tid};

const TAG_ADD_RANGE: u16 = 1;
const TAG_DEL_RANGE: u16 = 2;
const TAG_CREATE: u16 = 3;
const TAG_LINK: u16 = 4;
const TAG_UNLINK: u16 = 5;
const TAG_INODE: u16 = 6;
const TAG_PAD: u16 = 7;
const TAG_TAIL: u16 = 8;
const TAG_HEAD: u16 = 9;

/// Bytes of tag and length.
const RECORD_HEADER: usize = 4;
/// Bytes of an end: the transaction and the checksum.
const TAIL_BYTES: usize = 8;
/// The longest extent that is written; longer ones are unwritten, by as much.
const WRITTEN_MAX: u16 = 1 << 15;

/// A name and the inode it is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FastCommitName {
    /// The directory.
    pub parent: Ino,
    /// What the name is of.
    pub ino: Ino,
    /// 1 to 255 bytes, as they are on disk.
    pub name: Box<[u8]>,
}

/// What a fast commit says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FastCommitRecord {
    /// These blocks of a file are there now.
    AddRange {
        /// The file.
        ino: Ino,
        /// The blocks.
        extent: Extent,
    },
    /// These blocks of a file are a hole now.
    DelRange {
        /// The file.
        ino: Ino,
        /// The first block.
        lblk: Lblk,
        /// How many.
        len: u32,
    },
    /// An inode was made and named.
    Create(FastCommitName),
    /// An inode got another name.
    Link(FastCommitName),
    /// A name was removed.
    Unlink(FastCommitName),
    /// An inode looks so now, but for what maps its blocks.
    Inode {
        /// The inode.
        ino: Ino,
        /// Its bytes, at least 128, as far as its fields go.
        raw: Box<[u8]>,
    },
}

/// Writes one fast commit.
#[derive(Debug)]
pub struct FastCommitBuilder {
    block_size: usize,
    tid: Tid,
    bytes: Vec<u8>,
}

impl FastCommitBuilder {
    /// A commit on top of the transaction before `tid`, in blocks of so many bytes; `is_first` there.
    pub fn new(block_size: usize, tid: Tid, is_first: bool) -> Self {
        let mut commit = FastCommitBuilder {
            block_size,
            tid,
            bytes: Vec::new(),
        };
        if is_first {
            // No features.
            let fits = commit.record(TAG_HEAD, &[&[0; 4], &tid.0.to_le_bytes()]);
            debug_assert!(fits);
        }
        commit
    }

    /// Adds a record; false, and nothing is added, if a block has no room for it.
    #[must_use]
    pub fn push(&mut self, record: &FastCommitRecord) -> bool {
        let named = |commit: &mut Self, tag, of: &FastCommitName| {
            let (parent, ino) = (of.parent.0.to_le_bytes(), of.ino.0.to_le_bytes());
            commit.record(tag, &[&parent, &ino, &of.name])
        };
        match record {
            FastCommitRecord::AddRange { ino, extent } => {
                let unwritten = if extent.unwritten { WRITTEN_MAX } else { 0 };
                let high = (extent.pblk.0 >> 32) as u16;
                let value: [&[u8]; 5] = [
                    &ino.0.to_le_bytes(),
                    &extent.lblk.0.to_le_bytes(),
                    &(extent.len + unwritten).to_le_bytes(),
                    &high.to_le_bytes(),
                    &(extent.pblk.0 as u32).to_le_bytes(),
                ];
                self.record(TAG_ADD_RANGE, &value)
            }
            FastCommitRecord::DelRange { ino, lblk, len } => {
                let words = [ino.0, lblk.0, *len].map(u32::to_le_bytes);
                self.record(TAG_DEL_RANGE, &[&words.concat()])
            }
            FastCommitRecord::Create(of) => named(self, TAG_CREATE, of),
            FastCommitRecord::Link(of) => named(self, TAG_LINK, of),
            FastCommitRecord::Unlink(of) => named(self, TAG_UNLINK, of),
            FastCommitRecord::Inode { ino, raw } => {
                self.record(TAG_INODE, &[&ino.0.to_le_bytes(), raw])
            }
        }
    }

    /// Whole blocks, the last with the end and its checksum.
    pub fn finish(mut self) -> Vec<u8> {
        let tid = self.tid.0.to_le_bytes();
        self.fill_block_unless(RECORD_HEADER + TAIL_BYTES);
        let at = self.bytes.len();
        let fill = self.block_size - at % self.block_size - RECORD_HEADER;
        self.header(TAG_TAIL, fill);
        self.bytes.extend(tid);
        let crc = crc32c(0, &self.bytes);
        self.bytes.extend(crc.to_le_bytes());
        self.bytes.resize(at + RECORD_HEADER + fill, 0);
        self.bytes
    }

    fn record(&mut self, tag: u16, value: &[&[u8]]) -> bool {
        let len = value.iter().map(|part| part.len()).sum();
        if RECORD_HEADER + len + RECORD_HEADER > self.block_size {
            return false;
        }
        self.fill_block_unless(RECORD_HEADER + len);
        self.header(tag, len);
        value.iter().for_each(|part| self.bytes.extend(*part));
        true
    }

    fn header(&mut self, tag: u16, len: usize) {
        self.bytes.extend(tag.to_le_bytes());
        self.bytes.extend((len as u16).to_le_bytes());
    }

    /// Fills the block up unless it has room for so many bytes and the header of a filler behind them.
    fn fill_block_unless(&mut self, wanted: usize) {
        let left = self.block_size - self.bytes.len() % self.block_size;
        if left < wanted + RECORD_HEADER {
            let end = self.bytes.len() + left;
            self.header(TAG_PAD, left - RECORD_HEADER);
            self.bytes.resize(end, 0);
        }
    }
}

/// Reads fast commits block by block.
#[derive(Debug)]
pub struct FastCommitScan {
    tid: Tid,
    crc: u32,
    /// Features that the first record asks for.
    features: Option<u32>,
    /// Since the last good end.
    open: Vec<FastCommitRecord>,
    complete: Vec<FastCommitRecord>,
}

impl FastCommitScan {
    /// Searches for fast commits on top of the transaction before `tid`.
    pub fn new(tid: Tid) -> Self {
        FastCommitScan {
            tid,
            crc: 0,
            features: None,
            open: Vec::new(),
            complete: Vec::new(),
        }
    }

    /// Reads the next block; false at the end of the area.
    ///
    /// # Errors
    /// [`CorruptKind::JournalFeature`]: a complete commit needs features that are not known.
    pub fn block(&mut self, block: &[u8]) -> Result<bool> {
        let mut at = 0usize;
        while let (Some(tag), Some(len)) = (le16(block, at), le16(block, at + 2)) {
            let end = at + RECORD_HEADER + usize::from(len);
            let Some(record) = block.get(at..end) else {
                return Ok(false);
            };
            if !self.record(tag, record)? {
                return Ok(false);
            }
            at = end;
        }
        Ok(true)
    }

    /// What complete commits say, in order.
    pub fn into_records(self) -> Vec<FastCommitRecord> {
        self.complete
    }

    /// Takes a record, its header included; false at one that does not fit.
    fn record(&mut self, tag: u16, record: &[u8]) -> Result<bool> {
        let value = record.get(RECORD_HEADER..).unwrap_or(&[]);
        if tag == TAG_TAIL {
            return self.tail(record, value);
        }
        match tag {
            TAG_HEAD => {
                let (Some(features), Some(tid)) = (le32(value, 0), le32(value, 4)) else {
                    return Ok(false);
                };
                if tid != self.tid.0 {
                    return Ok(false);
                }
                self.features = Some(self.features.unwrap_or(0) | features);
            }
            TAG_PAD => {}
            // Nothing precedes the first record of the area.
            _ if self.features.is_none() => return Ok(false),
            _ => match decode(tag, value) {
                Some(record) => self.open.push(record),
                None => return Ok(false),
            },
        }
        self.crc = crc32c(self.crc, record);
        Ok(true)
    }

    /// The end of a commit: its checksum covers itself as far as the number of the transaction.
    fn tail(&mut self, record: &[u8], value: &[u8]) -> Result<bool> {
        let (Some(tid), Some(crc)) = (le32(value, 0), le32(value, 4)) else {
            return Ok(false);
        };
        let covered = record.get(..RECORD_HEADER + 4).unwrap_or(&[]);
        if tid != self.tid.0 || crc != crc32c(self.crc, covered) {
            return Ok(false);
        }
        match self.features {
            None => return Ok(false),
            Some(0) => {}
            Some(unknown) => {
                return Err(Corrupt::new(CorruptKind::JournalFeature)
                    .detail(format_args!("of fast commits: {unknown:#x}")));
            }
        }
        self.complete.append(&mut self.open);
        self.crc = 0;
        Ok(true)
    }
}

fn decode(tag: u16, value: &[u8]) -> Option<FastCommitRecord> {
    let ino = Ino(le32(value, 0)?);
    match tag {
        TAG_ADD_RANGE => Some(FastCommitRecord::AddRange {
            ino,
            extent: extent(value.get(4..16)?)?,
        }),
        TAG_DEL_RANGE => Some(FastCommitRecord::DelRange {
            ino,
            lblk: Lblk(le32(value, 4)?),
            len: le32(value, 8)?,
        }),
        TAG_CREATE => name(value).map(FastCommitRecord::Create),
        TAG_LINK => name(value).map(FastCommitRecord::Link),
        TAG_UNLINK => name(value).map(FastCommitRecord::Unlink),
        TAG_INODE => {
            let raw = value.get(4..).filter(|r| r.len() >= GOOD_OLD_INODE_SIZE)?;
            Some(FastCommitRecord::Inode {
                ino,
                raw: raw.into(),
            })
        }
        _ => None,
    }
}

fn name(value: &[u8]) -> Option<FastCommitName> {
    let name = value.get(8..)?;
    (1..=255).contains(&name.len()).then_some(FastCommitName {
        parent: Ino(le32(value, 0)?),
        ino: Ino(le32(value, 4)?),
        name: name.into(),
    })
}

/// An extent as leaves of the tree have it.
fn extent(bytes: &[u8]) -> Option<Extent> {
    let lblk = Lblk(le32(bytes, 0)?);
    let stored = le16(bytes, 4)?;
    let unwritten = stored > WRITTEN_MAX;
    let len = if unwritten {
        stored - WRITTEN_MAX
    } else {
        stored
    };
    let pblk = u64::from(le16(bytes, 6)?) << 32 | u64::from(le32(bytes, 8)?);
    let extent = Extent {
        lblk,
        len,
        unwritten,
        pblk: Pblk(pblk),
    };
    (len > 0 && extent.end() <= 1 << 32).then_some(extent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TID: Tid = Tid(9);

    fn record(tag: u16, value: &[u8]) -> Vec<u8> {
        let len = u16::try_from(value.len()).unwrap();
        [&tag.to_le_bytes()[..], &len.to_le_bytes(), value].concat()
    }

    /// Ends a commit that began at `from`.
    fn end(block: &mut Vec<u8>, from: usize, size: usize) {
        let fill = size - block.len() % size - 12;
        let mut tail = record(
            TAG_TAIL,
            &[&TID.0.to_le_bytes()[..], &vec![0; fill + 4]].concat(),
        );
        let crc = crc32c(crc32c(0, &block[from..]), &tail[..8]);
        tail[8..12].copy_from_slice(&crc.to_le_bytes());
        block.extend(tail);
    }

    fn head(features: u32) -> Vec<u8> {
        record(
            TAG_HEAD,
            &[features.to_le_bytes(), TID.0.to_le_bytes()].concat(),
        )
    }

    /// Two commits of a block each, of every kind of record.
    fn two() -> Vec<u8> {
        let mut area = head(0);
        area.extend(record(
            TAG_INODE,
            &[12u32.to_le_bytes().to_vec(), vec![1; 160]].concat(),
        ));
        area.extend(record(TAG_CREATE, b"\x02\0\0\0\x0c\0\0\0file"));
        end(&mut area, 0, 1024);
        let from = area.len();
        area.extend(record(
            TAG_ADD_RANGE,
            b"\x0c\0\0\0\x05\0\0\0\x02\x80\x01\0\x07\0\0\0",
        ));
        area.extend(record(
            TAG_DEL_RANGE,
            b"\x0c\0\0\0\x09\0\0\0\xff\xff\xff\xff",
        ));
        area.extend(record(TAG_LINK, b"\x02\0\0\0\x0c\0\0\0x"));
        area.extend(record(TAG_UNLINK, b"\x02\0\0\0\x0c\0\0\0file"));
        end(&mut area, from, 1024);
        assert_eq!(area.len(), 2048);
        area
    }

    fn scan(area: &[u8]) -> Result<Vec<FastCommitRecord>> {
        let mut scan = FastCommitScan::new(TID);
        for block in area.chunks(1024) {
            if !scan.block(block)? {
                break;
            }
        }
        Ok(scan.into_records())
    }

    #[test]
    fn every_record() {
        let records = scan(&two()).unwrap();
        let name = |name: &[u8]| FastCommitName {
            parent: Ino(2),
            ino: Ino(12),
            name: name.into(),
        };
        let want = [
            FastCommitRecord::Inode {
                ino: Ino(12),
                raw: vec![1; 160].into(),
            },
            FastCommitRecord::Create(name(b"file")),
            FastCommitRecord::AddRange {
                ino: Ino(12),
                extent: Extent {
                    lblk: Lblk(5),
                    len: 2,
                    unwritten: true,
                    pblk: Pblk(0x1_0000_0007),
                },
            },
            FastCommitRecord::DelRange {
                ino: Ino(12),
                lblk: Lblk(9),
                len: u32::MAX,
            },
            FastCommitRecord::Link(name(b"x")),
            FastCommitRecord::Unlink(name(b"file")),
        ];
        assert_eq!(records, want);
    }

    #[test]
    fn what_is_written_is_read() {
        let records = scan(&two()).unwrap();
        let mut area = Vec::new();
        for (i, some) in records.chunks(2).enumerate() {
            let mut commit = FastCommitBuilder::new(1024, TID, i == 0);
            assert!(some.iter().all(|record| commit.push(record)));
            area.extend(commit.finish());
        }
        assert_eq!(area.len(), 3 * 1024);
        assert_eq!(scan(&area).unwrap(), records);
        assert_eq!(area[..1024], two()[..1024], "as another writes it");
    }

    #[test]
    fn records_that_fill_blocks_are_read() {
        for len in 128..=512 {
            let (ino, raw) = (Ino(12), vec![1; len].into());
            let record = FastCommitRecord::Inode { ino, raw };
            let records = vec![record; 9];
            let mut commit = FastCommitBuilder::new(1024, TID, true);
            assert!(records.iter().all(|record| commit.push(record)));
            let area = commit.finish();
            assert!(area.len().is_multiple_of(1024));
            assert_eq!(scan(&area).unwrap(), records, "{len}");
        }
    }

    #[test]
    fn a_record_longer_than_a_block_is_not_added() {
        let record = |len| FastCommitRecord::Inode {
            ino: Ino(12),
            raw: vec![1; len].into(),
        };
        let mut commit = FastCommitBuilder::new(1024, TID, true);
        assert!(!commit.push(&record(1024 - 11)));
        assert!(commit.push(&record(1024 - 12)));
        assert_eq!(scan(&commit.finish()).unwrap(), [record(1024 - 12)]);
    }

    #[test]
    fn any_damaged_byte_ends_it_there() {
        let area = two();
        for at in 0..area.len() {
            let mut damaged = area.clone();
            damaged[at] ^= 0x40;
            // What fills up the last block of a commit is covered by nothing.
            match scan(&damaged).unwrap().len() {
                0 => assert!(at < 1024),
                2 => assert!(at >= 1024),
                n => assert_eq!((n, damaged[at]), (6, 0x40), "byte {at}"),
            }
        }
    }

    #[test]
    fn another_transactions_are_not_these() {
        let mut scan = FastCommitScan::new(TID.next());
        assert!(!scan.block(&two()[..1024]).unwrap());
        assert!(scan.into_records().is_empty());
    }

    #[test]
    fn unknown_features_are_refused_once_they_are_sure() {
        let mut area = head(4);
        end(&mut area, 0, 1024);
        assert_eq!(scan(&area).unwrap_err().kind, CorruptKind::JournalFeature);
        area[12] ^= 1;
        assert!(scan(&area).unwrap().is_empty());
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..5000 {
            let mut area = head(0);
            while area.len() < 900 {
                let value: Vec<u8> = (0..rng.usize(..200)).map(|_| rng.u8(..)).collect();
                area.extend(record(rng.u16(1..10), &value));
            }
            area.truncate(1000);
            let _ = scan(&area);
        }
    }
}
