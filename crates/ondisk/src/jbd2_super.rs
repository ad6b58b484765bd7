//! The journal superblock.
//!
//! Source: Linux documentation, filesystems/ext4, "Journal (jbd2)", "Super Block".

use bitflags::bitflags;
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{CRC_INIT, crc32c};
use crate::corrupt::{Corrupt, CorruptKind, Result};
use crate::jbd2::{JOURNAL_MAGIC, JournalBlockType, JournalCsum, JournalFormat, JournalHeader};

/// Bytes of the journal superblock.
pub const JOURNAL_SUPER_SIZE: usize = 1024;
/// Blocks of the shortest journal.
pub const JOURNAL_BLOCKS_MIN: u32 = 1024;
/// Fast commit blocks of a journal that does not say.
pub const FAST_COMMIT_BLOCKS_DEFAULT: u32 = 256;
/// Most file systems on an external journal.
pub const JOURNAL_USERS_MAX: usize = 48;

const CHECKSUM_CRC32C: u8 = 4;

bitflags! {
    /// Compatible features of a journal.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct JournalCompat: u32 {
        /// Version 1 checksums: crc32 of the transaction in the commit block.
        const CHECKSUM = 1;
    }
}

bitflags! {
    /// Incompatible features of a journal.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct JournalIncompat: u32 {
        /// Revoke records.
        const REVOKE = 0x1;
        /// 64-bit block numbers.
        const BIT64 = 0x2;
        /// Commit blocks are not waited for.
        const ASYNC_COMMIT = 0x4;
        /// Checksums, version 2.
        const CSUM_V2 = 0x8;
        /// Checksums, version 3.
        const CSUM_V3 = 0x10;
        /// Fast commits.
        const FAST_COMMIT = 0x20;
    }
}

impl JournalIncompat {
    /// Names as dumpe2fs prints them, in bit order.
    pub const NAMES: &[(&str, JournalIncompat)] = &[
        ("journal_incompat_revoke", Self::REVOKE),
        ("journal_64bit", Self::BIT64),
        ("journal_async_commit", Self::ASYNC_COMMIT),
        ("journal_checksum_v2", Self::CSUM_V2),
        ("journal_checksum_v3", Self::CSUM_V3),
        ("journal_fast_commit", Self::FAST_COMMIT),
    ];

    /// Names of the known features that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .iter()
            .filter(move |(_, f)| self.contains(*f))
            .map(|(n, _)| *n)
    }
}

/// Blocks of a journal by mke2fs's table for a file system of so many blocks; 0 means too small for one.
pub fn journal_blocks_default(blocks: u64) -> u32 {
    const TABLE: [(u64, u32); 8] = [
        (2048, 0),
        (32 << 10, 1024),
        (256 << 10, 4096),
        (512 << 10, 8192),
        (4 << 20, 16384),
        (8 << 20, 32768),
        (16 << 20, 65536),
        (32 << 20, 131_072),
    ];
    let row = TABLE.iter().find(|(below, _)| blocks < *below);
    row.map_or(262_144, |(_, n)| *n)
}

/// The journal superblock as it is on disk.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(
    missing_docs,
    reason = "fields carry the names of the format's documentation"
)]
pub struct RawJournalSuper {
    pub magic: U32,
    pub block_type: U32,
    pub header_sequence: U32,
    pub blocksize: U32,
    pub maxlen: U32,
    pub first: U32,
    pub sequence: U32,
    pub start: U32,
    pub errno: U32,
    pub feature_compat: U32,
    pub feature_incompat: U32,
    pub feature_ro_compat: U32,
    pub uuid: [u8; 16],
    pub nr_users: U32,
    pub dynsuper: U32,
    pub max_transaction: U32,
    pub max_trans_data: U32,
    pub checksum_type: u8,
    pub padding2: [u8; 3],
    pub num_fc_blks: U32,
    pub head: U32,
    pub padding: [U32; 40],
    pub checksum: U32,
    pub users: [[u8; 16]; 48],
}

