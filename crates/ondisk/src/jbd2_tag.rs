//! Descriptor blocks: a tag for each journaled block that follows.
//!
//! Source: Linux documentation, filesystems/ext4, "Journal (jbd2)", "Descriptor Block".

use bitflags::bitflags;

use crate::bytes::{be16, be32, put_be16, put_be32};
use crate::corrupt::{Corrupt, CorruptKind, Result};
use crate::jbd2::{JOURNAL_HEADER, JournalBlockType, JournalCsum, JournalFormat, JournalHeader};
use crate::types::{Pblk, Tid};

const UUID: usize = 16;

bitflags! {
    /// Flags of a tag.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct TagFlags: u32 {
        /// The journaled block started with the journal's magic.
        const ESCAPE = 1;
        /// No UUID follows.
        const SAME_UUID = 2;
        /// Deleted; never written.
        const DELETED = 4;
        /// The last tag of the block.
        const LAST = 8;
    }
}

/// A tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockTag {
    /// Where the journaled block belongs.
    pub pblk: Pblk,
    /// Flags, unknown ones kept.
    pub flags: TagFlags,
    /// Checksum of the journaled block: 16 bits in version 2, 0 without checksums.
    pub checksum: u32,
}

impl BlockTag {
    /// Checks a journaled block (as it is in the journal, before unescaping).
    ///
    /// # Errors
    /// [`CorruptKind::JournalDataChecksum`].
    pub fn verify_data(&self, fmt: &JournalFormat, tid: Tid, block: &[u8]) -> Result<()> {
        if !fmt.has_block_csum() || fmt.data_checksum(tid, block) == self.checksum {
            return Ok(());
        }
        Err(Corrupt::new(CorruptKind::JournalDataChecksum).pblk(self.pblk))
    }
}

impl JournalFormat {
    /// Bytes of a tag, without UUID.
    pub fn tag_bytes(&self) -> usize {
        match self.csum {
            JournalCsum::V3 => 16,
            // Version 2 has two spare bytes, wherever the upper half of the number ends.
            JournalCsum::V2 => 10 + self.high_bytes(),
            JournalCsum::None | JournalCsum::V1 => 8 + self.high_bytes(),
        }
    }

    fn high_bytes(&self) -> usize {
        if self.bit64 { 4 } else { 0 }
    }

    /// Tags that fit a descriptor block.
    pub fn tags_per_block(&self) -> usize {
        let room = self.block_size as usize;
        room.saturating_sub(JOURNAL_HEADER + UUID + self.tail_bytes()) / self.tag_bytes()
    }

    fn read_tag(&self, block: &[u8], at: usize) -> Option<BlockTag> {
        let lo = be32(block, at)?;
        let hi = if self.bit64 { be32(block, at + 8)? } else { 0 };
        let (flags, checksum) = match self.csum {
            JournalCsum::V3 => (be32(block, at + 4)?, be32(block, at + 12)?),
            JournalCsum::V2 => (
                u32::from(be16(block, at + 6)?),
                u32::from(be16(block, at + 4)?),
            ),
            JournalCsum::None | JournalCsum::V1 => (u32::from(be16(block, at + 6)?), 0),
        };
        Some(BlockTag {
            pblk: Pblk(u64::from(hi) << 32 | u64::from(lo)),
            flags: TagFlags::from_bits_retain(flags),
            checksum,
        })
    }

    fn write_tag(&self, block: &mut [u8], at: usize, tag: &BlockTag) -> Option<()> {
        put_be32(block, at, tag.pblk.0 as u32)?;
        if self.bit64 {
            put_be32(block, at + 8, (tag.pblk.0 >> 32) as u32)?;
        }
        match self.csum {
            JournalCsum::V3 => {
                put_be32(block, at + 4, tag.flags.bits())?;
                put_be32(block, at + 12, tag.checksum)
            }
            JournalCsum::V2 => {
                put_be16(block, at + 4, tag.checksum as u16)?;
                put_be16(block, at + 6, tag.flags.bits() as u16)
            }
            JournalCsum::None | JournalCsum::V1 => put_be16(block, at + 6, tag.flags.bits() as u16),
        }
    }
}