const _: () = assert!(size_of::<RawJournalSuper>() == JOURNAL_SUPER_SIZE);

impl RawJournalSuper {
    /// A version 2 superblock of an empty journal, without features or UUID.
    pub fn new_empty(block_size: u32, blocks: u32) -> Self {
        let mut raw: RawJournalSuper = zerocopy::FromZeros::new_zeroed();
        raw.magic = JOURNAL_MAGIC.into();
        raw.block_type = JournalBlockType::SuperV2.to_raw().into();
        raw.blocksize = block_size.into();
        raw.maxlen = blocks.into();
        raw.first = 1.into();
        raw.sequence = 1.into();
        raw.nr_users = 1.into();
        raw
    }

    /// The checksum that the bytes ought to have.
    pub fn compute_checksum(&self) -> u32 {
        let mut copy = self.clone();
        copy.checksum = 0.into();
        crc32c(CRC_INIT, copy.as_bytes())
    }

    /// The superblock at the front of a block; `None` if that is too short.
    pub fn mut_from(block: &mut [u8]) -> Option<&mut Self> {
        Self::mut_from_prefix(block).ok().map(|(raw, _)| raw)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    fn incompat(&self) -> JournalIncompat {
        if self.block_type.get() == JournalBlockType::SuperV2.to_raw() {
            JournalIncompat::from_bits_retain(self.feature_incompat.get())
        } else {
            JournalIncompat::empty()
        }
    }

    fn has_checksum(&self) -> bool {
        self.incompat()
            .intersects(JournalIncompat::CSUM_V2 | JournalIncompat::CSUM_V3)
    }

    /// Stores the checksum, if the journal has one. The last step before writing.
    pub fn update_checksum(&mut self) {
        if self.has_checksum() {
            self.checksum_type = CHECKSUM_CRC32C;
            self.checksum = self.compute_checksum().into();
        }
    }
}

/// A journal superblock that passed every check.
#[derive(Clone, Debug)]
pub struct JournalSuper {
    /// The bytes, to be changed and written back. Changing features or UUID needs a new parse.
    pub raw: RawJournalSuper,
    /// Compatible features; none in version 1.
    pub compat: JournalCompat,
    /// Incompatible features, all known; none in version 1.
    pub incompat: JournalIncompat,
}

impl JournalSuper {
    /// Parses and checks the first 1024 bytes of a journal whose file system has blocks of
    /// `block_size` bytes.
    ///
    /// # Errors
    /// The `Journal*` kind of the first check that fails.
    pub fn parse(bytes: &[u8], block_size: u32) -> Result<Self> {
        let Ok((raw, _)) = RawJournalSuper::read_from_prefix(bytes) else {
            return Err(CorruptKind::JournalShort.into());
        };
        let header = JournalHeader::read(bytes)?;
        if !matches!(
            header.block_type,
            JournalBlockType::SuperV1 | JournalBlockType::SuperV2
        ) {
            return Err(Corrupt::new(CorruptKind::JournalBlockType).detail(raw.block_type.get()));
        }
        let v2 = header.block_type == JournalBlockType::SuperV2;
        let compat = if v2 { raw.feature_compat.get() } else { 0 };
        let j = JournalSuper {
            compat: JournalCompat::from_bits_retain(compat),
            incompat: raw.incompat(),
            raw,
        };
        j.check_features(v2)?;
        j.check_geometry(block_size)?;
        Ok(j)
    }