/// The tags of a descriptor block. They end at the last tag, or where no more fits.
#[derive(Clone, Debug)]
pub struct DescriptorReader<'a> {
    block: &'a [u8],
    fmt: JournalFormat,
    at: usize,
    done: bool,
}

impl<'a> DescriptorReader<'a> {
    /// Checks kind and checksum of a descriptor block.
    ///
    /// # Errors
    /// [`CorruptKind::JournalBlockType`], [`CorruptKind::JournalTailChecksum`], and those of
    /// [`JournalHeader::read`].
    pub fn new(block: &'a [u8], fmt: &JournalFormat) -> Result<Self> {
        JournalHeader::expect(block, JournalBlockType::Descriptor)?;
        fmt.tail_checksum_verify(block)?;
        Ok(DescriptorReader {
            block,
            fmt: *fmt,
            at: JOURNAL_HEADER,
            done: false,
        })
    }
}

impl Iterator for DescriptorReader<'_> {
    type Item = Result<BlockTag>;

    fn next(&mut self) -> Option<Self::Item> {
        let end = self.fmt.data_end(self.block);
        let next = self.at + self.fmt.tag_bytes();
        if self.done || next > end {
            return None;
        }
        let tag = self.fmt.read_tag(self.block, self.at)?;
        self.done = tag.flags.contains(TagFlags::LAST);
        self.at = next;
        if !tag.flags.contains(TagFlags::SAME_UUID) {
            self.at += UUID;
            if self.at > end {
                self.done = true;
                return Some(Err(Corrupt::new(CorruptKind::JournalTagUuid).pblk(tag.pblk)));
            }
        }
        Some(Ok(tag))
    }
}

/// Fills a descriptor block.
#[derive(Debug)]
pub struct DescriptorBuilder<'a> {
    block: &'a mut [u8],
    fmt: JournalFormat,
    at: usize,
    /// The tag that gets [`TagFlags::LAST`], and where it is.
    last: Option<(usize, BlockTag)>,
}

impl<'a> DescriptorBuilder<'a> {
    /// Starts a block.
    pub fn new(block: &'a mut [u8], fmt: JournalFormat, tid: Tid) -> Self {
        block.fill(0);
        JournalHeader {
            block_type: JournalBlockType::Descriptor,
            tid,
        }
        .write(block);
        DescriptorBuilder {
            block,
            fmt,
            at: JOURNAL_HEADER,
            last: None,
        }
    }

    /// Adds a tag; false if the block is full. `checksum` is [`JournalFormat::data_checksum`]. The
    /// flags for UUID and end are the builder's.
    #[must_use]
    pub fn push(&mut self, pblk: Pblk, escaped: bool, checksum: u32) -> bool {
        let first = self.last.is_none();
        let uuid = if first { UUID } else { 0 };
        let next = self.at + self.fmt.tag_bytes() + uuid;
        if next > self.fmt.data_end(self.block) {
            return false;
        }
        let mut flags = TagFlags::empty();
        flags.set(TagFlags::ESCAPE, escaped);
        flags.set(TagFlags::SAME_UUID, !first);
        let tag = BlockTag {
            pblk,
            flags,
            checksum,
        };
        let mut done = self.fmt.write_tag(self.block, self.at, &tag);
        if first {
            let to = self.block.get_mut(next - UUID..next);
            done = done.and(to.map(|to| to.copy_from_slice(&self.fmt.uuid)));
        }
        self.last = Some((self.at, tag));
        self.at = next;
        done.is_some()
    }