    fn check_features(&self, v2: bool) -> Result<()> {
        let fail = |kind, v: u32| Err(Corrupt::new(kind).detail(format_args!("{v:#x}")));
        let unknown = self.incompat.difference(JournalIncompat::all());
        if !unknown.is_empty() {
            return fail(CorruptKind::JournalFeature, unknown.bits());
        }
        let ro = self.raw.feature_ro_compat.get();
        if v2 && ro != 0 {
            return fail(CorruptKind::JournalRoFeature, ro);
        }
        let versions = u32::from(self.incompat.contains(JournalIncompat::CSUM_V2))
            + u32::from(self.incompat.contains(JournalIncompat::CSUM_V3))
            + u32::from(self.raw.has_checksum() && self.compat.contains(JournalCompat::CHECKSUM));
        if versions > 1 {
            return fail(CorruptKind::JournalTwoChecksums, self.incompat.bits());
        }
        if !self.raw.has_checksum() {
            return Ok(());
        }
        if self.raw.checksum_type != CHECKSUM_CRC32C {
            return fail(
                CorruptKind::JournalChecksumType,
                u32::from(self.raw.checksum_type),
            );
        }
        if self.raw.checksum.get() != self.raw.compute_checksum() {
            return fail(CorruptKind::JournalSuperChecksum, self.raw.checksum.get());
        }
        Ok(())
    }

    fn check_geometry(&self, block_size: u32) -> Result<()> {
        let fail = |kind, v: u32| Err(Corrupt::new(kind).detail(v));
        let raw = &self.raw;
        if raw.blocksize.get() != block_size {
            return fail(CorruptKind::JournalBlockSize, raw.blocksize.get());
        }
        let (len, first, start) = (raw.maxlen.get(), raw.first.get(), raw.start.get());
        if len < JOURNAL_BLOCKS_MIN {
            return fail(CorruptKind::JournalMaxLen, len);
        }
        if first == 0 || first >= len {
            return fail(CorruptKind::JournalFirst, first);
        }
        let fast = self.fast_commit_blocks();
        if len
            .checked_sub(fast)
            .is_none_or(|rest| fast > 0 && rest <= first)
        {
            return fail(CorruptKind::JournalFastCommit, fast);
        }
        if start != 0 && (start < first || start >= len - fast) {
            return fail(CorruptKind::JournalStart, start);
        }
        if raw.nr_users.get() as usize > JOURNAL_USERS_MAX {
            return fail(CorruptKind::JournalUsers, raw.nr_users.get());
        }
        Ok(())
    }

    /// The 1024 bytes as they go to disk.
    pub fn bytes(&self) -> &[u8] {
        self.raw.as_bytes()
    }

    /// Blocks at the end that are for fast commits.
    pub fn fast_commit_blocks(&self) -> u32 {
        if !self.incompat.contains(JournalIncompat::FAST_COMMIT) {
            return 0;
        }
        self.wanted_fast_commit_blocks()
    }

    fn wanted_fast_commit_blocks(&self) -> u32 {
        match self.raw.num_fc_blks.get() {
            0 => FAST_COMMIT_BLOCKS_DEFAULT,
            n => n,
        }
    }

    /// Whether enough blocks are left beside those for fast commits; Linux asks for [`JOURNAL_BLOCKS_MIN`].
    pub fn has_room_for_fast_commits(&self) -> bool {
        let left = self
            .raw
            .maxlen
            .get()
            .checked_sub(self.wanted_fast_commit_blocks());
        left.is_some_and(|left| left >= JOURNAL_BLOCKS_MIN)
    }

    /// First block after those of ordinary transactions.
    pub fn log_end(&self) -> u32 {
        self.raw
            .maxlen
            .get()
            .saturating_sub(self.fast_commit_blocks())
    }

    /// The blocks of fast commits: one is left between them and the log.
    pub fn fast_commit_area(&self) -> std::ops::Range<u32> {
        self.log_end().saturating_add(1)..self.raw.maxlen.get()
    }

    /// True if there is nothing to replay.
    pub fn is_empty(&self) -> bool {
        self.raw.start.get() == 0
    }

    /// File systems that use the journal, where it is external.
    pub fn users(&self) -> &[[u8; 16]] {
        self.raw
            .users
            .get(..self.raw.nr_users.get() as usize)
            .unwrap_or(&[])
    }

    /// How transactions are written.
    pub fn format(&self) -> JournalFormat {
        JournalFormat {
            block_size: self.raw.blocksize.get(),
            bit64: self.incompat.contains(JournalIncompat::BIT64),
            csum: if self.incompat.contains(JournalIncompat::CSUM_V3) {
                JournalCsum::V3
            } else if self.incompat.contains(JournalIncompat::CSUM_V2) {
                JournalCsum::V2
            } else if self.compat.contains(JournalCompat::CHECKSUM) {
                JournalCsum::V1
            } else {
                JournalCsum::None
            },
            seed: crc32c(CRC_INIT, &self.raw.uuid),
            uuid: self.raw.uuid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn super_block(f: impl FnOnce(&mut RawJournalSuper)) -> Result<JournalSuper> {
        let mut raw = RawJournalSuper::new_empty(4096, 4096);
        raw.feature_incompat = (JournalIncompat::REVOKE | JournalIncompat::CSUM_V3)
            .bits()
            .into();
        f(&mut raw);
        raw.update_checksum();
        JournalSuper::parse(raw.as_bytes(), 4096)
    }

    #[test]
    fn each_bad_field_has_its_kind() {
        let j = super_block(|_| ()).unwrap();
        assert_eq!(
            (j.format().csum, j.log_end(), j.is_empty()),
            (JournalCsum::V3, 4096, true)
        );
        assert_eq!(
            j.incompat.names().collect::<Vec<_>>(),
            ["journal_incompat_revoke", "journal_checksum_v3"]
        );
        type Change = fn(&mut RawJournalSuper);
        #[rustfmt::skip]
        let cases: [(CorruptKind, Change); 12] = [
            (CorruptKind::JournalMagic, |r| r.magic = 1.into()),
            (CorruptKind::JournalBlockType, |r| r.block_type = 2.into()),
            (CorruptKind::JournalBlockSize, |r| r.blocksize = 1024.into()),
            (CorruptKind::JournalMaxLen, |r| r.maxlen = 1023.into()),
            (CorruptKind::JournalFirst, |r| r.first = 0.into()),
            (CorruptKind::JournalFirst, |r| r.first = 4096.into()),
            (CorruptKind::JournalStart, |r| r.start = 4096.into()),
            (CorruptKind::JournalUsers, |r| r.nr_users = 49.into()),
            (CorruptKind::JournalFeature, |r| { r.feature_incompat = 0x40.into() }),
            (CorruptKind::JournalRoFeature, |r| { r.feature_ro_compat = 1.into() }),
            (CorruptKind::JournalTwoChecksums, |r| { r.feature_incompat = 0x18.into() }),
            (CorruptKind::JournalFastCommit, |r| { r.feature_incompat = 0x30.into(); r.num_fc_blks = 5000.into(); }),
        ];
        for (want, change) in cases {
            assert_eq!(super_block(change).unwrap_err().kind, want);
        }
        assert_eq!(
            JournalSuper::parse(&[0; 1000], 4096).unwrap_err().kind,
            CorruptKind::JournalShort
        );
    }

    #[test]
    fn super_checksum_sees_one_byte() {
        let good = super_block(|_| ()).unwrap().raw;
        for at in 0x54..1024 {
            let mut raw = good.clone();
            raw.as_mut_bytes()[at] ^= 1;
            let e = JournalSuper::parse(raw.as_bytes(), 4096).unwrap_err();
            assert_eq!(e.kind, CorruptKind::JournalSuperChecksum, "{at}");
        }
        let mut raw = good;
        raw.checksum_type = 1;
        let e = JournalSuper::parse(raw.as_bytes(), 4096).unwrap_err();
        assert_eq!(e.kind, CorruptKind::JournalChecksumType);
    }

    #[test]
    fn version_1_has_no_features() {
        let mut raw = RawJournalSuper::new_empty(4096, 4096);
        raw.block_type = 3.into();
        raw.feature_incompat = 0xffff_ffff.into();
        let j = JournalSuper::parse(raw.as_bytes(), 4096).unwrap();
        assert_eq!(
            (j.incompat, j.format().csum),
            (JournalIncompat::empty(), JournalCsum::None)
        );
    }
}