    /// Marks the last tag and writes the checksum.
    pub fn finish(self) {
        let DescriptorBuilder {
            block, fmt, last, ..
        } = self;
        if let Some((at, mut tag)) = last {
            tag.flags |= TagFlags::LAST;
            // It was written there before.
            let _ = fmt.write_tag(block, at, &tag);
        }
        fmt.tail_checksum_set(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jbd2::tests::formats;

    #[test]
    fn sizes_of_every_layout() {
        let sizes: Vec<usize> = formats().map(|f| f.tag_bytes()).collect();
        assert_eq!(sizes, [8, 12, 8, 12, 10, 14, 16, 16]);
    }

    #[test]
    fn full_block_round_trip() {
        for fmt in formats() {
            let data = [7u8; 1024];
            let mut b = vec![0xff; 1024];
            let mut w = DescriptorBuilder::new(&mut b, fmt, Tid(4));
            let sum = fmt.data_checksum(Tid(4), &data);
            let mut n = 0u64;
            while w.push(Pblk(n + 1), n == 2, sum) {
                n += 1;
            }
            w.finish();
            assert_eq!(n as usize, fmt.tags_per_block());
            let tags: Vec<BlockTag> = DescriptorReader::new(&b, &fmt)
                .unwrap()
                .map(|t| t.unwrap())
                .collect();
            assert_eq!(tags.len() as u64, n);
            for (i, t) in tags.iter().enumerate() {
                assert_eq!(t.pblk, Pblk(i as u64 + 1));
                assert_eq!(t.flags.contains(TagFlags::ESCAPE), i == 2);
                assert_eq!(t.flags.contains(TagFlags::SAME_UUID), i != 0);
                assert_eq!(t.flags.contains(TagFlags::LAST), i + 1 == tags.len());
                t.verify_data(&fmt, Tid(4), &data).unwrap();
                let other = t.verify_data(&fmt, Tid(5), &data).map_err(|e| e.kind);
                let want = if fmt.has_block_csum() {
                    Err(CorruptKind::JournalDataChecksum)
                } else {
                    Ok(())
                };
                assert_eq!(other, want);
            }
        }
    }

    #[test]
    fn large_numbers_need_64_bits() {
        for fmt in formats() {
            let mut b = vec![0; 1024];
            let mut w = DescriptorBuilder::new(&mut b, fmt, Tid(4));
            assert!(w.push(Pblk(0x5_0000_0006), false, 0));
            w.finish();
            let tag = DescriptorReader::new(&b, &fmt)
                .unwrap()
                .next()
                .unwrap()
                .unwrap();
            assert_eq!(tag.pblk, Pblk(if fmt.bit64 { 0x5_0000_0006 } else { 6 }));
        }
    }

    #[test]
    fn corruptions() {
        for fmt in formats() {
            let mut b = vec![0; 1024];
            let mut w = DescriptorBuilder::new(&mut b, fmt, Tid(4));
            while w.push(Pblk(9), false, 0) {}
            w.finish();
            if fmt.has_block_csum() {
                for at in 12..1024 {
                    b[at] ^= 1;
                    let e = DescriptorReader::new(&b, &fmt).unwrap_err();
                    assert_eq!(e.kind, CorruptKind::JournalTailChecksum);
                    b[at] ^= 1;
                }
            }
            // No UUID flag on the last tag: the UUID would pass the end.
            let at = 12 + 16 + (fmt.tags_per_block() - 1) * fmt.tag_bytes();
            b[at + 4..at + 8].fill(0);
            fmt.tail_checksum_set(&mut b);
            let last = DescriptorReader::new(&b, &fmt).unwrap().last().unwrap();
            assert_eq!(last.unwrap_err().kind, CorruptKind::JournalTagUuid);
        }
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut rng = fastrand::Rng::with_seed(5);
        for fmt in formats() {
            for _ in 0..500 {
                let mut b: Vec<u8> = (0..1024).map(|_| rng.u8(..)).collect();
                JournalHeader {
                    block_type: JournalBlockType::Descriptor,
                    tid: Tid(1),
                }
                .write(&mut b);
                fmt.tail_checksum_set(&mut b);
                DescriptorReader::new(&b, &fmt).unwrap().for_each(|_| ());
            }
        }
    }
}
